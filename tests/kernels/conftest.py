"""Shared by the tests of the kernels: where they run. Without a CUDA device, Triton's interpreter runs them."""

from __future__ import annotations

import pytest
import torch
from places import needs_cuda

from poolproof.kernels import interpreter

assert torch.cuda.is_available() or interpreter.is_on(), "tests/conftest.py asks for Triton's interpreter"


@pytest.fixture(
    params=[
        "torch",
        pytest.param("interpreter", marks=pytest.mark.skipif(not interpreter.is_on(), reason="kernels are compiled")),
        pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda]),
    ]
)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The device of the pools; on the CPU with the kernels in torch and with the kernels interpreted."""
    if request.param == "torch":
        monkeypatch.setattr(interpreter, "is_on", lambda: False)
    return torch.device("cuda" if request.param == "cuda" else "cpu")
