#!/usr/bin/env python3
"""Our server against the Java server, in the same run, on the same disk, with fsync on.

    bench.py [--secs S] [--passes N] [--only standalone,ensemble,start,failover] [--full]

Why pairs: a figure of its own says more of the machine than of the server. Passes alternate (Java, ours, Java, ours), each on
fresh data, and a row is the medians of both and their ratio. A ratio above 1 is in our favour on every row: throughput is
ours/Java, costs and times are Java/ours. The table is printed and written to target/bench/, with how busy the machine was otherwise.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
sys.path.insert(0, str(HERE))

from zkharness.load import Load  # noqa: E402
from zkharness.servers import JAVA, OURS, Ensemble, Member, end_all  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
OUT = REPO / "target" / "bench"
# The reference as it is run in production: its default collector, a gigabyte of heap, all compilers.
JVM = "-Xmx1g -Dzookeeper.admin.enableServer=false"
SETTINGS = {"tickTime": 2000, "initLimit": 10, "syncLimit": 5}
# (operation, bytes, sessions, depth)
QUICK = [("get", 100, 1, 1), ("get", 100, 16, 32), ("set", 100, 1, 1), ("set", 100, 16, 1), ("set", 100, 16, 32), ("create", 100, 16, 32), ("mixed", 100, 16, 32)]
FULL = [(op, 100, s, d) for op in ("get", "set", "mixed") for s, d in ((1, 1), (16, 1), (128, 1), (1, 32), (16, 32), (128, 32))] + [
    (op, size, s, d) for op, size in (("set", 1024), ("create", 100)) for s, d in ((1, 1), (16, 1), (16, 32))
]
IMPLS = (JAVA, OURS)
PARTS = ("standalone", "ensemble", "start", "failover")


class Figures:
    """Every measurement by row and implementation. A row's `better` says whether higher or lower is better."""

    def __init__(self):
        self.rows = {}

    def add(self, row, impl, value, better):
        self.rows.setdefault(row, {"better": better, JAVA: [], OURS: []})[impl].append(value)

    def table(self):
        lines = ["| what | Java 3.9.5 | ours | ratio | passes |", "|---|---|---|---|---|"]
        for row, cells in self.rows.items():
            if not cells[JAVA] or not cells[OURS]:
                continue
            java, ours = statistics.median(cells[JAVA]), statistics.median(cells[OURS])
            top, bottom = (ours, java) if cells["better"] == "higher" else (java, ours)
            ratio = f"{top / bottom:.2f}" if bottom else "-"
            lines.append(f"| {row} | {shown(java)} | {shown(ours)} | {ratio} | {len(cells[OURS])} |")
        return "\n".join(lines)

    def behind(self):
        """Rows on which ours is the slower one."""
        behind = []
        for row, cells in self.rows.items():
            if cells[JAVA] and cells[OURS]:
                java, ours = statistics.median(cells[JAVA]), statistics.median(cells[OURS])
                if (ours < java) if cells["better"] == "higher" else (ours > java):
                    behind.append(row)
        return behind


def shown(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.4f}"


