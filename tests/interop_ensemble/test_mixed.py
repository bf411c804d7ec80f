"""Ensembles of both implementations: they elect, serve, lose each member in turn, and end with equal trees and no digest mismatch.

The member under test is `servers.implementation()`; with ZK_TEST_IMPL=java all members are Java, which tests the test.
"""

import pytest
from kazoo.exceptions import NodeExistsError
from kazoo.retry import KazooRetry
from zkharness import servers, wire
from zkharness.clients import assert_equal_trees, assert_no_digest_mismatch, client
from zkharness.servers import JAVA, wait_until

OURS = servers.implementation()
WRITES = 40
RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 0.3}


def write_some(zk, label, count=WRITES):
    """Writes of many kinds, each of them sure in the end: repeated until the answer is known."""
    retry = KazooRetry(max_tries=200, delay=0.05, max_delay=0.3, ignore_expire=False)
    zk.retry(zk.ensure_path, f"/{label}")
    for n in range(count):
        path = f"/{label}/n{n}"
        try:
            retry(zk.create, path, b"data-%d" % n)
        except NodeExistsError:
            pass  # an answer was lost, the write was not
        if n % 3 == 0:
            retry(zk.set, path, b"changed" * n)
        if n % 5 == 0:
            retry(zk.set_acls, path, [*zk.retry(zk.get_acls, path)[0]])
        if n % 7 == 0:
            transaction = zk.transaction()
            transaction.create(f"{path}/inner", b"")
            transaction.set_data(path, b"multi")
            transaction.commit()
    zk.retry(zk.create, f"/{label}/s-", b"", sequence=True)


def read_everywhere(ensemble, label):
    """Every live member has what was written under `label`."""
    for member in ensemble.members:
        if member.alive():
            with client(member.address) as zk:
                zk.sync("/")
                assert len(zk.get_children(f"/{label}")) >= WRITES, str(member)


def kill_and_return(ensemble, member, label):
    """kill -9 of a member; the others go on; it returns and catches up."""
    member.kill()
    ensemble.leader()
    hosts = ",".join(m.address for m in ensemble.members if m.alive())
    with client(hosts, connection_retry=RETRY) as zk:
        write_some(zk, label)
    member.start()
    read_everywhere(ensemble, label)


def finish(ensemble):
    ensemble.wait_ready()
    assert_equal_trees(ensemble.members)
    assert_no_digest_mismatch(ensemble.members)


def lead_with(ensemble, sid):
    """Starts the ensemble so that the member `sid`, of the highest id, leads.

    On a busy machine the others may agree before its vote has reached them; nothing is written yet, so they try again."""
    for _ in range(3):
        ensemble.start(first=ensemble[sid])
        leader = ensemble.leader()
        if leader.sid == sid:
            return leader
        ensemble.stop()
    raise AssertionError(f"{leader} leads")


MIXES = {"two-of-ours-java-leads": [OURS, OURS, JAVA], "one-of-ours-java-leads": [OURS, JAVA, JAVA], "two-of-ours-leads": [JAVA, OURS, OURS], "one-of-ours-leads": [JAVA, JAVA, OURS]}


@pytest.mark.parametrize("impls", MIXES.values(), ids=MIXES.keys())
def test_a_mixed_ensemble_serves_and_survives_a_kill_of_each_member_in_turn(make_ensemble, impls):
    ensemble = make_ensemble(impls)
    leader = lead_with(ensemble, 3)
    for member in ensemble.members:
        with client(member.address) as zk:
            write_some(zk, f"first-{member.sid}")
    read_everywhere(ensemble, "first-3")
    # The leader goes first, so that a member of another implementation leads for the rest.
    for member in (leader, *(m for m in ensemble.members if m is not leader)):
        kill_and_return(ensemble, member, f"without-{member.sid}")
    finish(ensemble)


@pytest.mark.parametrize("impls", ([OURS, OURS, JAVA], [JAVA, JAVA, OURS]), ids=("java-leads", "ours-leads"))
def test_a_member_that_missed_much_is_brought_up_to_date_by_a_snapshot(make_ensemble, impls):
    # Beyond the leader's committed log of 500 txns, and past its own log files: only SNAP can help.
    ensemble = make_ensemble(impls, {"snapCount": 300})
    lead_with(ensemble, 3)
    with client(ensemble[3].address) as zk:
        write_some(zk, "before")
        ensemble[1].kill()
        for n in range(1500):
            zk.create_async(f"/before/more-{n}", b"x" * 50)
        zk.create("/before/last")
    ensemble[1].start()
    read_everywhere(ensemble, "before")
    finish(ensemble)


@pytest.mark.parametrize("impls", ([OURS, OURS, JAVA], [JAVA, JAVA, OURS]), ids=("java-leads", "ours-leads"))
def test_a_wiped_member_gets_everything_again(make_ensemble, impls):
    ensemble = make_ensemble(impls)
    lead_with(ensemble, 3)
    with client(ensemble[3].address) as zk:
        write_some(zk, "kept")
    follower = ensemble[1]
    follower.kill()
    for file in (follower.data / "version-2").iterdir():
        file.unlink()
    follower.start()
    read_everywhere(ensemble, "kept")
    finish(ensemble)


def test_sessions_and_ephemeral_nodes_move_between_implementations(make_ensemble):
    ensemble = make_ensemble([OURS, JAVA, OURS])
    ensemble.start()
    with client(ensemble[1].address) as first, client(ensemble[2].address) as java:
        first.create("/moving", ephemeral=True)
        java.sync("/")
        assert java.exists("/moving").ephemeralOwner == first.client_id[0]
        with client(ensemble[2].address, client_id=first.client_id) as moved:
            assert moved.client_id == first.client_id
            moved.set("/moving", b"here too")
        # Closing the session at the Java member ends the node at ours.
        with client(ensemble[3].address) as third:
            wait_until(lambda: third.exists("/moving") is None, 10, "the node's end")
    finish(ensemble)


def test_an_ephemeral_node_goes_when_its_session_at_another_implementation_expires(make_ensemble):
    for impls in ([OURS, OURS, JAVA], [JAVA, JAVA, OURS]):
        ensemble = make_ensemble(impls)
        lead_with(ensemble, 3)
        silent = wire.Connection(ensemble[1].port, timeout_ms=2000)
        assert silent.call("create", wire.create("/silent", b"", wire.EPHEMERAL)).error == 0
        with client(ensemble[3].address) as zk:
            assert zk.exists("/silent")
            silent.close()
            wait_until(lambda zk=zk: zk.exists("/silent") is None, 20, "the node's end with its session")
        finish(ensemble)
        ensemble.stop()


def test_a_watch_at_one_implementation_fires_for_a_write_at_the_other(make_ensemble):
    ensemble = make_ensemble([OURS, JAVA, JAVA])
    ensemble.start()
    fired = []
    with client(ensemble[1].address) as ours, client(ensemble[2].address) as java:
        java.create("/watched")
        ours.sync("/")
        ours.get("/watched", watch=fired.append)
        java.get("/watched", watch=fired.append)
        java.set("/watched", b"1")
        wait_until(lambda: len(fired) == 2, 10, "both watches")
