"""The Java client as a writer: a process of its own, whose record is read when it ends."""

import subprocess

from history import WriterHistory
from zkharness import java

END_TIMEOUT_S = 60


class JavaWriter:
    def __init__(self, name, hosts, classes, log):
        self.name = name
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                java.command(classes, "FailoverWriter", hosts, name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def finish(self):
        """Tells it to stop, and returns its history."""
        try:
            output, _ = self.process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        assert self.process.returncode == 0, f"{self.name} ended with {self.process.returncode}"
        return parse(self.name, output)

    def kill(self):
        self.process.kill()
        self.process.wait()


def parse(name, output):
    history = WriterHistory(name)
    for line in output.splitlines():
        word, *rest = line.split(" ")
        if word == "create":
            history.creates[int(rest[0])] = rest[1]
        elif word == "sequenced":
            history.sequenced[rest[0]] = int(rest[1])
        elif word == "zxid":
            history.zxids.append(int(rest[0]))
        elif word == "totals":
            history.sequenced_unknown, history.counter_ok, history.counter_unknown = map(int, rest)
    return history
