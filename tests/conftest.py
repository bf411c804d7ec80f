"""Fixtures of the process tests: servers that are gone when the test is over."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "harness"))

from zkharness import servers  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def no_server_outlives_the_session():
    yield
    servers.end_all()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory):
    """A single server of the implementation under test, shared by the tests of a module."""
    member = servers.Member(tmp_path_factory.mktemp("standalone"), servers.implementation()).start()
    yield member
    member.stop()


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    """Three members of the implementation under test, shared by the tests of a module, all running before each test."""
    group = servers.Ensemble(tmp_path_factory.mktemp("ensemble"), [servers.implementation()] * 3).start()
    yield group
    group.stop()


@pytest.fixture
def make_ensemble(tmp_path):
    """Makes ensembles of given implementations, and ends them."""
    made = []

    def make(impls, settings=None):
        group = servers.Ensemble(tmp_path / f"ensemble-{len(made)}", impls, settings)
        made.append(group)
        return group

    yield make
    for group in made:
        for member in group.members:
            member.kill()
