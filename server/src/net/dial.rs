//! Names to sockets: listening with retries, and connecting with the name resolved anew each time (invariant 12).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use crate::config::HostPort;

/// How often a port in use is tried again, and how long between.
const BIND_PAUSE: Duration = Duration::from_secs(1);
/// Waiting connections unless the configuration says otherwise; upstream leaves it to Java, which takes 50.
const DEFAULT_BACKLOG: u32 = 1024;

/// What to listen on.
#[derive(Clone, Debug)]
pub struct Listen {
    pub address: HostPort,
    /// Take every interface instead of the address (`quorumListenOnAllIPs`).
    pub all_interfaces: bool,
    pub backlog: Option<u32>,
    /// Further attempts when the port is taken; `None`: without end.
    pub retries: Option<u32>,
    pub keep_alive: bool,
}

impl Listen {
    /// Opens the listener. A name that does not resolve is waited for without end, because in a cluster a member's own
    /// name appears some time after its process; a port that stays in use is an error.
    pub async fn open(&self, what: &str) -> io::Result<TcpListener> {
        let mut tries_left = self.retries;
        loop {
            let address = match self.resolve().await {
                Ok(address) => address,
                Err(error) => {
                    warn!("{what}: {} does not resolve yet: {error}", self.address);
                    sleep(BIND_PAUSE).await;
                    continue;
                }
            };
            match self.bind_any(address) {
                Ok(listener) => {
                    info!("{what}: listening on {}", listener.local_addr()?);
                    return Ok(listener);
                }
                Err(error) if tries_left == Some(0) => return Err(error),
                Err(error) => warn!("{what}: cannot listen on {address}: {error}; trying again"),
            }
            tries_left = tries_left.map(|left| left - 1);
            sleep(BIND_PAUSE).await;
        }
    }

    async fn resolve(&self) -> io::Result<SocketAddr> {
        if self.all_interfaces || self.address.is_wildcard() {
            return Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.address.port)));
        }
        let mut found = lookup_host((self.address.host.as_str(), self.address.port)).await?;
        found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address"))
    }

    /// "Every interface" means both families, as Java has it; without IPv6 on this machine, the other one.
    fn bind_any(&self, address: SocketAddr) -> io::Result<TcpListener> {
        match self.bind(address) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse && address.ip().is_unspecified() => {
                self.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
            }
            other => other,
        }
    }

    fn bind(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let socket = socket_for(address)?;
        // A restart must not wait for connections of its predecessor to leave TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.set_keepalive(self.keep_alive)?;
        socket.bind(address)?;
        socket.listen(self.backlog.unwrap_or(DEFAULT_BACKLOG))
    }
}

/// Connects to the first of `addresses` that answers, each name resolved now, within `limit` in all. Each address has
/// its share of the time, so that one that swallows packets does not keep the others from being tried. The socket sends
/// at once (`TCP_NODELAY`) and, with `keep_alive`, notices a peer that vanished (`tcpKeepAlive`).
///
/// # Errors
/// The last address's error; `TimedOut` if it did not answer.
pub async fn connect(addresses: &[HostPort], limit: Duration, keep_alive: bool) -> io::Result<TcpStream> {
    let deadline = Instant::now() + limit;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address to connect to");
    for (index, address) in addresses.iter().enumerate() {
        let until = Instant::now() + share(deadline, addresses.len() - index);
        match connect_name(address, until, keep_alive).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
    Err(last)
}

async fn connect_name(address: &HostPort, until: Instant, keep_alive: bool) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> =
        within(until, lookup_host((address.host.as_str(), address.port))).await?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (index, resolved) in found.iter().enumerate() {
        let until = Instant::now() + share(until, found.len() - index);
        match within(until, connect_one(*resolved, keep_alive)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The part of the time left that one of `candidates` may take.
fn share(deadline: Instant, candidates: usize) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    left / u32::try_from(candidates).unwrap_or(u32::MAX).max(1)
}

async fn within<T>(until: Instant, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout_at(until, work).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
    }
}

async fn connect_one(address: SocketAddr, keep_alive: bool) -> io::Result<TcpStream> {
    let socket = socket_for(address)?;
    socket.set_keepalive(keep_alive)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn socket_for(address: SocketAddr) -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}
