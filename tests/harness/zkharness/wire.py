"""The client protocol, byte by byte: requests are built and replies are taken apart here, with no client library between.

Why: a library hides what differs (error codes, null against empty, bytes left over). Every decoder consumes its whole reply, or fails.
"""

import socket
import struct
from dataclasses import dataclass

OP = {
    "create": 1, "delete": 2, "exists": 3, "getData": 4, "setData": 5, "getACL": 6, "setACL": 7, "getChildren": 8, "sync": 9,
    "ping": 11, "getChildren2": 12, "check": 13, "multi": 14, "create2": 15, "reconfig": 16, "checkWatches": 17, "removeWatches": 18,
    "createContainer": 19, "deleteContainer": 20, "createTTL": 21, "multiRead": 22, "auth": 100, "setWatches": 101, "sasl": 102,
    "getEphemerals": 103, "getAllChildrenNumber": 104, "setWatches2": 105, "addWatch": 106, "whoAmI": 107, "closeSession": -11,
}  # fmt: skip
XID_EVENT, XID_PING, XID_AUTH, XID_SET_WATCHES = -1, -2, -4, -8
OPEN_ACL = ((31, "world", "anyone"),)
PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, SEQUENTIAL_TTL = range(7)


def string(value):
    return buffer(None if value is None else value.encode())


def buffer(value):
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def acl(entries):
    if entries is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(entries)) + b"".join(struct.pack(">i", p) + string(s) + string(i) for p, s, i in entries)


def strings(values):
    return struct.pack(">i", len(values)) + b"".join(map(string, values))


def create(path, data, flags=PERSISTENT, entries=OPEN_ACL, ttl=None):
    body = string(path) + buffer(data) + acl(entries) + struct.pack(">i", flags)
    return body if ttl is None else body + struct.pack(">q", ttl)


def path_watch(path, watch=False):
    return string(path) + struct.pack(">?", watch)


def path_version(path, version=-1):
    return string(path) + struct.pack(">i", version)


def set_data(path, data, version=-1):
    return string(path) + buffer(data) + struct.pack(">i", version)


def set_acl(path, entries, version=-1):
    return string(path) + acl(entries) + struct.pack(">i", version)


def auth(scheme, credentials):
    return struct.pack(">i", 0) + string(scheme) + buffer(credentials)


def multi(operations):
    """`operations`: pairs of an opcode's name and its body."""
    parts = [struct.pack(">i?i", OP[name], False, -1) + body for name, body in operations]
    return b"".join(parts) + struct.pack(">i?i", -1, True, -1)


@dataclass
class Stat:
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeralOwner: int
    dataLength: int
    numChildren: int
    pzxid: int


