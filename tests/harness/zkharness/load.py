"""Runs `zk-load` and reads its line of JSON."""

import json
import subprocess


class Load:
    """The load generator's binary."""

    def __init__(self, binary):
        self.binary = str(binary)

    def run(self, members, secs, op="set", sessions=16, depth=1, size=100, warm=0.5, count=0):
        """Load on `members`, with the CPU and memory of their processes; returns the report."""
        arguments = ["--op", op, "--sessions", sessions, "--depth", depth, "--size", size, "--secs", secs, "--warm", warm, "--count", count]
        pids = ",".join(str(m.pid) for m in members)
        return self._json("run", members, [*arguments, "--pids", pids], timeout_s=secs + warm + 300)

    def start_probe(self, members, secs, sessions=3):
        """Starts a probe beside what the caller does next; `finish` gives its report."""
        return Probe(subprocess.Popen(self._command("probe", members, ["--secs", secs, "--sessions", sessions]), stdout=subprocess.PIPE, text=True))

    def _command(self, mode, members, arguments):
        return [self.binary, mode, "--servers", ",".join(m.address for m in members), *map(str, arguments)]

    def _json(self, mode, members, arguments, timeout_s):
        done = subprocess.run(self._command(mode, members, arguments), capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise RuntimeError(f"zk-load ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)


class Probe:
    def __init__(self, process):
        self.process = process

    def finish(self, timeout_s=120):
        output, _ = self.process.communicate(timeout=timeout_s)
        return json.loads(output)
