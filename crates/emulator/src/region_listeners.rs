//! The regions' listeners: each opens and closes by itself, and comes back on the port it had.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use sidereal_protocol::RegionName;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::control::ControlError;
use crate::endpoint::AccountEndpoint;
use crate::server::{Limits, Listener, Server, ServerSetup};

/// A server per region; none where the account has a single region, which its global port serves.
#[derive(Debug)]
pub(crate) struct RegionListeners {
    account: Arc<Account>,
    tls: Arc<ServerConfig>,
    limits: Limits,
    listeners: Mutex<Vec<RegionListener>>,
}

/// A region's listener.
#[derive(Debug)]
struct RegionListener {
    region: RegionName,
    /// Kept while the region is offline: it comes back here.
    address: SocketAddr,
    /// `None` while the region is offline.
    server: Option<Server>,
}

/// Why a region's listener was not opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The account has no such region with a port of its own.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Another program took the port meanwhile.
    #[error("the port of {region} cannot be opened again: another program took {address}")]
    Port {
        /// The region.
        region: RegionName,
        /// The address it had.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl RegionListeners {
    /// Opens a port for each region of an account that has several: those of `ports` in the regions' order,
    /// and any that is free for a region without one. The error names the address that it is about.
    pub(crate) fn start(
        account: &Arc<Account>,
        (ip, ports): (IpAddr, &[u16]),
        tls: &Arc<ServerConfig>,
        limits: Limits,
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let listeners = Self {
            account: Arc::clone(account),
            tls: Arc::clone(tls),
            limits,
            listeners: Mutex::default(),
        };
        let names = account.region_names();
        if names.len() > 1 {
            for (index, region) in names.into_iter().enumerate() {
                let asked = SocketAddr::new(ip, ports.get(index).copied().unwrap_or(0));
                let failed = |source| (asked, source);
                let server = listeners.listen(&region, asked).map_err(failed)?;
                let address = server.address();
                let port = account.set_port(&region, address.port());
                port.map_err(|why| failed(io::Error::other(why)))?;
                let listener = RegionListener { region, address, server: Some(server) };
                listeners.lock().push(listener);
            }
        }
        Ok(listeners)
    }

    /// Where a client on this machine reaches a region.
    pub(crate) fn address(&self, region: &RegionName) -> Option<SocketAddr> {
        let listeners = self.lock();
        let listener = listeners.iter().find(|listener| listener.region == *region);
        listener.map(|listener| reachable(listener.address))
    }

    /// Closes a region's port and every connection to it.
    pub(crate) fn take_offline(&self, region: &RegionName) -> Result<(), ControlError> {
        // Held for the whole change, so that listener and topology agree however many change them at once.
        // Lock order: listeners before topology.
        let mut listeners = self.lock();
        self.account.known_region(region)?;
        let listener = find(&mut listeners, region)?;
        self.account.set_online(region, false)?;
        listener.server = None; // Dropping the server closes its connections.
        Ok(())
    }

    /// Opens a region's port again; an open one stays as it is.
    pub(crate) fn bring_online(&self, region: &RegionName) -> Result<(), RegionError> {
        // Held for the whole change, so that listener and topology agree however many change them at once.
        // Lock order: listeners before topology.
        let mut listeners = self.lock();
        self.account.known_region(region)?;
        let listener = find(&mut listeners, region)?;
        if listener.server.is_none() {
            let address = listener.address;
            let opened = self.listen(region, address);
            listener.server = Some(opened.map_err(|source| RegionError::Port {
                region: region.clone(),
                address,
                source,
            })?);
        }
        Ok(self.account.set_online(region, true)?)
    }

    /// Lets the requests in flight finish, in every region.
    pub(crate) async fn shutdown(&self) {
        let servers: Vec<Server> =
            self.lock().iter_mut().filter_map(|listener| listener.server.take()).collect();
        for server in servers {
            server.shutdown().await;
        }
    }

    fn listen(&self, region: &RegionName, address: SocketAddr) -> io::Result<Server> {
        let stop = CancellationToken::new();
        let endpoint = AccountEndpoint::of_region(Arc::clone(&self.account), region.clone());
        let setup = ServerSetup {
            tls: Arc::clone(&self.tls),
            handler: endpoint.offloading().closed_by(stop.clone()),
            limits: self.limits,
            stop,
        };
        Server::start(Listener::bind(address)?, setup)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RegionListener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a>(
    listeners: &'a mut [RegionListener],
    region: &RegionName,
) -> Result<&'a mut RegionListener, ControlError> {
    let listener = listeners.iter_mut().find(|listener| listener.region == *region);
    listener.ok_or_else(|| ControlError::NoOwnPort { region: region.clone() })
}

/// Where a client on this machine reaches a listener: one that listens on every interface is on the
/// loopback too.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
