"""kazoo's recipes on an ensemble of three: the whole of it works when its parts do."""

import threading
import time

import pytest
from zkharness.clients import client
from zkharness.servers import wait_until

CLIENTS = 4
WAIT_S = 20


@pytest.fixture
def clients(ensemble):
    """Clients spread over the members."""
    with client(ensemble[1].address) as a, client(ensemble[2].address) as b, client(ensemble[3].address) as c, client(ensemble.hosts) as d:
        yield [a, b, c, d]


def in_parallel(clients, act):
    """Runs act(client, number) in a thread each; the first failure is the test's."""
    failures = []

    def guarded(zk, number):
        try:
            act(zk, number)
        except BaseException as error:  # noqa: BLE001 handed on below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(zk, number)) for number, zk in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a client hangs"
    if failures:
        raise failures[0]


def test_a_lock_is_held_by_one_client_at_a_time(clients):
    inside, most, held = [], [], []

    def act(zk, number):
        for _ in range(5):
            with zk.Lock("/lock", f"client-{number}"):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.005)
                inside.remove(number)
                held.append(number)

    in_parallel(clients, act)
    assert max(most) == 1 and len(held) == 5 * CLIENTS


def test_a_lock_passes_on_when_its_holders_session_ends(ensemble, clients):
    with client(ensemble.hosts) as holder:
        assert holder.Lock("/lock-passing").acquire(timeout=WAIT_S)
        waiting = clients[0].Lock("/lock-passing")
        got = threading.Event()
        thread = threading.Thread(target=lambda: waiting.acquire(timeout=WAIT_S) and got.set())
        thread.start()
        time.sleep(0.3)
        assert not got.is_set()
    assert got.wait(WAIT_S)
    thread.join()
    waiting.release()


def test_an_election_has_one_winner_and_the_next_takes_over(clients):
    leading, most = [], []

    def act(zk, number):
        def lead():
            leading.append(number)
            most.append(len(leading))
            time.sleep(0.05)
            leading.remove(number)

        zk.Election("/election", f"client-{number}").run(lead)

    in_parallel(clients, act)
    assert most == [1] * CLIENTS


def test_a_counter_loses_no_addition(clients):
    def act(zk, _):
        counter = zk.Counter("/counter")
        for _ in range(10):
            counter += 1

    in_parallel(clients, act)
    clients[0].sync("/counter")
    assert clients[0].Counter("/counter").value == 10 * CLIENTS


def test_a_queue_gives_each_entry_to_one_client(clients):
    entries = [b"entry-%03d" % n for n in range(30)]
    for entry in entries:
        clients[0].Queue("/queue").put(entry)
    for zk in clients:
        zk.sync("/queue")
    taken = []

    def act(zk, _):
        mine = zk.Queue("/queue")
        while (entry := mine.get()) is not None:
            taken.append(entry)

    in_parallel(clients, act)
    assert sorted(taken) == entries


def test_a_locking_queue_keeps_an_entry_until_it_is_consumed(clients):
    clients[0].LockingQueue("/locking").put_all([b"a", b"b"])
    mine = clients[1].LockingQueue("/locking")
    assert mine.get(timeout=WAIT_S) == b"a"
    assert clients[2].LockingQueue("/locking").get(timeout=WAIT_S) == b"b"
    assert mine.consume()


def test_a_barrier_holds_all_until_it_is_removed(clients):
    clients[0].Barrier("/barrier").create()
    for zk in clients:
        zk.sync("/barrier")
    passed = []
    threads = [threading.Thread(target=lambda zk=zk: passed.append(zk.Barrier("/barrier").wait(WAIT_S))) for zk in clients[1:]]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    assert passed == []
    clients[0].Barrier("/barrier").remove()
    for thread in threads:
        thread.join(WAIT_S)
    assert passed == [True] * 3


def test_a_double_barrier_lets_all_in_together_and_out_together(clients):
    entered = []

    def act(zk, number):
        barrier = zk.DoubleBarrier("/double", CLIENTS, f"client-{number}")
        time.sleep(0.05 * number)
        barrier.enter()
        entered.append(number)
        barrier.leave()
        assert len(entered) == CLIENTS

    in_parallel(clients, act)


def test_a_semaphore_admits_its_number_of_leases(clients):
    inside, most = [], []

    def act(zk, number):
        with zk.Semaphore("/semaphore", f"client-{number}", max_leases=2):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.05)
            inside.remove(number)

    in_parallel(clients, act)
    assert max(most) == 2


def test_a_party_knows_who_is_in_it(clients):
    parties = [zk.Party("/party", f"client-{number}") for number, zk in enumerate(clients)]
    for party in parties:
        party.join()
    wait_until(lambda: all(len(party) == CLIENTS for party in parties), WAIT_S, "everyone in the party")
    parties[0].leave()
    wait_until(lambda: all(sorted(party) == ["client-1", "client-2", "client-3"] for party in parties), WAIT_S, "one has left")


def test_a_read_write_lock_admits_readers_together_and_writers_alone(clients):
    inside, most_readers, most_writers = [], [], []

    def act(zk, number):
        lock = zk.WriteLock("/rw") if number == 0 else zk.ReadLock("/rw")
        with lock:
            inside.append(number)
            (most_writers if number == 0 else most_readers).append(len(inside))
            time.sleep(0.1)
            inside.remove(number)

    in_parallel(clients, act)
    assert most_writers == [1] and max(most_readers) >= 2


def test_a_session_moves_to_another_member_with_its_ephemeral_nodes(ensemble, clients):
    with client(ensemble.hosts) as mover:
        session, password = mover.client_id
        mover.create("/moving", ephemeral=True)
        mover.sync("/")
        here = mover._connection._socket.getpeername()[1]
        elsewhere = next(m for m in ensemble.members if m.port != here)
        with client(elsewhere.address, client_id=(session, password)) as moved:
            assert moved.client_id[0] == session
            moved.sync("/")
            assert moved.exists("/moving").ephemeralOwner == session
            assert clients[0].sync("/") and clients[0].exists("/moving")
