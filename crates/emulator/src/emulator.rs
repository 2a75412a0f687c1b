//! The emulator: an account behind sockets, started from Rust.
//!
//! ```
//! # async fn start() -> Result<(), sidereal_emulator::StartError> {
//! let emulator = sidereal_emulator::Emulator::builder().partitions(5).start().await?;
//! println!("{}", emulator.connection_string());
//! emulator.shutdown().await;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response, Uri};
use rustls::pki_types::ServerName;
use sidereal_protocol::{AccountKey, ConsistencyLevel, RegionName};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::admin::Admin;
use crate::advertised_host::AdvertisedHost;
use crate::certificate::{Certificate, CertificateError, CertificateNames, load_or_create};
use crate::clock::Clock;
use crate::control::ControlError;
use crate::endpoint::AccountEndpoint;
use crate::grease::Grease;
use crate::options::AccountOptions;
use crate::outcome::ConnectionOutcome;
use crate::region_listeners::{RegionError, RegionListeners, reachable};
use crate::server::{Handler, Limits, Listener, Server, ServerSetup};
use crate::store::persistence::DataDirectoryError;

/// Physical partitions that a new container may be given. Each is a log and a replica per region: a
/// thousand are created in milliseconds.
const MAX_PARTITIONS: u32 = 1000;

/// An account behind sockets: a global listener, and one per region where there are several.
///
/// It runs on the runtime it was started on. Dropping it closes the port and every connection at once;
/// [`shutdown`](Self::shutdown) lets the requests in flight finish first.
#[derive(Debug)]
pub struct Emulator {
    account: Arc<Account>,
    server: Server,
    listeners: Arc<RegionListeners>,
    endpoint: String,
    http_endpoint: String,
    certificate_pem: String,
    certificate_path: Option<PathBuf>,
}

impl Emulator {
    /// An emulator with a free port, the published key and a certificate in memory, unless told otherwise.
    pub fn builder() -> EmulatorBuilder {
        EmulatorBuilder {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            options: AccountOptions::default(),
            region_ports: Vec::new(),
            limits: Limits::default(),
            certificate_directory: None,
            data_directory: None,
        }
    }

    /// The account's address over TLS, such as `https://127.0.0.1:8081/`; with the advertised host, if there
    /// is one.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The account's address in cleartext, on the same port.
    pub fn http_endpoint(&self) -> &str {
        &self.http_endpoint
    }

    /// The key that requests are signed with.
    pub fn key(&self) -> &AccountKey {
        &self.account.options().key
    }

    /// Endpoint and key as one text, key included.
    pub fn connection_string(&self) -> String {
        format!("AccountEndpoint={};AccountKey={};", self.endpoint, self.key().expose_secret())
    }

    /// Each region with its address over TLS, the one that accepts writes first. With one region that is
    /// the account's own address.
    pub fn regions(&self) -> Vec<(RegionName, String)> {
        let host = self.account.options().advertised_host.as_ref();
        let endpoint = |name: &RegionName| match self.listeners.address(name) {
            Some(address) => {
                let host = host.map(|host| host.for_region(name));
                format!("https://{}/", authority(host.as_ref(), address))
            }
            None => self.endpoint.clone(),
        };
        self.account
            .region_names()
            .into_iter()
            .map(|name| (name.clone(), endpoint(&name)))
            .collect()
    }

    /// Closes a region's listener: its connections end and new ones are refused. Replication to it
    /// continues.
    ///
    /// # Errors
    ///
    /// The account has no such region with a port of its own.
    pub fn take_offline(&self, region: &RegionName) -> Result<(), ControlError> {
        self.listeners.take_offline(region)
    }

    /// Opens a region's listener again, on the port it had.
    ///
    /// # Errors
    ///
    /// The account has no such region with a port of its own, or the port was taken meanwhile.
    pub async fn bring_online(&self, region: &RegionName) -> Result<(), RegionError> {
        self.listeners.bring_online(region)
    }

    /// The certificate that the server shows, for clients that want to trust it.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The file that holds the certificate, if a directory for it was given.
    pub fn certificate_path(&self) -> Option<&Path> {
        self.certificate_path.as_deref()
    }

    /// The account itself.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Answers a request without any transport.
    pub fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.account.handle(request)
    }

    /// Stops accepting connections, lets the requests in flight finish, then closes the rest.
    pub async fn shutdown(self) {
        self.listeners.shutdown().await;
        self.server.shutdown().await;
        // A connection that was cut off may hold the account for a moment longer; the directory is free now.
        self.account.close();
    }
}

