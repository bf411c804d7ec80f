"""Watches through kazoo: once, in order, for the right change; and kazoo's own watchers built on them."""

import queue
import socket
import time

import pytest
from kazoo.protocol.states import EventType
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from zkharness.clients import client
from zkharness.servers import wait_until

WAIT_S = 5
# Long enough for an event that should not come to come.
SILENCE_S = 0.4


@pytest.fixture
def events():
    return queue.Queue()


def expect(events, *wanted):
    for kind, path in wanted:
        event = events.get(timeout=WAIT_S)
        assert (event.type, event.path) == (kind, path)


def expect_silence(events):
    time.sleep(SILENCE_S)
    assert events.empty(), f"an event too many: {events.get()}"


def test_a_data_watch_fires_once_for_a_change_and_not_for_the_next(zk, other, base, events):
    zk.get(base, watch=events.put)
    other.set(base, b"1")
    other.set(base, b"2")
    expect(events, (EventType.CHANGED, base))
    expect_silence(events)


def test_the_event_of_a_change_comes_before_the_reader_can_see_the_change(zk, other, base, events):
    zk.get(base, watch=lambda event: events.put((event, time.monotonic())))
    other.set(base, b"new")
    wait_until(lambda: zk.get(base)[0] == b"new", WAIT_S, "the new data")
    seen = time.monotonic()
    _, fired = events.get(timeout=WAIT_S)
    assert fired <= seen + 0.1


def test_an_exists_watch_fires_when_the_node_comes_and_a_data_watch_when_it_goes(zk, other, base, events):
    assert zk.exists(f"{base}/n", watch=events.put) is None
    other.create(f"{base}/n")
    expect(events, (EventType.CREATED, f"{base}/n"))
    zk.exists(f"{base}/n", watch=events.put)
    other.delete(f"{base}/n")
    expect(events, (EventType.DELETED, f"{base}/n"))
    expect_silence(events)


def test_a_child_watch_fires_for_children_and_not_for_data(zk, other, base, events):
    zk.get_children(base, watch=events.put)
    other.set(base, b"1")
    other.create(f"{base}/c")
    expect(events, (EventType.CHILD, base))
    zk.get_children(base, watch=events.put)
    other.set(f"{base}/c", b"grandchildren and children's data do not count")
    expect_silence(events)
    other.delete(f"{base}/c")
    expect(events, (EventType.CHILD, base))


def test_the_deletion_of_a_node_fires_its_data_and_child_watch_as_one_event_each(zk, other, base, events):
    zk.create(f"{base}/n")
    zk.get(f"{base}/n", watch=events.put)
    zk.get_children(f"{base}/n", watch=events.put)
    other.delete(f"{base}/n")
    expect(events, (EventType.DELETED, f"{base}/n"), (EventType.DELETED, f"{base}/n"))
    expect_silence(events)


def test_a_failed_write_fires_nothing(zk, other, base, events):
    zk.get(base, watch=events.put)
    other.transaction().create(f"{base}/x")
    bad = other.transaction()
    bad.set_data(base, b"no")
    bad.check(base, version=99)
    bad.commit()
    expect_silence(events)


def test_kazoos_data_watcher_learns_after_a_lost_connection_what_changed_meanwhile(standalone, other, base):
    with client(standalone.address) as watcher:
        seen = []
        DataWatch(watcher, base, lambda value, stat: seen.append(value))
        watcher._connection._socket.shutdown(socket.SHUT_RDWR)
        other.set(base, b"meanwhile")
        wait_until(lambda: seen[-1] == b"meanwhile", 3 * WAIT_S, "the change")
        assert seen == [b"base", b"meanwhile"]


def test_kazoos_data_and_children_watchers_see_every_state_they_wait_for(zk, other, base):
    data, children = [], []
    DataWatch(zk, base, lambda value, stat: data.append(value))
    ChildrenWatch(zk, base, lambda names: children.append(sorted(names)))
    for n in range(5):
        other.set(base, b"%d" % n)
        wait_until(lambda: data[-1] == b"%d" % n, WAIT_S, "the data")  # noqa: B023
        other.create(f"{base}/c{n}")
        wait_until(lambda: children[-1] == [f"c{k}" for k in range(n + 1)], WAIT_S, "the children")  # noqa: B023
    assert data == [b"base"] + [b"%d" % n for n in range(5)]
