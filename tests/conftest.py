"""Shared by all tests: where kernels run, and whole runs of the proofs take turns, so that all but the first one come
from the cache.

Triton looks at TRITON_INTERPRET when it is first imported, so the variable is set here, before any test module is:
without a CUDA device, Triton's interpreter runs the kernels.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For as long as a module needs it, no other process of this test session does a whole run of the proofs."""
    with open(tmp_path_factory.getbasetemp().parent / "whole-run.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
