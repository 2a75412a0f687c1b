//! From flags and variables to an endpoint and where its key comes from. Nothing here reads a file or a terminal.

use std::path::PathBuf;

use http::Uri;
use sidereal::options::{Layer, Setting, Source};
use sidereal_protocol::{ConnectionString, Secret};

use crate::failure::{ExitStatus, Failure};

/// Where an emulator, ours or another, listens.
pub(super) const EMULATOR_ENDPOINT: &str = "https://localhost:8081/";

/// The prefixes of a variable's name: the provider's, its alias, and the client's.
const PREFIXES: [&str; 3] = ["COSMOSDB_", "COSMOS_", "AZURE_COSMOS_"];

pub(super) const ENDPOINT_HINT: &str =
    "an endpoint is written https://HOST/ or, of an emulator, http://HOST:PORT/";

/// The account flags of the command line.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) emulator: bool,
    pub(super) endpoint: Option<String>,
    pub(super) key_file: Option<PathBuf>,
}

/// An account, and where to find its key.
#[derive(Debug, PartialEq)]
pub(super) struct Selection {
    pub(super) endpoint: String,
    pub(super) key: KeySource,
}

#[derive(Debug, PartialEq)]
pub(super) enum KeySource {
    /// A variable's.
    Given(Secret),
    File(PathBuf),
    /// The key of every Cosmos DB emulator, which is published.
    Published,
    /// Nothing names it: somebody at the terminal has to.
    Prompt,
}

