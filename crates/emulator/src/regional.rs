//! The regions' own ports: each opens and closes by itself, and comes back on the port it had.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use sidereal_protocol::RegionName;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::account::Account;
use crate::control::UnknownName;
use crate::emulator::reachable;
use crate::outcome::Outcome;
use crate::server::{Limits, Server};

/// A server per region; none where the account has a single region, which its global port serves.
#[derive(Debug)]
pub(crate) struct RegionalServers {
    account: Arc<Account>,
    tls: Arc<ServerConfig>,
    limits: Limits,
    doors: Mutex<Vec<Door>>,
}

/// A region's port, open or closed.
#[derive(Debug)]
struct Door {
    region: RegionName,
    address: SocketAddr,
    server: Option<Server>,
}

/// Why a region's port was not opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The account has no such region with a port of its own.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// Another program took the port meanwhile.
    #[error("the port of {region} cannot be opened again: another program took {address}")]
    Port {
        /// The region.
        region: RegionName,
        /// The address it had.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl RegionalServers {
    /// Opens a port for each region of an account that has several.
    pub(crate) fn start(
        account: &Arc<Account>,
        ip: IpAddr,
        tls: &Arc<ServerConfig>,
        limits: Limits,
    ) -> io::Result<Self> {
        let doors = Mutex::new(Vec::new());
        let servers = Self { account: Arc::clone(account), tls: Arc::clone(tls), limits, doors };
        let names = account.region_names();
        if names.len() > 1 {
            for region in names {
                let server = servers.listen(&region, SocketAddr::new(ip, 0))?;
                let address = server.address();
                account.set_port(&region, address.port()).map_err(io::Error::other)?;
                servers.doors().push(Door { region, address, server: Some(server) });
            }
        }
        Ok(servers)
    }

    /// Where a client on this machine reaches a region.
    pub(crate) fn address(&self, region: &RegionName) -> Option<SocketAddr> {
        let doors = self.doors();
        doors.iter().find(|door| door.region == *region).map(|door| reachable(door.address))
    }

    /// Closes a region's port and every connection to it.
    pub(crate) fn take_offline(&self, region: &RegionName) -> Result<(), UnknownName> {
        let mut doors = self.doors();
        let door = doors.iter_mut().find(|door| door.region == *region);
        let door = door.ok_or_else(|| no_port(region))?;
        self.account.set_online(region, false)?;
        door.server = None;
        Ok(())
    }

    /// Opens a region's port again; an open one stays as it is.
    pub(crate) fn bring_online(&self, region: &RegionName) -> Result<(), RegionError> {
        let mut doors = self.doors();
        let door = doors.iter_mut().find(|door| door.region == *region);
        let door = door.ok_or_else(|| no_port(region))?;
        if door.server.is_none() {
            let server = self.listen(region, door.address).map_err(|source| RegionError::Port {
                region: region.clone(),
                address: door.address,
                source,
            })?;
            door.server = Some(server);
        }
        Ok(self.account.set_online(region, true)?)
    }

    /// Lets the requests in flight finish, in every region.
    pub(crate) async fn shutdown(&self) {
        let servers: Vec<Server> =
            self.doors().iter_mut().filter_map(|door| door.server.take()).collect();
        for server in servers {
            server.shutdown().await;
        }
    }

    fn listen(&self, region: &RegionName, address: SocketAddr) -> io::Result<Server> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let (account, region) = (Arc::clone(&self.account), region.clone());
        // A request that was already inside when its region's door closed breaks off with it.
        let handler = Arc::new(move |request| {
            account.outcome(Some(&region), request).unwrap_or(Outcome::Reset)
        });
        let listener = TcpListener::from_std(listener)?;
        Server::start(listener, Arc::clone(&self.tls), handler, self.limits)
    }

    fn doors(&self) -> MutexGuard<'_, Vec<Door>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_port(region: &RegionName) -> UnknownName {
    UnknownName::new(format!(
        "{region} has no port of its own: start the account with several regions"
    ))
}
