"""A fresh client and a fresh node for each test, on a server that the tests of a module share."""

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from zkharness.clients import client  # noqa: E402

_numbers = itertools.count()


@pytest.fixture
def zk(standalone):
    with client(standalone.address) as connected:
        yield connected


@pytest.fixture
def other(standalone):
    """A second client of the same server."""
    with client(standalone.address) as connected:
        yield connected


@pytest.fixture
def base(zk):
    """A node of the test's own."""
    path = f"/test-{next(_numbers)}"
    zk.create(path, b"base")
    return path
