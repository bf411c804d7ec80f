"""Writers that go on through failovers, each with its own kazoo client and its own record."""

import threading
import time

from history import OK, UNKNOWN, WriterHistory
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NodeExistsError, OperationTimeoutError, SessionExpiredError
from kazoo.exceptions import ConnectionClosedError
from kazoo.handlers.threading import KazooTimeoutError

LOST = (ConnectionLoss, SessionExpiredError, OperationTimeoutError, ConnectionClosedError, KazooTimeoutError)
ROOT = "/failover"
ANSWER_TIMEOUT_S = 10
PAUSE_S = 0.002


def paths(name):
    return f"{ROOT}/{name}/creates", f"{ROOT}/{name}/sequenced", f"{ROOT}/{name}/counter"


class Writer(threading.Thread):
    """Creates numbered nodes, sequence nodes and counts, until told to stop."""

    def __init__(self, name, hosts):
        super().__init__(name=name, daemon=True)
        self.history = WriterHistory(name)
        self.hosts = hosts
        self.stopping = threading.Event()
        self.failure = None
        self.longest_gap_s = 0.0

    def run(self):
        zk = KazooClient(hosts=self.hosts, timeout=8.0, connection_retry={"max_tries": -1, "delay": 0.02, "max_delay": 0.2}, randomize_hosts=True)
        try:
            zk.start(timeout=60)
            self._write(zk)
        except BaseException as error:  # noqa: BLE001 the test reports it
            self.failure = error
        finally:
            zk.stop()
            zk.close()

    def _write(self, zk):
        for path in paths(self.name):
            zk.retry(zk.ensure_path, path)
        # The counter's value is its version: both start at zero, and each addition is checked against the version.
        number, last = 0, time.monotonic()
        while not self.stopping.is_set():
            number += 1
            if (self._create(zk, number), self._sequence(zk, number), self._count(zk)) == (OK, OK, OK):
                now = time.monotonic()
                self.longest_gap_s, last = max(self.longest_gap_s, now - last), now
            time.sleep(PAUSE_S)

    def _create(self, zk, number):
        """Repeats the create until an answer is known: `exists` after a lost answer means that it was done."""
        path = f"{paths(self.name)[0]}/{number}"
        lost = False
        while True:
            try:
                _, stat = zk.create_async(path, b"x", include_data=True).get(timeout=ANSWER_TIMEOUT_S)
            except NodeExistsError:
                assert lost, f"{path} exists before it was ever created"
                self.history.creates[number] = OK
                return OK
            except LOST:
                lost = True
                self.history.creates[number] = UNKNOWN
                if self.stopping.is_set():
                    return UNKNOWN
                time.sleep(0.02)
            else:
                self.history.creates[number] = OK
                self.history.zxids.append(stat.czxid)
                return OK

    def _sequence(self, zk, number):
        """Never repeated: at most one node for each request may be found."""
        try:
            path, stat = zk.create_async(f"{paths(self.name)[1]}/n-", b"%d" % number, sequence=True, include_data=True).get(timeout=ANSWER_TIMEOUT_S)
        except LOST:
            self.history.sequenced_unknown += 1
            return UNKNOWN
        self.history.sequenced[path] = number
        self.history.zxids.append(stat.czxid)
        return OK

    def _count(self, zk):
        path = paths(self.name)[2]
        try:
            data, stat = zk.get_async(path).get(timeout=ANSWER_TIMEOUT_S)
        except LOST:
            return UNKNOWN
        value = int(data or 0)
        try:
            stat = zk.set_async(path, b"%d" % (value + 1), version=stat.version).get(timeout=ANSWER_TIMEOUT_S)
        except LOST:
            self.history.counter_unknown += 1
            return UNKNOWN
        except Exception as error:  # noqa: BLE001 a BadVersion here is a late unknown write, which the next read sees
            if type(error).__name__ != "BadVersionError":
                raise
            return UNKNOWN
        self.history.counter_ok += 1
        self.history.zxids.append(stat.mzxid)
        return OK


def found(zk, names):
    """What is there at the end: the three arguments of `history.check`."""
    nodes, sequenced, counters = {}, {}, {}
    for name in names:
        creates, sequence, counter = paths(name)
        nodes[name] = {int(child) for child in zk.get_children(creates)}
        sequenced[name] = {f"{sequence}/{child}": zk.get(f"{sequence}/{child}")[0] for child in zk.get_children(sequence)}
        data, stat = zk.get(counter)
        counters[name] = (int(data or 0), stat.version)
    return nodes, sequenced, counters
