#!/usr/bin/env python3
"""Runs every suite of the project, one stage after the other, and sums what they say.

    run_tests.py [--only NAME,..] [--skip NAME,..] [--list] [--verbose]

What: a table of stages, each one command. Why one runner: `make test` is the only caller of the suites, so what passes
here is what passes. A stage's output goes to target/test-logs/NAME.log and, with --verbose, to the terminal too.
The last line is `N passed, N failed` (`, N skipped` when there are any), summed over the suites; a stage without counts of its own
(a lint) is one test. The exit code is 0 only when nothing failed and every stage ran.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
LOGS = REPO / "target" / "test-logs"
CACHE = Path(os.environ.get("ZKE_CACHE", Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zkensemble"))
VERSIONS = dict(
    line.split("=", 1) for line in (REPO / "tests/harness/versions.env").read_text().splitlines() if re.match(r"[A-Z]", line)
)
VENV_PYTHON = CACHE / f"venv-kazoo-{VERSIONS['KAZOO_VERSION']}" / "bin" / "python"
CARGO_DENY = CACHE / f"cargo-deny-{VERSIONS['CARGO_DENY_VERSION']}" / "bin" / "cargo-deny"
DENY_CHECK = [str(CARGO_DENY), "--all-features", "--workspace", "check", "bans", "licenses", "sources"]
PYTEST = [str(VENV_PYTHON), "-m", "pytest", "-q", "-ra", "--timeout=300", "-p", "no:cacheprovider"]
FAILURE_TAIL_LINES = 80


@dataclass
class Stage:
    """One command. `counts`: whether its output has counts of tests; `needs`: stages without which it makes no sense."""

    name: str
    command: list
    timeout_s: int
    counts: bool = True
    needs: tuple = ()
    absent: str = ""  # why it cannot run here; then it counts as skipped


@dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    failures: list = field(default_factory=list)


def stages():
    """Every suite, cheapest first. Limits are about three times what two cores need."""
    cargo = ["cargo"]
    return [
        Stage("fmt", cargo + ["fmt", "--all", "--check"], 120, counts=False),
        Stage("clippy", cargo + ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"], 1500, counts=False),
        Stage("deny", DENY_CHECK, 300, counts=False, absent="" if CARGO_DENY.exists() else "not built yet: make deny"),
        # The binaries come first: tests at the product's boundary find them by ZK_SERVER_BIN.
        Stage("build", cargo + ["build", "--locked", "--release", "-p", "zk-server", "-p", "zk-operator"], 1500, counts=False),
        Stage("unit", cargo + ["test", "--locked", "--workspace", "--exclude", "zk-sim", "--no-fail-fast"], 2400),
        Stage("sim", cargo + ["test", "--locked", "--profile", "sim", "-p", "zk-sim", "--no-fail-fast"], 2400),
        Stage("mutants", cargo + ["test", "--locked", "--profile", "sim", "-p", "zk-sim", "--features", "mutants",
                                  "--test", "scenarios_mutants", "--test", "mutants", "--no-fail-fast"], 2400),
        Stage("client_kazoo", PYTEST + ["tests/client_kazoo"], 900, needs=("build",)),
        Stage("client_java", PYTEST + ["tests/client_java"], 900, needs=("build",)),
        Stage("client_failover", PYTEST + ["tests/client_failover"], 900, needs=("build",)),
        Stage("interop_differential", PYTEST + ["tests/interop_differential"], 900, needs=("build",)),
        Stage("interop_ensemble", PYTEST + ["tests/interop_ensemble"], 900, needs=("build",)),
    ]


CARGO_LINE = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", re.M)
PYTEST_LINE = re.compile(r"^=* ?((?:\d+ [a-z]+,? ?)+) in [\d.]+s", re.M)
PYTEST_PART = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
FAILED_NAME = re.compile(r"^(?:test (\S+) \.\.\. FAILED|FAILED (\S+)|ERROR (\S+))", re.M)


def count(text):
    """The counts in a log: cargo's `test result:` lines and pytest's closing line."""
    result = Result()
    for passed, failed, ignored in CARGO_LINE.findall(text):
        result.passed += int(passed)
        result.failed += int(failed)
        result.skipped += int(ignored)
    for line in PYTEST_LINE.findall(text):
        for number, word in PYTEST_PART.findall(line):
            kind = "failed" if word.startswith("error") else word
            setattr(result, kind, getattr(result, kind) + int(number))
    result.failures = [next(filter(None, groups)) for groups in FAILED_NAME.findall(text)]
    return result


def execute(stage, log, verbose):
    """Runs the command in its own process group; returns its exit code, or None when it overran and was ended."""
    environment = dict(os.environ, CARGO_TERM_COLOR="never", PYTHONDONTWRITEBYTECODE="1")
    environment.setdefault("ZK_SERVER_BIN", str(TARGET / "release" / "zk-server"))
    with open(log, "wb") as out:
        child = subprocess.Popen(
            stage.command, cwd=REPO, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        follower = subprocess.Popen(["tail", "-n", "+1", "-f", f"--pid={child.pid}", str(log)]) if verbose else None
        try:
            return child.wait(stage.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_group(child)
            if follower:
                follower.wait()


def end_group(child):
    """Ends what the stage left running. The group is its own session's, so nothing else is in it."""
    for sig, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, sig)
        except ProcessLookupError:
            break
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.2)