/// Decides on the account: a flag wins over the connection string, that over endpoint and key, and an environment
/// that says nothing means the emulator on this machine.
pub(super) fn select(
    wanted: &Wanted,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Selection, Failure> {
    let set = |name: &str| {
        let value = |prefix| variable(&format!("{prefix}{name}"));
        PREFIXES.into_iter().find_map(|prefix| value(prefix).filter(|text| !text.trim().is_empty()))
    };
    let file = wanted.key_file.clone().map(KeySource::File);
    if wanted.emulator {
        let key = file.unwrap_or(KeySource::Published);
        return Ok(Selection { endpoint: EMULATOR_ENDPOINT.to_owned(), key });
    }
    let connection = match (&wanted.endpoint, set("CONNECTION_STRING")) {
        (None, Some(text)) => Some(connection_string(&text)?),
        (Some(_), _) | (None, None) => None,
    };
    if let Some((endpoint, key)) = connection {
        return Ok(Selection { endpoint, key: file.unwrap_or(KeySource::Given(key)) });
    }
    let endpoint = wanted.endpoint.clone().or_else(|| set("ENDPOINT"));
    let endpoint = endpoint.unwrap_or_else(|| EMULATOR_ENDPOINT.to_owned());
    if !endpoint.starts_with("http") || host(&endpoint).is_none() {
        let sentence = format!("{endpoint} is no endpoint of an account");
        return Err(Failure::new(ExitStatus::InvalidInput, sentence).with_hint(ENDPOINT_HINT));
    }
    let key = match file.or_else(|| set("KEY").map(|key| KeySource::Given(key.trim().into()))) {
        Some(key) => key,
        None if is_local(&endpoint) => KeySource::Published,
        None => KeySource::Prompt,
    };
    Ok(Selection { endpoint, key })
}

/// The account's environment variables, as rows beside those of the driver's settings.
pub(crate) fn account_settings(variable: impl Fn(&str) -> Option<String>) -> Vec<Setting> {
    let setting = |name: &str, variables: [&'static str; 3], default: Option<&str>, description| {
        let found =
            variables.iter().find_map(|name| variable(name).filter(|it| !it.trim().is_empty()));
        let (value, source) = match (found, default) {
            // A key is not shown, and neither is what holds one.
            (Some(_), None) => (Some("(redacted)".to_owned()), Source::Layer(Layer::Environment)),
            (Some(value), Some(_)) => (Some(value), Source::Layer(Layer::Environment)),
            (None, Some(default)) => (Some(default.to_owned()), Source::Default),
            (None, None) => (None, Source::Unset),
        };
        let name = format!("command.{name}");
        Setting { name, value, source, variables: variables.to_vec(), description }
    };
    vec![
        setting(
            "connection_string",
            [
                "COSMOSDB_CONNECTION_STRING",
                "COSMOS_CONNECTION_STRING",
                "AZURE_COSMOS_CONNECTION_STRING",
            ],
            None,
            "Endpoint and key of the account that commands work on. Wins over the two below.",
        ),
        setting(
            "endpoint",
            ["COSMOSDB_ENDPOINT", "COSMOS_ENDPOINT", "AZURE_COSMOS_ENDPOINT"],
            Some(EMULATOR_ENDPOINT),
            "Endpoint of the account that commands work on, unless --endpoint names another.",
        ),
        setting(
            "key",
            ["COSMOSDB_KEY", "COSMOS_KEY", "AZURE_COSMOS_KEY"],
            None,
            "Key of the account, unless --key-file names a file that holds it.",
        ),
    ]
}

fn connection_string(text: &str) -> Result<(String, Secret), Failure> {
    // The parser's sentences do not repeat the text, which is a secret.
    let parsed: ConnectionString = text.trim().parse().map_err(|error| {
        let sentence = format!("COSMOSDB_CONNECTION_STRING: {error}");
        Failure::new(ExitStatus::InvalidInput, sentence)
            .with_hint("write it as the portal shows it: AccountEndpoint=https://…;AccountKey=…;")
    })?;
    Ok((parsed.endpoint().to_string(), Secret::from(parsed.key().expose_secret().to_owned())))
}

/// The host of an endpoint; `None` where it is no address.
pub(super) fn host(endpoint: &str) -> Option<String> {
    let uri: Uri = endpoint.parse().ok()?;
    uri.host().map(|host| host.trim_matches(['[', ']']).to_ascii_lowercase())
}

/// Whether an endpoint is on this machine.
pub(super) fn is_local(endpoint: &str) -> bool {
    host(endpoint).is_some_and(|host| {
        let address: Option<std::net::IpAddr> = host.parse().ok();
        host == "localhost" || address.is_some_and(|address| address.is_loopback())
    })
}

/// Whether an endpoint is the service's own, whose certificates are always verified.
pub(super) fn is_service(endpoint: &str) -> bool {
    const DOMAINS: [&str; 4] = [".azure.com", ".azure.cn", ".azure.us", ".azure.de"];
    host(endpoint).is_some_and(|host| DOMAINS.iter().any(|domain| host.ends_with(domain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = "https://contoso.documents.azure.com/";

    fn selected(wanted: &Wanted, variables: &[(&str, &str)]) -> Selection {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        select(wanted, variable).unwrap()
    }

    fn given(key: &str) -> KeySource {
        KeySource::Given(key.into())
    }

    #[test]
    fn an_environment_that_says_nothing_means_the_emulator() {
        let selection = selected(&Wanted::default(), &[("COSMOSDB_ENDPOINT", " ")]);
        assert_eq!(selection.endpoint, EMULATOR_ENDPOINT);
        assert_eq!(selection.key, KeySource::Published);
    }

    #[test]
    fn every_spelling_of_a_variable_is_read_the_provider_s_first() {
        for prefix in PREFIXES {
            let (endpoint, key) = (format!("{prefix}ENDPOINT"), format!("{prefix}KEY"));
            let variables = [(&*endpoint, ACCOUNT), (&*key, "c2VjcmV0")];
            let selection = selected(&Wanted::default(), &variables);
            assert_eq!(selection, Selection { endpoint: ACCOUNT.into(), key: given("c2VjcmV0") });
        }
        let both = [("AZURE_COSMOS_KEY", "YQ=="), ("COSMOSDB_KEY", "Yg==")];
        assert_eq!(selected(&Wanted::default(), &both).key, given("Yg=="));
    }

    #[test]
    fn a_flag_wins_over_the_connection_string_and_that_over_endpoint_and_key() {
        let text = format!("AccountEndpoint={ACCOUNT};AccountKey=c2VjcmV0;");
        let variables = [
            ("COSMOSDB_CONNECTION_STRING", &*text),
            ("COSMOSDB_ENDPOINT", "https://other.example/"),
            ("COSMOSDB_KEY", "YQ=="),
        ];
        let by_string = selected(&Wanted::default(), &variables);
        assert_eq!(by_string, Selection { endpoint: ACCOUNT.into(), key: given("c2VjcmV0") });
        let flag = Wanted { endpoint: Some("http://[::1]:8081/".into()), ..Wanted::default() };
        assert_eq!(selected(&flag, &variables).endpoint, "http://[::1]:8081/");
        assert_eq!(selected(&flag, &variables).key, given("YQ=="));
        let file = Wanted { key_file: Some("key".into()), ..Wanted::default() };
        assert_eq!(selected(&file, &variables).key, KeySource::File("key".into()));
        let emulator = Wanted { emulator: true, ..Wanted::default() };
        let expected = Selection { endpoint: EMULATOR_ENDPOINT.into(), key: KeySource::Published };
        assert_eq!(selected(&emulator, &variables), expected);
    }

    #[test]
    fn an_account_elsewhere_whose_key_nobody_names_is_asked_for() {
        for (endpoint, key) in [
            (ACCOUNT, KeySource::Prompt),
            ("http://127.0.0.1:1/", KeySource::Published),
            ("https://LOCALHOST:1/", KeySource::Published),
            ("https://localhost.example/", KeySource::Prompt),
        ] {
            let wanted = Wanted { endpoint: Some(endpoint.into()), ..Wanted::default() };
            assert_eq!(selected(&wanted, &[]).key, key, "{endpoint}");
        }
    }

    #[test]
    fn a_malformed_connection_string_is_not_repeated() {
        let variable = |name: &str| {
            (name == "COSMOSDB_CONNECTION_STRING").then(|| "AccountKey=half-a-secret?".to_owned())
        };
        let failure = select(&Wanted::default(), variable).unwrap_err();
        let told = format!("{failure} {failure:?}");
        assert!(
            told.contains("COSMOSDB_CONNECTION_STRING") && !told.contains("half-a-secret"),
            "{told}"
        );
    }

    #[test]
    fn an_endpoint_is_an_address() {
        for wrong in ["nonsense", "localhost:8081", "ftp://contoso/", ""] {
            let wanted = Wanted { endpoint: Some(wrong.into()), ..Wanted::default() };
            let failure = select(&wanted, |_| None).unwrap_err();
            assert_eq!(failure.status(), ExitStatus::InvalidInput, "{wrong}");
        }
    }

    #[test]
    fn the_table_of_settings_shows_no_secret() {
        let set =
            [("COSMOS_KEY", "c2VjcmV0"), ("COSMOSDB_CONNECTION_STRING", "AccountKey=c2VjcmV0")];
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let rows = account_settings(variable);
        let sources: Vec<String> = rows.iter().map(|row| row.source.to_string()).collect();
        assert_eq!(sources, ["environment", "default", "environment"]);
        assert_eq!(rows[1].value.as_deref(), Some(EMULATOR_ENDPOINT));
        assert!(!format!("{rows:?}").contains("c2VjcmV0"), "{rows:?}");
        for row in rows {
            let known = PREFIXES.iter().zip(&row.variables);
            assert!(known.into_iter().all(|(prefix, name)| name.starts_with(prefix)), "{row:?}");
        }
    }

    #[test]
    fn the_service_s_own_hosts_are_known() {
        assert!(is_service(ACCOUNT) && is_service("https://a.documents.azure.cn:443/"));
        assert!(
            !is_service("https://azure.com.example/") && !is_service("https://localhost:8081/")
        );
    }
}
