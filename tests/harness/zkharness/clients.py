"""kazoo clients and what tests do with them again and again."""

import contextlib

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from .servers import wait_until

SESSION_TIMEOUT_S = 8.0


@contextlib.contextmanager
def client(hosts, **options):
    """A connected client, closed at the end."""
    options.setdefault("timeout", SESSION_TIMEOUT_S)
    zk = KazooClient(hosts=hosts, **options)
    zk.start(timeout=30)
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


# Nodes that a server keeps for itself: their content is about the server, not about the history.
OWN_NODES = ("/zookeeper",)


def tree(zk, root="/"):
    """The tree below `root` as {path: (data, ACL, stat without its zxid of children's change)}, read at one server."""
    found = {}
    pending = [root]
    while pending:
        path = pending.pop()
        if path in OWN_NODES:
            continue
        try:
            data, stat = zk.get(path)
            acls, _ = zk.get_acls(path)
            children = zk.get_children(path)
        except NoNodeError:
            continue
        found[path] = (data, tuple(acls), tuple(stat))
        pending.extend(f"{path.rstrip('/')}/{child}" for child in children)
    return found


def tree_at(member, root="/"):
    """The tree as one member has it, after it caught up with the leader."""
    with client(member.address) as zk:
        zk.sync("/")
        return tree(zk, root)


def assert_equal_trees(members, timeout_s=20.0):
    """All members have the same nodes, data, ACLs and stats."""
    def equal():
        trees = [tree_at(member) for member in members]
        return all(t == trees[0] for t in trees[1:]) and len(trees[0])

    try:
        wait_until(equal, timeout_s, "equal trees", pause_s=0.3)
    except AssertionError:
        trees = {str(member): tree_at(member) for member in members}
        first = next(iter(trees.values()))
        differences = [
            f"{name}: {path}: {other.get(path)} instead of {first.get(path)}"
            for name, other in trees.items()
            for path in sorted(set(first) | set(other))
            if first.get(path) != other.get(path)
        ]
        raise AssertionError("the members' trees differ:\n" + "\n".join(differences[:20])) from None


def assert_no_digest_mismatch(members):
    """No member has ever seen its tree's digest differ from the one that came with a transaction."""
    for member in members:
        mismatches = int(member.metrics()["zk_digest_mismatches_count"])
        if mismatches == 1 and member.doubted_snapshot():
            continue
        assert mismatches == 0, f"{member}: {mismatches}\n{member.log_tail()}"