/// Builds an emulator; see [`Emulator::builder`].
#[derive(Clone, Debug)]
pub struct EmulatorBuilder {
    address: SocketAddr,
    options: AccountOptions,
    region_ports: Vec<u16>,
    limits: Limits,
    certificate_directory: Option<PathBuf>,
    data_directory: Option<PathBuf>,
}

impl EmulatorBuilder {
    /// The port to listen on; 0, the default, takes any that is free.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.address.set_port(port);
        self
    }

    /// The address to listen on; this machine only (127.0.0.1) by default.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address.set_ip(address);
        self
    }

    /// Physical partitions of every new container; by its throughput where this is not set.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.options.partitions = Some(partitions);
        self
    }

    /// The account's regions, each on a port of its own; the first accepts writes.
    #[must_use]
    pub fn regions<N: Into<RegionName>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.options.regions = names.into_iter().map(Into::into).collect();
        self
    }

    /// The ports of the regions, in their order; 0 takes any that is free, and so does every region by default.
    ///
    /// An account with a single region has none beside its own port.
    #[must_use]
    pub fn region_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.region_ports = ports.into_iter().collect();
        self
    }

    /// The host that the account advertises for its regions and its certificate is made out to: for clients
    /// that reach the emulator in a container, or from another machine. The one that a client used by default.
    /// A region that is added later is not in the certificate if it has a host of its own.
    #[must_use]
    pub fn advertise(mut self, host: AdvertisedHost) -> Self {
        self.options.advertised_host = Some(host);
        self
    }

    /// The URL that the account advertises for a region, in place of the host that the client used and the
    /// region's own port: for clients that reach the emulator through a proxy or published ports.
    #[must_use]
    pub fn advertised_url(mut self, region: impl Into<RegionName>, url: Uri) -> Self {
        self.options.advertised_urls.insert(region.into(), url);
        self
    }

    /// Whether every region accepts writes; only the first one does by default.
    #[must_use]
    pub fn multi_write(mut self, enabled: bool) -> Self {
        self.options.multi_write = enabled;
        self
    }

    /// How far the regions that only read are behind; not at all by default.
    #[must_use]
    pub fn replication_delay(mut self, delay: Duration) -> Self {
        self.options.replication_delay = delay;
        self
    }

    /// Whether clients are told to move the writes of a failing partition by themselves.
    #[must_use]
    pub fn partition_failover(mut self, enabled: bool) -> Self {
        self.options.partition_failover = enabled;
        self
    }

    /// Whether clients are told not to hedge across regions.
    #[must_use]
    pub fn hedging_suppressed(mut self, suppressed: bool) -> Self {
        self.options.hedging_suppressed = suppressed;
        self
    }

    /// Whether thin-client locations are listed to clients that ask for them; their probe answers 503.
    #[must_use]
    pub fn thin_client(mut self, listed: bool) -> Self {
        self.options.thin_client = listed;
        self
    }

    /// The account's consistency; session by default.
    #[must_use]
    pub fn consistency(mut self, consistency: ConsistencyLevel) -> Self {
        self.options.consistency = consistency;
        self
    }

    /// The key that requests are signed with; the published emulator key by default.
    #[must_use]
    pub fn key(mut self, key: AccountKey) -> Self {
        self.options.key = key;
        self
    }

    /// Whether requests beyond the provisioned throughput are refused; they are not by default.
    #[must_use]
    pub fn enforce_throughput(mut self, enforce: bool) -> Self {
        self.options.enforce_throughput = enforce;
        self
    }

    /// Where the account gets its time from; the machine's clock by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.options.clock = clock;
        self
    }

    /// Whether any Entra token from anywhere is accepted. By default one has to come from this machine, with
    /// the base64url of the account key as its third segment, as with the published emulator.
    #[must_use]
    pub fn entra_any(mut self, accepted: bool) -> Self {
        self.options.entra_any = accepted;
        self
    }

    /// Answers within the service's contract and as inconveniently as it allows, drawn from a seed: pages that end
    /// anywhere, headers that are missing, fields that are new. [`Grease`] chooses the latitudes.
    ///
    /// ```
    /// use sidereal_emulator::{Emulator, Grease, Latitude};
    ///
    /// let every_latitude = Emulator::builder().grease(7);
    /// let pages_alone = Emulator::builder().grease(Grease::new(7).only([Latitude::ShortPages]));
    /// # drop((every_latitude, pages_alone));
    /// ```
    #[must_use]
    pub fn grease(mut self, grease: impl Into<Grease>) -> Self {
        self.options.grease = Some(grease.into());
        self
    }

    /// HTTP/2 streams that one connection may have open; 20, as the service allows them, by default.
    #[must_use]
    pub fn max_concurrent_streams(mut self, streams: u32) -> Self {
        self.limits.max_concurrent_streams = streams;
        self
    }

    /// A directory that keeps the certificate from one start to the next.
    ///
    /// Without one the certificate is generated at each start and stays in memory.
    #[must_use]
    pub fn certificate_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.certificate_directory = Some(directory.into());
        self
    }

    /// A directory that keeps the account: databases, containers, items, throughput, splits and regions are
    /// there again after a restart, a crash or a loss of power. Fault rules and counters are not.
    ///
    /// A write is answered once it is on disk. Without a directory the account lives in memory.
    #[must_use]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// Starts the emulator on the current tokio runtime; it answers when this returns.
    pub async fn start(self) -> Result<Emulator, StartError> {
        if let Some(partitions) = self.options.partitions
            && !(1..=MAX_PARTITIONS).contains(&partitions)
        {
            return Err(StartError::Partitions { partitions });
        }
        check_regions(&self.options)?;
        check_region_ports(&self)?;
        let (certificate, certificate_path) = self.certificate()?;
        let tls = certificate.server_config().map_err(StartError::certificate)?;
        let account = Arc::new(account(self.options, self.data_directory).await?);
        // The port that was asked for before those that the system chooses. No connection is accepted on it
        // until the regions have their ports, which the account advertises.
        let bind_failed = |source| StartError::bind(self.address, source);
        let listener = Listener::bind(self.address).map_err(bind_failed)?;
        let region_addresses = (self.address.ip(), self.region_ports.as_slice());
        let listeners = RegionListeners::start(&account, region_addresses, &tls, self.limits)
            .map_err(|(address, source)| StartError::bind(address, source))?;
        let listeners = Arc::new(listeners);
        let stop = CancellationToken::new();
        let handler = GlobalHandler::new(&account, &listeners, stop.clone());
        let setup = ServerSetup { tls, handler, limits: self.limits, stop };
        let server = Server::start(listener, setup).map_err(bind_failed)?;
        let host = account.options().advertised_host.as_ref();
        let authority = authority(host, reachable(server.address()));
        Ok(Emulator {
            account,
            server,
            listeners,
            endpoint: format!("https://{authority}/"),
            http_endpoint: format!("http://{authority}/"),
            certificate_pem: certificate.pem().to_owned(),
            certificate_path,
        })
    }

    /// The names of the account and of the regions that it begins with.
    fn advertised_names(&self) -> Vec<ServerName<'static>> {
        let Some(host) = &self.options.advertised_host else { return Vec::new() };
        let regions = self.options.regions.iter().map(|region| host.for_region(region));
        std::iter::once(host.clone()).chain(regions).map(|it| it.server_name().clone()).collect()
    }

    fn certificate(&self) -> Result<(Certificate, Option<PathBuf>), StartError> {
        let now = SystemTime::now();
        let names = CertificateNames::new(self.address.ip(), self.advertised_names());
        let Some(directory) = &self.certificate_directory else {
            let certificate =
                Certificate::generate(now, &names).map_err(StartError::certificate)?;
            return Ok((certificate, None));
        };
        let stored = load_or_create(directory, now, &names).map_err(|source| {
            StartError::CertificateDirectory {
                directory: directory.clone(),
                source: Box::new(source),
            }
        })?;
        Ok((stored.certificate, Some(stored.path)))
    }
}

