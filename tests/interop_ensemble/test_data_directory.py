"""A data directory written by one implementation starts the other, with the same tree and no digest mismatch, and back again."""

import shutil

import pytest
from kazoo.protocol.states import ZnodeStat
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl
from zkharness import servers, wire
from zkharness.clients import assert_equal_trees, assert_no_digest_mismatch, client, tree_at
from zkharness.servers import JAVA, Member

OURS = servers.implementation()
# Several log files and snapshots for the history below.
SNAP_COUNT = 100


def write_history(member, label):
    """Nodes of every kind, changes, deletions, ACLs, a session that is still open."""
    with client(member.address) as zk:
        zk.create(f"/{label}", b"")
        for n in range(150):
            zk.create(f"/{label}/n{n}", bytes([n]) * n)
        for n in range(0, 150, 3):
            zk.set(f"/{label}/n{n}", b"again")
        for n in range(0, 150, 5):
            zk.delete(f"/{label}/n{n}")
        for n in range(20):
            zk.create(f"/{label}/s-", b"", sequence=True)
        zk.set_acls(f"/{label}/n1", [make_digest_acl("ann", "pw", all=True), *READ_ACL_UNSAFE])
        transaction = zk.transaction()
        transaction.create(f"/{label}/m", b"multi")
        transaction.set_data(f"/{label}/n1", b"multi")
        transaction.delete(f"/{label}/n2")
        transaction.commit()
    raw = wire.Connection(member.port, timeout_ms=9000)
    assert raw.call("createContainer", wire.create(f"/{label}/container", b"c", wire.CONTAINER)).error == 0
    assert raw.call("createTTL", wire.create(f"/{label}/ttl", b"t", wire.TTL, ttl=3_600_000)).error == 0
    assert raw.call("create", wire.create(f"/{label}/ephemeral", b"e", wire.EPHEMERAL)).error == 0
    return raw


def write_more(member, label):
    with client(member.address) as zk:
        for n in range(8, 150, 7):
            if zk.exists(f"/{label}/n{n}"):
                zk.set(f"/{label}/n{n}", b"by the other")
        return zk.create(f"/{label}/s-", b"", sequence=True)


@pytest.mark.parametrize("end", ("kill", "stop"))
@pytest.mark.parametrize("order", ((JAVA, OURS), (OURS, JAVA)), ids=("java-then-ours", "ours-then-java"))
def test_a_standalone_data_directory_changes_hands_there_and_back(tmp_path, order, end):
    first_impl, second_impl = order
    settings = {"snapCount": SNAP_COUNT}
    first = Member(tmp_path, first_impl, settings=settings).start()
    raw = write_history(first, "history")
    before = tree_at(first)
    getattr(first, end)()

    second = Member(tmp_path, second_impl, settings=settings, port=first.port).start()
    after = tree_at(second)
    assert after == before
    # The session in the files is taken up with the password that the other implementation gave it.
    again = wire.Connection(second.port, 9000, raw.session, raw.password)
    assert again.session == raw.session
    assert again.call("getEphemerals", wire.string("/")).decode("getEphemerals") == ["/history/ephemeral"]
    sequence = write_more(second, "history")
    # The shown cversion counts creations and deletions; a sequence number counts creations alone.
    parent = ZnodeStat(*before["/history"][2])
    assert sequence == f"/history/s-{(parent.cversion + parent.numChildren) // 2:010}", "parents' counters come along"
    assert_no_digest_mismatch([second])
    before = tree_at(second)
    getattr(second, end)()

    back = Member(tmp_path, first_impl, settings=settings, port=first.port).start()
    assert tree_at(back) == before
    assert_no_digest_mismatch([back])
    back.stop()


@pytest.mark.parametrize("order", ((JAVA, OURS), (OURS, JAVA)), ids=("java-then-ours", "ours-then-java"))
def test_a_copied_data_directory_starts_at_another_place(tmp_path, order):
    first = Member(tmp_path / "made", order[0]).start()
    with client(first.address) as zk:
        for n in range(50):
            zk.create(f"/n{n}", b"%d" % n)
    before = tree_at(first)
    first.stop()
    logs = [p for p in (first.data / "version-2").iterdir() if p.name.startswith("log.")]
    assert logs, "a history without a log"
    shutil.copytree(first.data, tmp_path / "copied" / "data")
    second = Member(tmp_path / "copied", order[1]).start()
    assert tree_at(second) == before
    assert_no_digest_mismatch([second])
    second.stop()


def test_members_of_an_ensemble_change_implementation_one_at_a_time_and_back(make_ensemble):
    """The live migration: a Java ensemble becomes ours member by member, serves all the while, and returns."""
    ensemble = make_ensemble([JAVA, JAVA, JAVA])
    ensemble.start()
    written = 0
    with client(ensemble.hosts, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.3}) as zk:
        zk.retry(zk.create, "/migrated", b"")
        for impl in (OURS, JAVA):
            for member in ensemble.members:
                member.stop()
                member.impl = impl
                member.start()
                for _ in range(20):
                    zk.retry(zk.create, f"/migrated/n{written}", b"x" * written)
                    written += 1
    assert_equal_trees(ensemble.members)
    assert_no_digest_mismatch(ensemble.members)
    assert len([p for p in tree_at(ensemble[1]) if p.startswith("/migrated/")]) == written
