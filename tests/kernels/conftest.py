"""Shared by the tests of the kernels: where they run. Without a CUDA device, Triton's interpreter runs them.

Triton looks at TRITON_INTERPRET when it is first imported, so the variable is set here, before any test module is.
"""

from __future__ import annotations

import os
import sys

import pytest
import torch

if not torch.cuda.is_available():
    late = "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"
    assert not late, "triton was imported before tests/kernels/conftest.py could ask for its interpreter"
    os.environ["TRITON_INTERPRET"] = "1"

from places import needs_cuda

from poolproof.kernels import interpreter


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
