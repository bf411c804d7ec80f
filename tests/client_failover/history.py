"""What writers did and were told, and whether what is found at the end can be so.

A write's outcome is `ok`, or `unknown` when the answer was lost: then it may have happened or not, now or a little later. What an
ensemble promises: an acknowledged write is there, nothing is there twice, what was never sent is not there, and one writer's writes
are in its order.
"""

import threading
from dataclasses import dataclass, field

OK, UNKNOWN = "ok", "unknown"


@dataclass
class WriterHistory:
    """One writer's record. Creates are numbered; each name is tried until its answer is known, or given up as unknown."""

    name: str
    creates: dict = field(default_factory=dict)  # number: outcome
    sequenced: dict = field(default_factory=dict)  # path that was acknowledged: number
    sequenced_unknown: int = 0
    counter_ok: int = 0  # version-checked additions that were acknowledged
    counter_unknown: int = 0
    zxids: list = field(default_factory=list)  # of acknowledged writes, in the writer's order
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledged(self):
        return sum(1 for outcome in self.creates.values() if outcome == OK) + len(self.sequenced) + self.counter_ok


def check(histories, nodes, sequenced, counters):
    """Faults, as sentences. `nodes`: {writer: set of numbers found}, `sequenced`: {writer: {path: data}}, `counters`: {writer: (value, version)}."""
    faults = []
    for history in histories:
        faults += _check_creates(history, nodes[history.name])
        faults += _check_sequenced(history, sequenced[history.name])
        faults += _check_counter(history, *counters[history.name])
        if history.zxids != sorted(set(history.zxids)):
            faults.append(f"{history.name}: acknowledged zxids are not in the writer's order")
    return faults


def _check_creates(history, found):
    tried = set(history.creates)
    acknowledged = {n for n, outcome in history.creates.items() if outcome == OK}
    lost, strange = acknowledged - found, found - tried
    faults = [f"{history.name}: acknowledged and lost: {sorted(lost)[:10]}"] if lost else []
    return faults + ([f"{history.name}: never sent, yet there: {sorted(strange)[:10]}"] if strange else [])


def _check_sequenced(history, found):
    faults = []
    lost = set(history.sequenced) - set(found)
    if lost:
        faults.append(f"{history.name}: sequence nodes acknowledged and lost: {sorted(lost)[:10]}")
    extra = len(found) - len(history.sequenced)
    if extra > history.sequenced_unknown:
        faults.append(f"{history.name}: {extra} sequence nodes without an answer, but only {history.sequenced_unknown} answers were lost")
    if len(set(found.values())) != len(found):
        faults.append(f"{history.name}: a sequence node was made twice by one request")
    order = [number for _, number in sorted((path, number) for path, number in history.sequenced.items())]
    if order != sorted(order):
        faults.append(f"{history.name}: sequence numbers are not in the writer's order")
    return faults


def _check_counter(history, value, version):
    faults = []
    if value != version:
        faults.append(f"{history.name}: the counter is {value} at version {version}: an addition was lost or came twice")
    if not history.counter_ok <= value <= history.counter_ok + history.counter_unknown:
        faults.append(f"{history.name}: the counter is {value}, with {history.counter_ok} acknowledged and {history.counter_unknown} unknown")
    return faults
