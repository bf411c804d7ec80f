"""The Java programs are compiled once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from zkharness import java  # noqa: E402


@pytest.fixture(scope="session")
def classes(tmp_path_factory):
    return java.compiled(tmp_path_factory.mktemp("classes"))
