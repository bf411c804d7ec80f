"""The same history gets the same answers from the Java server and from ours, request by request."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from history import History  # noqa: E402
from transcript import Transcript  # noqa: E402
from zkharness import servers, wire  # noqa: E402

# ZK_DIFF_SEEDS=100:200 looks further.
SEEDS = range(*map(int, os.environ.get("ZK_DIFF_SEEDS", "1:7").split(":")))
REQUESTS = 1500
CONTEXT = 3


@pytest.fixture
def pair(tmp_path):
    """An empty Java server and an empty one under test."""
    made = [servers.Member(tmp_path / "java", servers.JAVA), servers.Member(tmp_path / "tested", servers.implementation())]
    for member in made:
        member.launch()
    for member in made:
        member.wait_ready()
    yield made
    for member in made:
        member.kill()


def assert_same(requests, expected, found):
    for number, (want, got) in enumerate(zip(expected, found, strict=True)):
        if want != got:
            near = range(max(0, number - CONTEXT), number)
            before = "\n".join(f"  {n}: {requests[n]}\n     {expected[n]}" for n in near)
            request = requests[number] if number < len(requests) else "the closing reads"
            pytest.fail(f"request {number}: {request}\nJava:   {want}\ntested: {got}\nbefore:\n{before}", pytrace=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_gets_the_same_replies_stats_errors_and_events(pair, seed):
    requests = list(History(seed).requests(REQUESTS))
    transcripts = [Transcript(member.port) for member in pair]
    expected, found = (t.feed(requests) for t in transcripts)
    assert_same(requests, expected, found)
    answered = {entry[0][1] for entry in expected if len(entry[0]) > 4 and entry[0][2] == 0}
    missing = set(wire.DECODERS) - answered - {"closeSession", "check", "checkWatches", "removeWatches"}
    assert not missing, f"the history never succeeded with {missing}, so it shows nothing about them"


def script(member, steps):
    """Feeds steps of one session and gives the transcript's entries."""
    return Transcript(member.port).feed([(0, operation, body) for operation, body in steps])


def assert_script_is_same(pair, steps):
    expected, found = (script(member, steps) for member in pair)
    assert_same([(0, *step) for step in steps], expected, found)
    return expected


def test_sequence_numbers_and_parents_versions_are_the_same_after_deletions_and_failures(pair):
    steps = [("create", wire.create("/s", b""))]
    for n in range(6):
        steps.append(("create", wire.create("/s/n-", b"", wire.SEQUENTIAL)))
        steps.append(("create2", wire.create("/s/", b"", wire.EPHEMERAL_SEQUENTIAL)))
        steps.append(("create", wire.create("/s/none/n-", b"", wire.SEQUENTIAL)))
        steps.append(("delete", wire.path_version(f"/s/n-{2 * n:010}")))
        steps.append(("exists", wire.path_watch("/s")))
        steps.append(("multi", wire.multi([("create", wire.create("/s/m", b"")), ("delete", wire.path_version("/s/m"))])))
    assert_script_is_same(pair, steps)


@pytest.mark.parametrize("operation", ["create", "create2", "createContainer"])
def test_a_create_that_a_multi_may_not_hold_spoils_it_whole(pair, operation):
    flags = wire.CONTAINER if operation == "createContainer" else 0
    good, null = (wire.create("/m", b""), wire.create("/n", b"", flags, None))
    for member in pair:
        connection = wire.Connection(member.port)
        reply = connection.call("multi", wire.multi([("create", good), (operation, null)]))
        # Not compared: the zxid, of which Java gives the last one a second time.
        assert (reply.error, reply.body) == (-5, b"")
        assert connection.call("exists", wire.path_watch("/m")).error == -101
    modes = (wire.TTL, wire.SEQUENTIAL_TTL, 7, -1)
    steps = [("multi", wire.multi([("create", good), (operation, wire.create("/n", b"", mode))])) for mode in modes]
    # These take a zxid each, at both.
    replies = [[(r.error, r.body, r.zxid - first.zxid) for r in rest] for first, *rest in (answers(member, steps) for member in pair)]
    assert replies[0] == replies[1] == [(-5, b"", n) for n in range(1, len(steps))]


