"""A random history of requests from a seed: the same for every server it is fed to.

A request is (session, operation's name, body). What a server answers never decides on the next request, so two servers get the same bytes.
Paths are few, so that requests meet: nodes exist, have children, are ephemeral, are gone.

Left out, because Java's answer is an accident that no client can build on, and ours is meant:
- null paths: Java answers -5, -8, -121 or success by where the null is tripped over, and adds a watch of null; ours always -5;
- an ACL of scheme `world` with a null id: a NullPointerException there (-5), InvalidACL here;
- a null SASL token without SASL configured: the same, and the connection is closed; ours answers as for any other token;
- writes with a broken body, and null ACLs of creates in a multi: Java answers -5 as ours does, but gives the error transaction the
  zxid of the one before; ours gives it the next, as to all that fails.
"""

import random
from functools import partial

from zkharness import wire

NAMES = ("a", "b", "c")
SESSIONS = 3
# Paths that are wrong in a way of their own each; servers answer BadArguments, or NoNode where they do not look.
BAD_PATHS = ("", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a/b\x00", "/\ud7ff\u0001", "/zookeeper", "/zookeeper/quota/x")
# Codes that no server knows, or that make no sense on a standalone one.
ODD_CODES = (0, 10, 23, 99, 108, 1000, -12)
ACLS = (
    wire.OPEN_ACL,
    ((1, "world", "anyone"),),
    ((31, "world", "anyone"), (31, "world", "anyone")),
    ((31, "auth", ""),),
    ((31, "digest", "ann:kbPnFXSCHkBXOlMBWQ2Wz8lBOrM="),),
    ((31, "ip", "127.0.0.1"),),
    ((3, "ip", "127.0.0.0/8"), (4, "world", "anyone")),
    ((31, "ip", "10.0.0.0/8"),),
    ((31, "ip", "nonsense"),),
    ((31, "digest", "no-colon"),),
    ((31, "nosuch", "x"),),
    ((31, "world", "other"),),
    ((31, None, None),),
    ((31, "digest", "a:b:c"),),
    ((31, "ip", "127.0.0.1/33"),),
    ((31, "ip", "::1"),),
    ((31, "auth", "x"), (1, "world", "anyone")),
    ((0, "world", "anyone"),),
    ((-1, "world", "anyone"),),
    ((96, "world", "anyone"), (31, "world", "anyone")),
    ((31, "super", "x"),),
    ((31, "x509", "CN=a"),),
    ((31, "sasl", "a"),),
    (),
    None,
)
CREDENTIALS = (("digest", b"ann:pw"), ("digest", b"bob:pw"), ("ip", b"x"))


class History:
    """Draws requests. `r` is the only source of chance."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.kinds, self.weights = zip(*self._table())

    def _table(self):
        """Each kind of request and how often it comes."""
        return (
            (self.create, 18), (self.create2, 8), (self.create_container, 5), (self.create_ttl, 4), (self.delete, 14), (self.set_data, 12),
            (self.set_acl, 4), (self.get_acl, 4), (self.exists, 6), (self.get_data, 8), (self.get_children, 5), (self.get_children2, 5),
            (self.multi, 10), (self.multi_read, 3), (self.sync, 2), (self.ephemerals, 2), (self.children_number, 2), (self.who_am_i, 1),
            (self.add_watch, 4), (self.remove_watches, 3), (self.check_watches, 2), (self.set_watches, 2), (self.auth, 1), (self.odd, 1), (self.ping, 1),
            (self.broken, 1), (self.reconfig, 1), (self.sasl, 1),
        )  # fmt: skip

    def requests(self, count):
        for _ in range(count):
            (kind,) = self.r.choices(self.kinds, self.weights)
            operation, body = kind()
            yield self.r.randrange(SESSIONS), operation, body

    # What requests are made of.

    def path(self):
        if self.r.random() < 0.02:
            return self.r.choice(BAD_PATHS)
        depth = self.r.choices((0, 1, 2, 3), (1, 12, 10, 4))[0]
        return "/" + "/".join(self.r.choice(NAMES) for _ in range(depth))

    def version(self):
        return self.r.choice((-1, -1, -1, 0, 0, 1, 2, 5, -2))

    def data(self):
        return self.r.choice((None, b"", b"x", b"data", bytes(range(256))))

    def acl(self, null=True):
        acl = wire.OPEN_ACL if self.r.random() < 0.8 else self.r.choice(ACLS)
        return acl if null or acl is not None else ()

    def flags(self):
        return self.r.choice((0, 0, 0, 0, 1, 2, 3)) if self.r.random() < 0.97 else self.r.choice((4, 5, 6, 7, -1))

    def watch(self):
        return self.r.random() < 0.4

    # The requests.

    def create(self, null_acl=True):
        return "create", wire.create(self.path(), self.data(), self.flags(), self.acl(null_acl))

    def create2(self, null_acl=True):
        return "create2", wire.create(self.path(), self.data(), self.flags(), self.acl(null_acl))

    def create_container(self, null_acl=True):
        return "createContainer", wire.create(self.path(), self.data(), wire.CONTAINER, self.acl(null_acl))

    def create_ttl(self):
        ttl = self.r.choice((600_000, 900_000, 1, 0, -1, 1 << 40)) if self.r.random() < 0.3 else 600_000
        return "createTTL", wire.create(self.path(), self.data(), self.r.choice((wire.TTL, wire.SEQUENTIAL_TTL)), self.acl(), ttl)

    def delete(self):
        return "delete", wire.path_version(self.path(), self.version())

    def set_data(self):
        return "setData", wire.set_data(self.path(), self.data(), self.version())

    def set_acl(self):
        return "setACL", wire.set_acl(self.path(), self.acl(), self.version())

    def get_acl(self):
        return "getACL", wire.string(self.path())

    def exists(self):
        return "exists", wire.path_watch(self.path(), self.watch())

    def get_data(self):
        return "getData", wire.path_watch(self.path(), self.watch())

    def get_children(self):
        return "getChildren", wire.path_watch(self.path(), self.watch())

    def get_children2(self):
        return "getChildren2", wire.path_watch(self.path(), self.watch())

    def multi(self):
        # No null ACLs here: they have a test of their own.
        creates = (self.create, self.create2, self.create_container)
        makers = (*(partial(create, null_acl=False) for create in creates), self.delete, self.set_data, self.check, self.create_ttl)
        count = self.r.choice((0, 1, 2, 2, 3, 4))
        return "multi", wire.multi([self.r.choices(makers, (6, 3, 1, 4, 5, 3, 1))[0]() for _ in range(count)])

    def check(self):
        return "check", wire.path_version(self.path(), self.version())

    def multi_read(self):
        makers = (lambda: ("getData", wire.path_watch(self.path())), lambda: ("getChildren", wire.path_watch(self.path())))
        return "multiRead", wire.multi([self.r.choice(makers)() for _ in range(self.r.randrange(4))])

    def sync(self):
        return "sync", wire.string(self.path())

    def ephemerals(self):
        return "getEphemerals", wire.string(self.path())

    def children_number(self):
        return "getAllChildrenNumber", wire.string(self.path())

    def who_am_i(self):
        return "whoAmI", b""

    def add_watch(self):
        return "addWatch", wire.string(self.path()) + self.r.choice((0, 1, 0, 1, 2, -1)).to_bytes(4, "big", signed=True)

    def watch_kind(self):
        return self.r.choice((1, 2, 3, 4, 5)).to_bytes(4, "big") if self.r.random() < 0.95 else (9).to_bytes(4, "big")

    def remove_watches(self):
        return "removeWatches", wire.string(self.path()) + self.watch_kind()

    def check_watches(self):
        return "checkWatches", wire.string(self.path()) + self.watch_kind()

    def set_watches(self):
        relative_zxid = self.r.choice((0, 1, 20, 1 << 40)).to_bytes(8, "big")
        lists = [self.some_paths() for _ in range(5)]
        name, count = self.r.choice((("setWatches", 3), ("setWatches2", 5)))
        return name, relative_zxid + b"".join(map(wire.strings, lists[:count]))

    def some_paths(self):
        return sorted({"/" + self.r.choice(NAMES) for _ in range(self.r.randrange(3))})

    def auth(self):
        return "auth", wire.auth(*self.r.choice(CREDENTIALS))

    def odd(self):
        return self.r.choice(ODD_CODES), self.r.choice((b"", wire.string("/a"), b"\xff\xff\xff\xff"))

    def ping(self):
        return "ping", b""

    def sasl(self):
        return "sasl", wire.buffer(self.data() or b"")

    def reconfig(self):
        return "reconfig", b"".join(wire.string(self.r.choice((None, "", "server.1=a:1:2;3"))) for _ in range(3)) + (-1).to_bytes(8, "big", signed=True)

    def broken(self):
        """A read (or sync) that ends early, or goes on too long."""
        makers = (
            self.exists, self.get_data, self.get_children, self.get_children2, self.get_acl, self.ephemerals, self.children_number, self.add_watch,
            self.remove_watches, self.check_watches, self.multi_read, self.set_watches, self.sync,
        )
        operation, body = self.r.choice(makers)()
        return operation, self.r.choice((body[:self.r.randrange(len(body))], body + b"more"))
