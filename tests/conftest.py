"""Shared by all tests: whole runs of the proofs take turns, so that all but the first one come from the cache."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For as long as a module needs it, no other process of this test session does a whole run of the proofs."""
    with open(tmp_path_factory.getbasetemp().parent / "whole-run.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
