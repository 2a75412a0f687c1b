//! How the application presents itself to an account, and how it reaches it.

use std::collections::BTreeSet;

use sidereal_protocol::ENTRA_SCOPE;

use crate::CosmosOptions;

/// Identity and endpoints.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct CosmosAccountOptions {
    /// The application's name; part of the user agent.
    #[option(env = "AZURE_COSMOS_APPLICATION_NAME")]
    pub application_name: Option<String>,

    /// Endpoints from which the account can be read when its global endpoint does not answer.
    #[option(env = "AZURE_COSMOS_CUSTOM_ENDPOINTS")]
    pub custom_endpoints: Option<BTreeSet<String>>,

    /// Whether requests go to the regional endpoints that the account names. Without it they stay at the endpoint
    /// given: for emulators behind forwarded ports, and private links with one name.
    #[option(env = "AZURE_COSMOS_ENDPOINT_DISCOVERY_ENABLED", default = true)]
    pub endpoint_discovery: Option<bool>,

    /// Hosts that the account's regional endpoints may have beside those next to the endpoint given, which are the only
    /// ones used otherwise: names, or suffixes such as `.documents.azure.com`.
    #[option(env = "AZURE_COSMOS_LOCATION_HOSTS")]
    pub location_hosts: Option<BTreeSet<String>>,

    /// The scope of Entra tokens. Sovereign clouds and accounts with an audience of their own need
    /// `https://{host of the account}/.default`.
    #[option(env = "AZURE_COSMOS_AAD_SCOPE_OVERRIDE", default = ENTRA_SCOPE.to_owned())]
    pub entra_scope: Option<String>,

    /// Reads a local quorum where the account's consistency is weaker than the request asks for.
    #[option(env = "AZURE_COSMOS_ENABLE_UPGRADE_CONSISTENCY_TO_LOCAL_QUORUM", default = false)]
    pub enable_upgrade_consistency_to_local_quorum: Option<bool>,
}
