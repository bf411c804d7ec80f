//! The servers' side of client connections: bytes in, [`zk_core::client::ClientConn`] in between, commands and bytes out.

use bytes::Bytes;
use zk_core::client::CloseReason;
use zk_core::input::{ConnId, Input};

use super::World;
use crate::client::Link;
use crate::clock::{MS, Nanos};
use crate::event::Event;
use crate::oracle::Violation;

impl World {
    pub(super) fn reaches_server(&mut self, id: usize, connection: u64, bytes: Option<Bytes>) {
        let now = self.agenda.now();
        let current = self.clients[id].connection == connection && self.clients[id].link != Link::Down;
        let node = self.clients[id].node;
        let Some(conn) = self.server_conn(id, connection, bytes.is_some() && current, now) else {
            if current {
                self.agenda.after(MS, Event::ToClient { client: id, connection, bytes: None });
            }
            return;
        };
        let node = conn.0.unwrap_or(node);
        let Some(process) = &mut self.node_mut(node).proc else { return };
        if let Some(server) = process.conns.get_mut(&conn.1) {
            match bytes {
                Some(bytes) => server.input.extend_from_slice(&bytes),
                None => server.conn.close(CloseReason::PeerClosed("end of stream".to_owned())),
            }
            process.waken.insert(conn.1);
        }
        self.settle(node);
    }

    /// Where the client's connection ends: an existing one on any member, or a new one if `create`.
    fn server_conn(
        &mut self,
        id: usize,
        connection: u64,
        create: bool,
        now: Nanos,
    ) -> Option<(Option<i64>, ConnId)> {
        for node in &self.nodes {
            if let Some(conn) = node.proc.as_ref().and_then(|process| process.conn_of(id, connection)) {
                return Some((Some(node.id), conn));
            }
        }
        let node = self.clients[id].node;
        if !create || self.clients[id].link != Link::Connecting {
            return None;
        }
        let node = self.node_mut(node);
        let local = node.clock.at(now);
        let conn = node.next_conn();
        node.proc.as_mut()?.accept(conn, id, connection, local);
        Some((None, conn))
    }

    /// Lets every connection that has news go on, until none has.
    pub(super) fn drive_conns(&mut self, id: i64) {
        while let Some(process) = &mut self.node_mut(id).proc {
            let Some(conn) = process.waken.pop_first() else { return };
            self.drive_conn(id, conn);
        }
    }

    fn drive_conn(&mut self, id: i64, conn: ConnId) {
        let now = self.agenda.now();
        let node = self.node_mut(id);
        let local = node.clock.at(now);
        let Some(server) = node.proc.as_mut().and_then(|process| process.conns.get_mut(&conn)) else {
            return;
        };
        server.conn.drive(local, &mut server.input);
        let commands: Vec<_> = server.conn.drain_commands().collect();
        let output = Bytes::copy_from_slice(server.conn.output());
        server.conn.consume_output(output.len());
        let reason = server.conn.closing().cloned();
        let closed = reason.is_some();
        let (client, connection) = (server.client, server.connection);
        if closed && let Some(process) = &mut node.proc {
            process.conns.remove(&conn);
        }
        if let Some(CloseReason::Internal(text)) = reason {
            let text = format!("{id} closed a connection of client {client}: {text}");
            self.oracles.check(Err(Violation::new("AnswersInOrder", text)));
        }
        if !output.is_empty() {
            self.server_sends(client, connection, Some(output));
        }
        if closed {
            self.server_sends(client, connection, None);
        }
        for command in commands {
            self.input_only(id, Input::Client { conn, command });
            self.check_applied(id);
        }
    }

    fn server_sends(&mut self, id: usize, connection: u64, bytes: Option<Bytes>) {
        let now = self.agenda.now();
        let delay = self.client_prng.between(self.options.delays.least, self.options.delays.most);
        let Some(client) = self.clients.get_mut(id) else { return };
        client.to_client = client.to_client.max(now + delay);
        let at = client.to_client;
        self.agenda.at(at, Event::ToClient { client: id, connection, bytes });
    }
}