class Reader:
    """Takes a reply apart from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            raise ValueError(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def int(self):
        return self.take(">i")

    def long(self):
        return self.take(">q")

    def bool(self):
        return self.take(">?")

    def buffer(self):
        length = self.int()
        if length < 0:
            assert length == -1, f"a length of {length}"
            return None
        return self.take(f">{length}s")

    def string(self):
        value = self.buffer()
        return None if value is None else value.decode()

    def strings(self):
        count = self.int()
        return None if count < 0 else [self.string() for _ in range(count)]

    def acl(self):
        count = self.int()
        return None if count < 0 else [(self.int(), self.string(), self.string()) for _ in range(count)]

    def stat(self):
        return Stat(self.long(), self.long(), self.long(), self.long(), self.int(), self.int(), self.int(), self.long(), self.int(), self.int(), self.long())

    def rest(self):
        value, self.at = self.data[self.at :], len(self.data)
        return value


def _multi_results(r):
    results = []
    while True:
        kind, done, error = r.int(), r.bool(), r.int()
        if done:
            return [*results, ("end", kind, error)]
        if kind == -1:
            results.append(("error", error, r.int()))
        else:
            name = next(k for k, v in OP.items() if v == kind)
            results.append((name, error, DECODERS[name](r)))


# What a successful reply to each request holds after its header.
DECODERS = {
    "create": lambda r: r.string(),
    "create2": lambda r: (r.string(), r.stat()),
    "createContainer": lambda r: (r.string(), r.stat()),
    "createTTL": lambda r: (r.string(), r.stat()),
    "delete": lambda r: None,
    "exists": lambda r: r.stat(),
    "getData": lambda r: (r.buffer(), r.stat()),
    "setData": lambda r: r.stat(),
    "getACL": lambda r: (r.acl(), r.stat()),
    "setACL": lambda r: r.stat(),
    "getChildren": lambda r: sorted(r.strings()),  # the order of children is the hash order of the server's set
    "getChildren2": lambda r: (sorted(r.strings()), r.stat()),
    "sync": lambda r: r.string(),
    "check": lambda r: None,
    "multi": _multi_results,
    "multiRead": _multi_results,
    "getEphemerals": lambda r: sorted(r.strings()),
    "getAllChildrenNumber": lambda r: r.int(),
    "whoAmI": lambda r: sorted((r.string(), r.string()) for _ in range(r.int())),  # a set, too
    "ping": lambda r: None,
    "auth": lambda r: None,
    "setWatches": lambda r: None,
    "setWatches2": lambda r: None,
    "addWatch": lambda r: r.int(),
    "removeWatches": lambda r: None,
    "checkWatches": lambda r: None,
    "closeSession": lambda r: None,
}


@dataclass
class Reply:
    xid: int
    zxid: int
    error: int
    body: bytes

    def decode(self, operation):
        """The content by the request's name. With an error there is none, and then nothing may follow the header, but for `multi`."""
        reader = Reader(self.body)
        if self.error != 0 and not self.body:
            return None
        value = DECODERS[operation](reader) if operation in DECODERS else reader.rest()
        left = reader.rest()
        assert not left, f"{len(left)} bytes left over after {operation}: {left.hex()}"
        return value


@dataclass
class Event:
    """A watch's event: type, state, path, and the zxid of its header."""

    kind: int
    state: int
    path: str
    zxid: int


class Closed(Exception):
    """The server closed the connection."""


class Connection:
    """One connection. `session` and `password` take up a session; 0 asks for a new one."""

    def __init__(self, port, timeout_ms=8000, session=0, password=bytes(16), last_zxid=0, reply_timeout_s=10.0):
        self.socket = socket.create_connection(("127.0.0.1", port), reply_timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(reply_timeout_s)
        self.input = b""
        self.events = []
        self.xid = 0
        self.send_frame(struct.pack(">iqiq", 0, last_zxid, timeout_ms, session) + buffer(password) + b"\0")
        self.connect_response = self.read_frame()
        reader = Reader(self.connect_response)
        self.protocol, self.timeout_ms = reader.int(), reader.int()
        self.session, self.password = reader.long(), reader.buffer()

    def send_frame(self, body):
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def read_frame(self):
        def need(size):
            while len(self.input) < size:
                try:
                    part = self.socket.recv(65536)
                except ConnectionResetError:
                    part = b""
                if not part:
                    raise Closed(f"closed with {len(self.input)} bytes unread")
                self.input += part

        need(4)
        (length,) = struct.unpack_from(">i", self.input)
        need(4 + length)
        frame, self.input = self.input[4 : 4 + length], self.input[4 + length :]
        return frame

    def send(self, operation, body=b"", xid=None):
        """Sends a request without waiting; returns its xid."""
        if xid is None:
            self.xid += 1
            xid = self.xid
        code = OP[operation] if isinstance(operation, str) else operation
        self.send_frame(struct.pack(">ii", xid, code) + body)
        return xid

    def receive(self):
        """The next reply; events that come before it are put aside in `events`."""
        while True:
            reader = Reader(self.read_frame())
            reply = Reply(reader.int(), reader.long(), reader.int(), reader.rest())
            if reply.xid != XID_EVENT:
                return reply
            event = Reader(reply.body)
            self.events.append(Event(event.int(), event.int(), event.string(), reply.zxid))
            assert not event.rest() and reply.error == 0

    def call(self, operation, body=b"", xid=None):
        """One request and its reply."""
        sent = self.send(operation, body, xid)
        reply = self.receive()
        assert reply.xid == sent, f"a reply to {reply.xid} instead of {sent}"
        return reply

    def take_events(self):
        taken, self.events = self.events, []
        return taken

    def close(self):
        """Closes the connection; the session stays until it expires or is closed by a request."""
        self.socket.close()