def answers(member, steps):
    connection = wire.Connection(member.port)
    return [connection.call(operation, body) for operation, body in steps]


def test_quotas_count_the_same(pair):
    limits = b"count=2,bytes=10,countHardLimit=-1,byteHardLimit=-1"
    steps = [
        ("create", wire.create("/q", b"1234")),
        ("create", wire.create("/zookeeper/quota/q", b"")),
        ("create", wire.create("/zookeeper/quota/q/zookeeper_limits", limits)),
        ("create", wire.create("/zookeeper/quota/q/zookeeper_stats", b"count=1,bytes=4")),
    ]
    for change in (
        ("create", wire.create("/q/a", b"12")),
        ("setData", wire.set_data("/q/a", b"123456789")),
        ("create", wire.create("/q/a/b", None)),
        ("delete", wire.path_version("/q/a/b")),
        ("setData", wire.set_data("/q", None)),
    ):
        steps += [change, ("getData", wire.path_watch("/zookeeper/quota/q/zookeeper_stats"))]
    steps += [("delete", wire.path_version("/zookeeper/quota/q/zookeeper_limits")), ("getData", wire.path_watch("/zookeeper/quota/q/zookeeper_stats"))]
    assert_script_is_same(pair, steps)


def test_what_a_new_server_holds_is_the_same(pair):
    steps = []
    for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
        for operation in ("exists", "getChildren2", "getData"):
            steps.append((operation, wire.path_watch(path)))
        steps.append(("getACL", wire.string(path)))
        steps.append(("delete", wire.path_version(path)))
        steps.append(("setData", wire.set_data(path, b"x")))
    assert_script_is_same(pair, steps)


def test_the_connect_response_and_the_negotiated_timeout_are_the_same(pair):
    for timeout_ms in (0, 1, 500, 1000, 5000, 60_000, -1):
        java, tested = (wire.Connection(member.port, timeout_ms) for member in pair)
        assert (java.protocol, java.timeout_ms, len(java.connect_response)) == (tested.protocol, tested.timeout_ms, len(tested.connect_response))
        assert java.session and tested.session and len(tested.password) == len(java.password) == 16
        java.close()
        tested.close()


def test_a_client_that_has_seen_a_later_zxid_is_turned_away_by_both(pair):
    for member in pair:
        with pytest.raises((wire.Closed, ConnectionError)):
            wire.Connection(member.port, last_zxid=1 << 50)


@pytest.mark.parametrize(
    "frame",
    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x20\x00\x00" + b"x" * 100, b"\x00\x00\x00\x03abc"],
    ids=["huge", "negative", "above the limit", "shorter than a header"],
)
def test_a_broken_frame_closes_its_connection_and_no_other(pair, frame):
    for member in pair:
        good, bad = wire.Connection(member.port), wire.Connection(member.port)
        bad.socket.sendall(frame)
        with pytest.raises((wire.Closed, ConnectionError)):
            bad.receive()
        assert good.call("exists", wire.path_watch("/")).error == 0


def test_requests_sent_together_are_answered_in_their_order(pair):
    steps = [("create", wire.create(f"/p{n}", b"x")) if n % 3 else ("getData", wire.path_watch(f"/p{n - 1}")) for n in range(1, 200)]
    answers = []
    for member in pair:
        connection = wire.Connection(member.port)
        sent = [connection.send(operation, body) for operation, body in steps]
        replies = [connection.receive() for _ in steps]
        assert [r.xid for r in replies] == sent
        answers.append([(r.error, r.decode(op)[0] if r.error == 0 and op == "getData" else None) for r, (op, _) in zip(replies, steps, strict=True)])
    assert answers[0] == answers[1]
