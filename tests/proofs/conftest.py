"""Shared by the tests of the proofs: subjects made from text, a cache of their own, and a run of them."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poolproof.proofs import tasks
from poolproof.proofs.counterexample import Counterexample
from poolproof.proofs.prove import Options, prove
from poolproof.proofs.results import Report
from poolproof.proofs.subject import Subject

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOLPROOF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module from text, where other processes find it too."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(text: str, name: str = "") -> Any:
        name = name or f"subject_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return made


@pytest.fixture
def run(make: Callable[[str], Any]) -> Callable[..., Report]:
    """Run the proofs of a subject given as text or as itself."""

    def ran(what: str | Subject, **options: Any) -> Report:
        subject = make(what).SUBJECT if isinstance(what, str) else what
        return prove([subject], Options(**{"use_cache": False, **options}))

    return ran


@pytest.fixture
def decide(make: Callable[[str], Any]) -> Callable[..., tuple[str, Counterexample | None]]:
    """What the solver and the search for counterexamples say of one claim of a subject given as text."""

    def decided(text: str, claim: str) -> tuple[str, Counterexample | None]:
        subject = make(text).SUBJECT
        obligation = tasks.obligations_of(subject)[claim]
        said = tasks.solve_task(subject, {claim: obligation.text})[claim]
        found = said["counterexample"]
        return said["verdict"], None if found is None else Counterexample(**found)

    return decided
