"""Server processes: one member, or an ensemble of members, each of either implementation.

A member is a directory (zoo.cfg, data, log) and at most one process. It keeps its ports and its data over restarts, so a test can
kill it, start it again, or start the other implementation on what it left.
"""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from .ports import free_port

REPO = Path(__file__).resolve().parents[3]
JAVA_SERVER = REPO / "tests/harness/java-server.sh"
# Small and quick to start: a test's server holds little, and two cores are shared by several of them.
JVM_OPTIONS = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzookeeper.admin.enableServer=false"
OURS, JAVA = "ours", "java"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
TICK_MS = 500

_running = set()
_running_lock = threading.Lock()


def implementation():
    """What the process tests are about: ours, unless ZK_TEST_IMPL=java turns them on the reference, to test the tests."""
    impl = os.environ.get("ZK_TEST_IMPL", OURS)
    assert impl in (OURS, JAVA), f"ZK_TEST_IMPL={impl}: ours or java"
    return impl


def server_binary():
    """Our server: ZK_SERVER_BIN, or the newest build."""
    named = os.environ.get("ZK_SERVER_BIN")
    if named:
        assert Path(named).exists(), f"ZK_SERVER_BIN={named} does not exist"
        return named
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
    built = [p for p in (target / "release/zk-server", target / "debug/zk-server") if p.exists()]
    assert built, f"no zk-server below {target}: cargo build -p zk-server"
    return str(max(built, key=lambda p: p.stat().st_mtime))


def command(impl, config):
    if impl == JAVA:
        return [str(JAVA_SERVER), "run", str(config)]
    return [server_binary(), "start", "--config", str(config)]


def four_letter(port, word, timeout_s=2.0):
    """The answer to a four-letter word, or None when nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as conn:
            conn.settimeout(timeout_s)
            conn.sendall(word.encode())
            parts = []
            while part := conn.recv(65536):
                parts.append(part)
            return b"".join(parts).decode(errors="replace")
    except OSError:
        return None


def listens(port):
    """True if somebody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def wait_until(condition, timeout_s, what, pause_s=0.02):
    """Waits for a true value and returns it; the failure says what was waited for."""
    end = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(pause_s)


# For each data directory the implementation that ran on it last, and which one wrote each snapshot that a later one found.
_last_writer = {}
_snapshot_writers = {}


