"""Leaders are killed and stopped while clients write: no acknowledged write is lost, none is there twice, and sessions go on."""

import time

import pytest
from history import OK, UNKNOWN, WriterHistory, check
from java_writer import JavaWriter
from writers import Writer, found
from zkharness import java, servers
from zkharness.clients import assert_equal_trees, assert_no_digest_mismatch, client

WRITERS = 4
ROUNDS = 5
# Of load between two failures.
QUIET_S = 1.5


def run_through(ensemble, disturb):
    """Writes while `disturb(member)` is done to the leader, ROUNDS times, and checks what is found at every member."""
    writers = [Writer(f"writer-{n}", ensemble.hosts) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(ROUNDS):
            time.sleep(QUIET_S)
            disturb(ensemble.leader())
        time.sleep(QUIET_S)
    finally:
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(60)
    for writer in writers:
        assert not writer.is_alive(), f"{writer.name} hangs"
        if writer.failure:
            raise writer.failure
    report(writers)
    check_all(ensemble, [writer.history for writer in writers])


def report(writers):
    acknowledged = sum(w.history.acknowledged() for w in writers)
    gap = max(w.longest_gap_s for w in writers)
    print(f"{acknowledged} writes acknowledged through {ROUNDS} failures, longest gap of a writer {gap * 1000:.0f} ms")
    # A writer that was stuck has shown nothing.
    assert all(w.history.acknowledged() > 100 for w in writers), [w.history.acknowledged() for w in writers]


def check_all(ensemble, histories):
    ensemble.wait_ready()
    for member in ensemble.members:
        with client(member.address) as zk:
            zk.sync("/")
            faults = check(histories, *found(zk, [h.name for h in histories]))
        assert not faults, f"{member}:\n" + "\n".join(faults)
    assert_equal_trees(ensemble.members)
    assert_no_digest_mismatch(ensemble.members)


def test_no_write_is_lost_or_doubled_when_leaders_are_killed(make_ensemble):
    def kill_and_restart(leader):
        leader.kill()
        ensemble.leader()
        leader.start()

    ensemble = make_ensemble([servers.implementation()] * 3)
    ensemble.start()
    run_through(ensemble, kill_and_restart)


def test_no_write_is_lost_or_doubled_when_leaders_are_stopped_and_the_stop_is_clean(make_ensemble):
    def stop_and_restart(leader):
        code = leader.stop()
        # The reference dies of the signal; ours drains and ends by itself.
        assert code == (143 if leader.impl == servers.JAVA else 0), f"{leader} ended with {code}:\n{leader.log_tail()}"
        ensemble.leader()
        leader.start()

    ensemble = make_ensemble([servers.implementation()] * 3)
    ensemble.start()
    run_through(ensemble, stop_and_restart)


def test_no_write_of_the_java_client_is_lost_or_doubled_when_leaders_are_killed_and_stopped(make_ensemble, tmp_path):
    ensemble = make_ensemble([servers.implementation()] * 3)
    ensemble.start()
    classes = java.compiled(tmp_path / "classes")
    writers = [JavaWriter(f"java-{n}", ensemble.hosts, classes, tmp_path / f"java-{n}.log") for n in range(2)]
    try:
        for number in range(ROUNDS):
            time.sleep(QUIET_S)
            leader = ensemble.leader()
            leader.kill() if number % 2 else leader.stop()
            ensemble.leader()
            leader.start()
        time.sleep(QUIET_S)
        histories = [writer.finish() for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
    assert all(h.acknowledged() > 100 for h in histories), [h.acknowledged() for h in histories]
    check_all(ensemble, histories)


def test_no_write_is_lost_when_all_members_are_killed_at_once(make_ensemble):
    def kill_all(_):
        for member in ensemble.members:
            member.kill()
        ensemble.start()

    ensemble = make_ensemble([servers.implementation()] * 3)
    ensemble.start()
    run_through(ensemble, kill_all)


def test_a_rolling_restart_leader_last_keeps_every_session(make_ensemble):
    ensemble = make_ensemble([servers.implementation()] * 3)
    ensemble.start()
    with client(ensemble.hosts, connection_retry={"max_tries": -1, "delay": 0.02, "max_delay": 0.2}) as zk:
        session, _ = zk.client_id
        zk.create("/mine", ephemeral=True)
        leader = ensemble.leader()
        for member in [*(m for m in ensemble.members if m is not leader), leader]:
            member.stop()
            member.start()
            zk.retry(zk.sync, "/")
            assert zk.retry(zk.exists, "/mine").ephemeralOwner == session
        assert zk.client_id[0] == session


@pytest.fixture
def record():
    history = WriterHistory("w")
    history.creates = {1: OK, 2: UNKNOWN, 3: OK}
    history.sequenced = {"/n-0": 1, "/n-2": 2}
    history.sequenced_unknown, history.counter_ok, history.counter_unknown = 1, 4, 1
    history.zxids = [1, 5, 9]
    return history


GOOD = ({1, 3}, {"/n-0": b"1", "/n-1": b"3", "/n-2": b"2"}, (5, 5))


@pytest.mark.parametrize(
    ("nodes", "sequenced", "counter", "fault"),
    [
        (*GOOD, None),
        ({1, 2, 3}, *GOOD[1:], None),
        ({1}, *GOOD[1:], "acknowledged and lost: [3]"),
        ({1, 3, 7}, *GOOD[1:], "never sent"),
        ({1, 3}, {"/n-0": b"1"}, (5, 5), "sequence nodes acknowledged and lost"),
        ({1, 3}, {"/n-0": b"1", "/n-2": b"2", "/n-3": b"3", "/n-4": b"4"}, (5, 5), "2 sequence nodes without an answer"),
        ({1, 3}, {"/n-0": b"1", "/n-2": b"2", "/n-3": b"1"}, (5, 5), "made twice"),
        (*GOOD[:2], (5, 6), "lost or came twice"),
        (*GOOD[:2], (3, 3), "4 acknowledged"),
        (*GOOD[:2], (6, 6), "4 acknowledged"),
    ],
)
def test_the_check_of_histories_finds_each_fault_and_nothing_else(record, nodes, sequenced, counter, fault):
    faults = check([record], {"w": nodes}, {"w": sequenced}, {"w": counter})
    assert (faults == []) if fault is None else (len(faults) == 1 and fault in faults[0]), faults
