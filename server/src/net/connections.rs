//! Who is connected: counts for `maxClientCnxns` and `maxCnxns`, and what `cons`, `stat` and the admin commands show.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use zk_core::client::ConnInfo;
use zk_core::input::ConnId;

/// One connection as others see it: its task leaves a picture here after each round of work.
#[derive(Debug)]
pub struct ConnView {
    pub remote: SocketAddr,
    info: Mutex<Option<ConnInfo>>,
    reset: AtomicBool,
}

impl ConnView {
    /// The newest picture; `None` until the connection has done anything.
    pub fn info(&self) -> Option<ConnInfo> {
        self.info.lock().clone()
    }

    /// Leaves a picture.
    pub fn publish(&self, info: ConnInfo) {
        *self.info.lock() = Some(info);
    }

    /// Asks the task to count anew (`crst`).
    pub fn ask_reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// True once for each [`Self::ask_reset`].
    pub fn take_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed) && self.reset.swap(false, Ordering::Relaxed)
    }
}

/// All client connections.
#[derive(Debug)]
pub struct Connections {
    state: Mutex<State>,
    max_per_ip: usize,
    max_total: usize,
    /// Requests of all connections that are not answered yet.
    outstanding: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<ConnId, Arc<ConnView>>,
    per_ip: HashMap<IpAddr, usize>,
}

/// A place among the connections, given back when dropped.
#[derive(Debug)]
pub struct Admission {
    connections: Arc<Connections>,
    pub conn: ConnId,
    pub view: Arc<ConnView>,
    /// This connection's part of [`Connections::outstanding`].
    outstanding: usize,
}

impl Admission {
    /// Tells how many requests of this connection are not answered.
    pub fn set_outstanding(&mut self, count: usize) {
        let total = &self.connections.outstanding;
        if count > self.outstanding {
            total.fetch_add(count - self.outstanding, Ordering::Relaxed);
        } else if count < self.outstanding {
            total.fetch_sub(self.outstanding - count, Ordering::Relaxed);
        }
        self.outstanding = count;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.set_outstanding(0);
        let mut state = self.connections.state.lock();
        state.open.remove(&self.conn);
        let ip = self.view.remote.ip();
        if let Some(count) = state.per_ip.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                state.per_ip.remove(&ip);
            }
        }
    }
}

impl Connections {
    /// Limits of 0 are none.
    pub fn new(max_per_ip: usize, max_total: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), max_per_ip, max_total, outstanding: AtomicUsize::new(0) })
    }

    /// Takes a connection in; the error says which limit is reached.
    pub fn admit(self: &Arc<Self>, remote: SocketAddr) -> Result<Admission, String> {
        let mut state = self.state.lock();
        if self.max_total > 0 && state.open.len() >= self.max_total {
            return Err(format!("too many connections, the limit is maxCnxns={}", self.max_total));
        }
        let count = state.per_ip.entry(remote.ip()).or_default();
        if self.max_per_ip > 0 && *count >= self.max_per_ip {
            return Err(format!(
                "too many connections from this address, the limit is maxClientCnxns={}",
                self.max_per_ip
            ));
        }
        *count += 1;
        state.next += 1;
        let conn = ConnId(state.next);
        let view = Arc::new(ConnView { remote, info: Mutex::new(None), reset: AtomicBool::new(false) });
        state.open.insert(conn, view.clone());
        drop(state);
        Ok(Admission { connections: self.clone(), conn, view, outstanding: 0 })
    }

    pub fn count(&self) -> usize {
        self.state.lock().open.len()
    }

    /// All connections, oldest first.
    pub fn all(&self) -> Vec<Arc<ConnView>> {
        self.state.lock().open.values().cloned().collect()
    }

    /// Requests of all connections that are not answered yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_per_address_and_in_all_are_kept_and_places_are_given_back() {
        let connections = Connections::new(2, 3);
        let at = |text: &str| text.parse::<SocketAddr>().expect("address");
        let mut first = connections.admit(at("1.1.1.1:1")).expect("first");
        let _second = connections.admit(at("1.1.1.1:2")).expect("second");
        assert!(
            connections
                .admit(at("1.1.1.1:3"))
                .expect_err("third of one address")
                .contains("maxClientCnxns=2")
        );
        let _other = connections.admit(at("2.2.2.2:1")).expect("another address");
        assert!(connections.admit(at("3.3.3.3:1")).expect_err("fourth in all").contains("maxCnxns=3"));
        first.set_outstanding(5);
        first.set_outstanding(3);
        assert_eq!(connections.outstanding(), 3);
        drop(first);
        let again = connections.admit(at("1.1.1.1:4")).expect("a place is free again");
        assert_eq!((connections.count(), connections.outstanding(), again.conn), (3, 0, ConnId(4)));
    }
}
