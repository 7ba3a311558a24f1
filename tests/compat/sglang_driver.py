"""The peer's worker as a module, and its calls made on our names."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from poolproof.compat import sglang
from poolproof.compat.sglang_factory import SETTINGS

Json = dict[str, Any]
FILE = Path(__file__).resolve().parents[2] / "bench" / "peers" / "sglang_checkpoint_worker.py"


def load() -> ModuleType:
    """The worker's module; it needs torch alone."""
    spec = importlib.util.spec_from_file_location("sglang_checkpoint_worker", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORKER = load()


@contextmanager
def with_settings(mamba: Any) -> Iterator[None]:
    """An engine in this process whose settings are these, or that has published none."""

    def get_exec() -> Any:
        if mamba is None:
            raise ValueError("not published")
        return SimpleNamespace(mamba=mamba)

    engine = ModuleType(SETTINGS)
    engine.get_exec = get_exec  # type: ignore[attr-defined]
    sys.modules[SETTINGS] = engine
    try:
        yield
    finally:
        del sys.modules[SETTINGS]


def driver(setup: Json) -> Any:
    """The worker's driver on our names."""
    return WORKER.Driver(sglang, setup, with_settings, None)


def states(setup: Json, call: Json) -> torch.Tensor:
    """What a call stored: the states of its specs, next to each other unless it has but one."""
    if call["op"] == "quantize":
        state: torch.Tensor = WORKER.state_of(call["spec"], tuple(call["shape"]), getattr(torch, call["dtype"]))
        return state
    shape = tuple(setup[key] for key in ("layers", "heads", "d_v", "d_k"))
    each = [WORKER.state_of(spec, shape, getattr(torch, setup["dtype"])) for spec in call["specs"]]
    return each[0] if call.get("alone") and "form" in call["slots"] else torch.stack(each, 1)