class Bench:
    def __init__(self, arguments, root):
        self.arguments = arguments
        self.root = Path(root)
        self.load = Load(TARGET / "release" / "zk-load")
        self.figures = Figures()
        self.points = FULL if arguments.full else QUICK
        self.other_cores = []

    def fresh(self, impl, members):
        directory = self.root / f"{impl}-{members}"
        shutil.rmtree(directory, ignore_errors=True)
        if members == 1:
            return [Member(directory, impl, settings=SETTINGS)]
        return Ensemble(directory, [impl] * members, SETTINGS).members

    def start(self, members):
        """Starts all and returns the milliseconds until the last of them served."""
        began = time.monotonic()
        for member in members:
            member.launch()
        for member in members:
            member.wait_ready()
        return (time.monotonic() - began) * 1000

    def throughput(self, impl, count, name):
        members = self.fresh(impl, count)
        started = self.start(members)
        self.figures.add(f"{name}: start to serving, ms", impl, started, "lower")
        self.figures.add(f"{name}: RSS of a member after start, MiB", impl, self.rss_mib(members), "lower")
        # Compilers of the JVM get time before anything is measured.
        self.load.run(members, secs=max(3.0, self.arguments.secs), op="mixed", sessions=16, depth=32, warm=0)
        for op, size, sessions, depth in self.points:
            report = self.load.run(members, self.arguments.secs, op, sessions, depth, size)
            self.note(f"{name} {op} {size} B, {sessions} x {depth}", impl, report)
        self.figures.add(f"{name}: RSS of a member after the load, MiB", impl, self.rss_mib(members), "lower")
        self.stop(members)

    def note(self, row, impl, report):
        if report["errors"] or report["lost_sessions"]:
            raise RuntimeError(f"{impl} {row}: {report['errors']} errors, {report['lost_sessions']} lost sessions")
        self.other_cores.append(report["other_cores"])
        self.figures.add(f"{row}: ops/s", impl, report["ops_per_sec"], "higher")
        for key in ("p50", "p99", "p999"):
            self.figures.add(f"{row}: {key} ms", impl, report[f"{key}_ms"], "lower")
        self.figures.add(f"{row}: server CPU s per 1,000 ops", impl, report["server_cpu_secs_per_kop"], "lower")
        print(f"  {impl:4} {row}: {report['ops_per_sec']:,.0f}/s p50 {report['p50_ms']:.2f} p99 {report['p99_ms']:.2f} ms, CPU {report['server_cpu_secs_per_kop']:.4f}", flush=True)

    def rss_mib(self, members):
        def one(member):
            with open(f"/proc/{member.pid}/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024

        return statistics.mean(one(member) for member in members)

    def restarts(self, impl):
        """From a stop to serving again, with 100,000 nodes on disk."""
        (member,) = self.fresh(impl, 1)
        member.start()
        self.load.run([member], 0, op="create", sessions=8, depth=64, warm=0, count=100_000)
        member.kill()
        self.figures.add("restart after kill -9 with a log of 100,000 creates, ms", impl, self.start([member]), "lower")
        member.stop()
        self.figures.add("restart with 100,000 nodes after a clean stop, ms", impl, self.start([member]), "lower")
        self.stop([member])

    def failover(self, impl):
        """kill -9 of the leader under a probe: the longest time that a client was without a successful write."""
        members = self.fresh(impl, 3)
        self.start(members)
        time.sleep(2)
        probe = self.load.start_probe(members, secs=8)
        time.sleep(3)
        leader = next(m for m in members if m.mode() == "leader")
        leader.kill()
        report = probe.finish()
        self.figures.add("leader killed: longest gap of a writer, ms", impl, report["max_gap_ms"], "lower")
        self.figures.add("leader killed: failed operations of 3 sessions", impl, report["failed"], "lower")
        leader.start()
        probe = self.load.start_probe(members, secs=8)
        time.sleep(3)
        next(m for m in members if m.mode() == "leader").stop()
        self.figures.add("leader stopped (SIGTERM): longest gap of a writer, ms", impl, probe.finish()["max_gap_ms"], "lower")
        self.stop([m for m in members if m.alive()])

    def stop(self, members):
        for member in members:
            member.stop()

    def run(self):
        parts = {
            "standalone": lambda impl: self.throughput(impl, 1, "standalone"),
            "ensemble": lambda impl: self.throughput(impl, 3, "3 members"),
            "start": self.restarts,
            "failover": self.failover,
        }
        for number in range(self.arguments.passes):
            for part in self.arguments.only.split(","):
                for impl in IMPLS:
                    print(f"pass {number + 1}: {part}, {impl}", flush=True)
                    parts[part](impl)


def write_report(bench, arguments):
    OUT.mkdir(parents=True, exist_ok=True)
    busy = statistics.median(bench.other_cores) if bench.other_cores else 0.0
    head = (
        f"# Benchmark of {time.strftime('%Y-%m-%d %H:%M')}\n\n{os.cpu_count()} cores, shared by servers and load; other work used {busy:.2f} cores (median). "
        f"{arguments.secs} s a row, {arguments.passes} passes, medians, fsync on, heap of the Java server 1 GiB. "
        "Rows are operation, bytes, sessions x requests in flight. A ratio above 1 is in favour of ours.\n"
    )
    text = f"{head}\n{bench.figures.table()}\n"
    path = OUT / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.md"
    path.write_text(text)
    (OUT / "latest.md").write_text(text)
    print(f"\n{text}\nwritten to {path}")
    behind = bench.figures.behind()
    print(f"behind Java on {len(behind)} of {len(bench.figures.rows)} rows" + "".join(f"\n  {row}" for row in behind))


def main():
    parser = argparse.ArgumentParser(description="Benchmarks our server against the Java server.")
    parser.add_argument("--secs", type=float, default=2.0, help="seconds measured for each row")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, by comma: {', '.join(PARTS)}")
    parser.add_argument("--full", action="store_true", help="all rows, about four times as long")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    packages = ["zk-load"] if os.environ.get("ZK_SERVER_BIN") else ["zk-load", "zk-server"]
    subprocess.run(["cargo", "build", "--release", "--locked", *(f"-p{name}" for name in packages)], cwd=REPO, check=True)
    os.environ.setdefault("ZK_SERVER_BIN", str(TARGET / "release" / "zk-server"))
    os.environ["ZKE_JVM_OPTS"] = JVM
    root = tempfile.mkdtemp(prefix="bench-", dir=TARGET)
    try:
        bench = Bench(arguments, root)
        bench.run()
        write_report(bench, arguments)
    finally:
        end_all()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
