"""The Java client and Curator against the server: every public method of a class of cases is one test.

A class of cases runs in one JVM, when the first of its tests is asked for; the tests then look up how their case went.
"""

import subprocess

import pytest
from zkharness import java, servers

RUN_TIMEOUT_S = 280
_outcomes = {}


def outcomes(name, classes, hosts):
    """{case: None or the trace of its failure}."""
    if name not in _outcomes:
        done = subprocess.run(java.command(classes, "RunCases", name, hosts), capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
        found = {}
        for line in done.stdout.splitlines():
            word, _, case = line.partition(" ")
            if word == "PASS":
                found[case] = None
            elif word == "FAIL":
                found[case] = last = [case]
            elif line.startswith("  ") and found:
                last.append(line)
        _outcomes[name] = found
        assert "END" in done.stdout.splitlines(), f"the JVM ended early:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return _outcomes[name]


def assert_passed(found, case):
    assert case in found, f"{case} did not run"
    if found[case] is not None:
        pytest.fail("\n".join(found[case]), pytrace=False)


@pytest.fixture(scope="module")
def quick_containers(tmp_path_factory):
    """A single server that looks for empty containers and old TTL nodes every half second."""
    member = servers.Member(tmp_path_factory.mktemp("java-client"), servers.implementation(), properties={"znode.container.checkIntervalMs": 500})
    member.start()
    yield member
    member.stop()


@pytest.mark.parametrize("case", java.cases("NodeCases"))
def test_nodes(classes, quick_containers, case):
    assert_passed(outcomes("NodeCases", classes, quick_containers.address), case)


@pytest.mark.parametrize("case", java.cases("WatchCases"))
def test_watches(classes, quick_containers, case):
    assert_passed(outcomes("WatchCases", classes, quick_containers.address), case)


@pytest.mark.parametrize("case", java.cases("RecipeCases"))
def test_curator_recipes(classes, ensemble, case):
    assert_passed(outcomes("RecipeCases", classes, ensemble.hosts), case)
