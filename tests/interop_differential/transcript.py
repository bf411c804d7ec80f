"""Feeds a history to a server and writes down what it answers, with what must differ between two servers made equal.

Made equal: times (kept: whether a node was changed after it was made in the same reply's stat), session ids (as the number of the session in
the history), the order of children. Compared as they are: zxids, versions, errors, lengths, data, watches, which reply follows which.
"""

from zkharness import wire

from history import SESSIONS

FIXED_XIDS = {"ping": wire.XID_PING, "auth": wire.XID_AUTH, "setWatches": wire.XID_SET_WATCHES, "setWatches2": wire.XID_SET_WATCHES}
SESSION_TIMEOUT_MS = 10_000
# Of a connection's life in the history: how often it is closed with its session, dropped and taken up, or renewed after a close by the server.
CLOSE_EVERY, REATTACH_EVERY = 97, 61


class Transcript:
    """One server's answers to one history, one entry a request."""

    def __init__(self, port):
        self.port = port
        self.sessions = {}  # the server's id: our name for it
        self.made = 0
        self.connections = [self._new() for _ in range(SESSIONS)]
        self.entries = []

    def _new(self):
        connection = wire.Connection(self.port, SESSION_TIMEOUT_MS)
        self.sessions[connection.session] = f"session-{self.made}"
        self.made += 1
        return connection

    def feed(self, requests):
        for number, (index, operation, body) in enumerate(requests, 1):
            entry = [self._ask(index, operation, body)]
            if number % CLOSE_EVERY == 0:
                entry.append(self._close(index))
            elif number % REATTACH_EVERY == 0:
                entry.append(self._reattach(index))
            self.entries.append(entry)
        self.entries.append([self._settle(index) for index in range(SESSIONS)])
        return self.entries

    def _ask(self, index, operation, body):
        connection = self.connections[index]
        try:
            reply = connection.call(operation, body, FIXED_XIDS.get(operation))
        except wire.Closed:
            # The session lives on: take it up, so that its watches are gone at both servers and its nodes are not.
            events = self._events(connection)
            self._take_up(index, connection)
            return index, operation, "closed", events
        if isinstance(operation, int):
            # The connection is closed a moment after the reply: wait for that, so no later request races with it.
            return index, operation, reply.error, reply.zxid, self._await_close(index, connection)
        content = self._equal(reply.decode(operation))
        return index, operation, reply.error, reply.zxid, content, self._events(connection)

    def _await_close(self, index, connection):
        connection.socket.settimeout(1.0)
        try:
            return "another reply", connection.receive()
        except (wire.Closed, ConnectionError):
            self._take_up(index, connection)
            return "closed", self._events(connection)
        except TimeoutError:
            connection.socket.settimeout(10.0)
            return "stays open", self._events(connection)

    def _close(self, index):
        connection = self.connections[index]
        reply = connection.call("closeSession")
        events = self._events(connection)
        connection.close()
        self.connections[index] = self._new()
        return "close", reply.error, reply.zxid, events

    def _reattach(self, index):
        old = self.connections[index]
        old.close()
        connection = self._take_up(index, old)
        return "reattach", connection.timeout_ms, len(connection.connect_response)

    def _take_up(self, index, old):
        connection = wire.Connection(self.port, SESSION_TIMEOUT_MS, old.session, old.password)
        assert connection.session == old.session, f"{self.sessions[old.session]} was not taken up"
        connection.xid = old.xid
        self.connections[index] = connection
        return connection

    def _settle(self, index):
        """A read after everything: what events were owed have come before its reply."""
        connection = self.connections[index]
        reply = connection.call("exists", wire.path_watch("/"))
        return self._equal(reply.decode("exists")), self._events(connection)

    def _events(self, connection):
        # One change can owe a session several events; in which order the kinds come is a matter of hash maps.
        return sorted((e.zxid, e.kind, e.state, e.path) for e in connection.take_events())

    def _equal(self, value):
        if isinstance(value, wire.Stat):
            fields = dict(vars(value))
            unchanged = fields.pop("ctime") == fields.pop("mtime") or value.czxid == value.mzxid
            owner = self.sessions.get(value.ephemeralOwner, value.ephemeralOwner)
            return {**fields, "ephemeralOwner": owner, "unchanged": unchanged and value.czxid == value.mzxid}
        if isinstance(value, (list, tuple)):
            return type(value)(self._equal(v) for v in value)
        return value

    def close(self):
        for connection in self.connections:
            connection.close()