class Member:
    """One server: its directory, its configuration, its process while it runs."""

    def __init__(self, directory, impl, sid=0, settings=None, quorum_lines=(), port=None, properties=None):
        # What upstream reads as a system property alone: -D for the JVM, and a key of zoo.cfg for ours.
        self.properties = properties or {}
        self.directory = Path(directory)
        self.impl = impl
        self.sid = sid
        self.port = port or free_port()
        self.data = self.directory / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "zoo.cfg"
        self.log = self.directory / "log"
        self.process = None
        if sid:
            (self.data / "myid").write_text(f"{sid}\n")
        self.write_config(settings or {}, quorum_lines)

    def write_config(self, settings, quorum_lines):
        values = {
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 10,
            "dataDir": self.data,
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "extendedTypesEnabled": "true",
        }
        values.update(self.properties if self.impl == OURS else {})
        values.update(settings)
        lines = [f"{key}={value}" for key, value in values.items()] + list(quorum_lines)
        self.config.write_text("\n".join(lines) + "\n")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def launch(self):
        """Starts the process, without waiting for it to serve."""
        assert self.process is None or self.process.poll() is not None, f"member {self.sid} runs already"
        environment = dict(os.environ)
        environment.setdefault("ZKE_JVM_OPTS", " ".join([JVM_OPTIONS, *(f"-D{k}={v}" for k, v in self.properties.items())]))
        for snapshot in self.data.glob("version-2/snapshot.*"):
            _snapshot_writers.setdefault(snapshot, _last_writer.get(self.data))
        _last_writer[self.data] = self.impl
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command(self.impl, self.config), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.directory
            )
        with _running_lock:
            _running.add(self)
        return self

    def start(self, timeout_s=READY_TIMEOUT_S):
        """Starts the process and waits until it serves; returns the member."""
        return self.launch().wait_ready(timeout_s)

    def wait_ready(self, timeout_s=READY_TIMEOUT_S):
        def serves():
            assert self.alive(), f"{self} ended with {self.process.returncode}:\n{self.log_tail()}"
            return self.mode()

        try:
            wait_until(serves, timeout_s, f"{self} serves")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_tail()}") from None
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """kill -9, and wait until it is gone."""
        return self._end(signal.SIGKILL)

    def stop(self, timeout_s=STOP_TIMEOUT_S):
        """SIGTERM, and wait until it is gone; returns the exit code."""
        return self._end(signal.SIGTERM, timeout_s)

    def _end(self, number, timeout_s=STOP_TIMEOUT_S):
        if self.process is None:
            return None
        if self.alive():
            self.signal(number)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self} did not stop within {timeout_s} s of signal {number}:\n{self.log_tail()}") from None
        finally:
            with _running_lock:
                _running.discard(self)
        return code

    def doubted_snapshot(self):
        """True if this Java server found the digest of a snapshot wrong that a Java server wrote.

        Upstream writes the nodes first and the digest then, while transactions go on: one that is half done by then is
        among the nodes and not in the digest. The transaction's own digest, next in the log, settles it."""
        text = self.log.read_text(errors="replace")
        *_, text = text.split("FileSnap - Reading snapshot ")
        snapshot = Path(text.split("\n", 1)[0].strip())
        digest = re.search(r"The digest in the snapshot .* with zxid as 0x([0-9a-f]+),", text)
        doubts = re.search(r"Digests are not matching. Value is Zxid. Value:(\d+)", text)
        return (
            self.impl == JAVA
            and _snapshot_writers.get(snapshot) == JAVA
            and digest is not None
            and doubts is not None
            and int(digest[1], 16) == int(doubts[1])
        )

    def log_tail(self, lines=40):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def word(self, word):
        return four_letter(self.port, word)

    def mode(self):
        """leader, follower, observer, standalone; None while it does not serve."""
        for line in (self.word("srvr") or "").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ").strip()
        return None

    def metrics(self):
        """The pairs of `mntr`."""
        pairs = (line.split("\t", 1) for line in (self.word("mntr") or "").splitlines() if "\t" in line)
        return {key.strip(): value.strip() for key, value in pairs}

    def __str__(self):
        return f"{self.impl} member {self.sid} on {self.port}"


class Ensemble:
    """Members that know each other. `impls` gives the implementation of members 1 to n."""

    def __init__(self, directory, impls, settings=None):
        addresses = [(free_port(), free_port()) for _ in impls]
        lines = [f"server.{sid}=127.0.0.1:{q}:{e}" for sid, (q, e) in enumerate(addresses, 1)]
        self.election_ports = {sid: election for sid, (_, election) in enumerate(addresses, 1)}
        self.members = [
            Member(Path(directory) / f"member-{sid}", impl, sid, settings, lines) for sid, impl in enumerate(impls, 1)
        ]

    def __getitem__(self, sid):
        return self.members[sid - 1]

    @property
    def hosts(self):
        return ",".join(member.address for member in self.members)

    def start(self, first=None, timeout_s=READY_TIMEOUT_S):
        """Starts all; `first` starts alone for a moment, so that of equally recent members it leads if its id is the highest."""
        rest = [m for m in self.members if m is not first and not m.alive()]
        if first is not None:
            first.launch()
            # It must be listening for votes before the others look for it.
            wait_until(lambda: listens(self.election_ports[first.sid]), timeout_s, f"{first} takes votes", pause_s=0.1)
            time.sleep(0.5)
        for member in rest:
            member.launch()
        for member in self.members:
            member.wait_ready(timeout_s)
        return self

    def stop(self):
        """SIGTERM to all at once; returns their exit codes."""
        for member in self.members:
            if member.alive():
                member.signal(signal.SIGTERM)
        return [member.stop() for member in self.members]

    def leader(self, timeout_s=READY_TIMEOUT_S):
        """The member that says it leads."""
        return wait_until(lambda: next((m for m in self.members if m.alive() and m.mode() == "leader"), None), timeout_s, "a leader")

    def wait_ready(self, timeout_s=READY_TIMEOUT_S):
        for member in self.members:
            if member.alive():
                member.wait_ready(timeout_s)
        return self


def end_all():
    """Ends every process that is still running: the last line of defence after a failed test."""
    with _running_lock:
        left = list(_running)
    for member in left:
        if member.alive():
            member.process.kill()
            member.process.wait()
        with _running_lock:
            _running.discard(member)
    return [str(member) for member in left]