/// An account in memory, or the one that a directory keeps.
async fn account(
    options: AccountOptions,
    directory: Option<PathBuf>,
) -> Result<Account, StartError> {
    let Some(directory) = directory else { return Ok(Account::new(options)) };
    // Reading a large account takes a while, and other tasks of the runtime have work to do.
    let opened = tokio::task::spawn_blocking(move || Account::open(options, &directory)).await;
    match opened {
        Ok(opened) => Ok(opened?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// The handler of the global endpoint: the admin API, and the account.
struct GlobalHandler {
    admin: Admin,
    account: AccountEndpoint,
}

impl GlobalHandler {
    fn new(
        account: &Arc<Account>,
        listeners: &Arc<RegionListeners>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            admin: Admin::new(Arc::clone(account), Arc::clone(listeners)),
            account: AccountEndpoint::global(Arc::clone(account)).offloading().closed_by(stop),
        }
    }
}

impl Handler for GlobalHandler {
    async fn handle(&self, request: Request<Bytes>) -> ConnectionOutcome {
        // Fault rules do not apply to the admin API: one could not be removed otherwise.
        if Admin::is_for(&request) {
            return ConnectionOutcome::Response(self.admin.handle(&request));
        }
        self.account.send(request).await
    }
}

/// Every region is named once, and every advertised URL is one of a region and can be connected to.
fn check_regions(options: &AccountOptions) -> Result<(), StartError> {
    let names = &options.regions;
    let refuse = |problem: String| Err(StartError::Regions { problem });
    let repeated = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    if let Some((_, name)) = repeated {
        return refuse(format!("{name} is named twice"));
    }
    if names.is_empty() {
        return refuse("none is named".to_owned());
    }
    for (region, url) in &options.advertised_urls {
        if !names.contains(region) {
            return refuse(format!("{region} has a URL and is not among them"));
        }
        if url.scheme().is_none() || url.authority().is_none() {
            return refuse(format!("the URL of {region} is not absolute"));
        }
    }
    Ok(())
}

/// Every region with a port of its own has one, and no port is given twice.
fn check_region_ports(builder: &EmulatorBuilder) -> Result<(), StartError> {
    let ports = &builder.region_ports;
    let regions = builder.options.regions.len();
    let refuse = |problem: String| Err(StartError::RegionPorts { problem });
    if ports.is_empty() {
        return Ok(());
    }
    if regions == 1 {
        return refuse("an account with a single region has no port beside its own".to_owned());
    }
    if ports.len() != regions {
        return refuse(format!("there are {regions} regions and {} ports", ports.len()));
    }
    let taken = |index: usize, port: u16| {
        port != 0 && (port == builder.address.port() || ports[..index].contains(&port))
    };
    match ports.iter().enumerate().find(|(index, port)| taken(*index, **port)) {
        Some((_, port)) => refuse(format!("{port} is given twice")),
        None => Ok(()),
    }
}

/// The authority of a listener's URLs: the advertised host, or the address where it is reached.
fn authority(host: Option<&AdvertisedHost>, reachable: SocketAddr) -> String {
    match host {
        Some(host) => format!("{host}:{}", reachable.port()),
        None => reachable.to_string(),
    }
}

/// Why an emulator did not start; the text says what to change.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another program listens on the port.
    #[error(
        "port {port} is in use: stop the program that listens on it, \
         or start the emulator on another port (--port 0 takes any that is free)"
    )]
    PortInUse {
        /// The port that was asked for.
        port: u16,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: give an address of this machine, and a port that you may use \
         (--port 0 takes any that is free)"
    )]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The number of partitions cannot be had.
    #[error(
        "a container cannot have {partitions} physical partitions: give a number from 1 to {MAX_PARTITIONS}"
    )]
    Partitions {
        /// The number that was asked for.
        partitions: u32,
    },
    /// The regions cannot be had.
    #[error(
        "the account cannot have these regions, for {problem}: name each region once, and give URLs such \
         as https://localhost:8082/"
    )]
    Regions {
        /// The reason.
        problem: String,
    },
    /// The regions cannot have these ports.
    #[error(
        "the regions cannot have these ports, for {problem}: give one for each region, in their order \
         (--region-ports 8082,8083); 0 takes any that is free"
    )]
    RegionPorts {
        /// The reason.
        problem: String,
    },
    /// The certificate cannot be kept in the directory.
    #[error(
        "the certificate cannot be kept in {}: make that directory writable, or give another one \
         (--certificate-dir)",
        directory.display()
    )]
    CertificateDirectory {
        /// The directory that was asked for.
        directory: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The account cannot be kept in the directory.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The certificate cannot be made or used.
    #[error("the emulator's certificate cannot be made")]
    Certificate {
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StartError {
    fn bind(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse { port: address.port(), source },
            _ => Self::Listen { address, source },
        }
    }

    fn certificate(source: CertificateError) -> Self {
        Self::Certificate { source: Box::new(source) }
    }
}
