"""Shared by the tests of the language and of the specs: small specs made from text."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

_numbers = itertools.count()

HEAD = '''\
"""A spec made for one test."""

from __future__ import annotations

from poolproof.spec.language import *


class Slot(Id):
    """An id with a size."""


class Holder(Id):
    """An id without one."""


class Kind(Enumeration):
    """What a slot is."""

    FREE = 0
    USED = 1
'''

STATE = '''

class Pool(State):
    """A small pool."""

    total: Size[Slot]
    kind: Map[Slot, Kind]
    holder: Map[Slot, Holder]
    notes: Ghost[Map[Slot, Int]]
    free: Roster[Slot]
    shadow: Ghost[Roster[Slot]]
    locked: Set[Slot]
    marked: Set[Slot]
    used: Int
    seen: Ghost[Int]
    is_open: Bool


@initial
def create(pool: Pool) -> None:
    """Everything is free."""
    pool.kind.relabel(lambda slot: Kind.FREE)
    pool.free.fill(Slot(0), pool.total)
    pool.shadow.empty()
    pool.used = 0
'''

TAIL = """

SPEC = Specification("pool", Pool, {"total": 1}, {Holder: (Holder(0), Holder(1))})
"""


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], ModuleType]:
    """Import a module from text; its source stays at hand for as long as the test runs."""

    def make(text: str) -> ModuleType:
        name = f"spec_of_test_{next(_numbers)}"
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        described = importlib.util.spec_from_file_location(name, path)
        assert described is not None
        assert described.loader is not None
        made = importlib.util.module_from_spec(described)
        sys.modules[name] = made
        described.loader.exec_module(made)
        return made

    return make


@pytest.fixture
def pool_spec(module: Callable[[str], ModuleType]) -> Callable[[str], ModuleType]:
    """A small pool's spec with some more spec functions."""

    def make(more: str = "", head: str = "", state: str = STATE) -> ModuleType:
        return module(HEAD + textwrap.dedent(head) + state + textwrap.dedent(more) + TAIL)

    return make