def run(stage, verbose):
    log = LOGS / f"{stage.name}.log"
    began = time.monotonic()
    code = execute(stage, log, verbose)
    text = log.read_text(errors="replace")
    result = count(text) if stage.counts else Result(passed=int(code == 0), failed=int(code != 0))
    result.seconds = time.monotonic() - began
    if code is None:
        result.note = f"ended after its limit of {stage.timeout_s} s"
    elif code != 0:
        result.note = f"exit code {code}"
    elif stage.counts and result.passed + result.failed + result.skipped == 0:
        result.note = "ran no test"
    if result.note and result.failed == 0:
        result.failed = 1  # a suite that broke before counting is a failure, not a blank
    if result.failed and not verbose:
        print("\n".join(text.splitlines()[-FAILURE_TAIL_LINES:]), flush=True)
    return result


def chosen(arguments):
    known = stages()
    names = {stage.name for stage in known}
    only = set(filter(None, arguments.only.split(",")))
    skip = set(filter(None, arguments.skip.split(",")))
    unknown = (only | skip) - names
    if unknown:
        sys.exit(f"no such stage: {', '.join(sorted(unknown))}; known: {', '.join(s.name for s in known)}")
    return [s for s in known if (not only or s.name in only) and s.name not in skip]


def describe(name, result):
    counts = f"{result.passed:5} passed {result.failed:3} failed {result.skipped:3} skipped"
    return f"{name:22} {result.seconds:7.1f} s  {counts}  {result.note}".rstrip()


def main():
    parser = argparse.ArgumentParser(description="Runs the suites of the project.")
    parser.add_argument("--only", default="", help="stages to run, by comma")
    parser.add_argument("--skip", default="", help="stages to leave out, by comma")
    parser.add_argument("--list", action="store_true", help="print the stages and their commands")
    parser.add_argument("--verbose", action="store_true", help="show the output of the stages as it comes")
    arguments = parser.parse_args()
    selected = chosen(arguments)
    if arguments.list:
        for stage in selected:
            print(f"{stage.name:22} {' '.join(stage.command)}")
        return 0
    return report(run_all(selected, arguments.verbose))


def run_all(selected, verbose):
    LOGS.mkdir(parents=True, exist_ok=True)
    results = {}
    for stage in selected:
        broken = [n for n in stage.needs if n in results and results[n].failed]
        if broken:
            results[stage.name] = Result(failed=1, note=f"not run: {', '.join(broken)} failed")
        elif stage.absent:
            results[stage.name] = Result(skipped=1, note=stage.absent)
        else:
            print(f"-- {stage.name} (log: {LOGS / (stage.name + '.log')})", flush=True)
            results[stage.name] = run(stage, verbose)
        print(describe(stage.name, results[stage.name]), flush=True)
    return results


def report(results):
    print("\nstage                     time     counts")
    for name, result in results.items():
        print(describe(name, result))
        for failure in result.failures[:20]:
            print(f"    FAILED {failure}")
    passed, failed, skipped = (sum(getattr(r, key) for r in results.values()) for key in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
