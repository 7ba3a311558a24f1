"""Small specs as text, for the tests that want one with a fault in it."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType

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


def import_text(folder: Path, text: str) -> ModuleType:
    """Import a module from text; its source stays at hand for as long as the folder is there."""
    name = f"spec_of_test_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text)
    described = importlib.util.spec_from_file_location(name, path)
    assert described is not None
    assert described.loader is not None
    made = importlib.util.module_from_spec(described)
    sys.modules[name] = made
    described.loader.exec_module(made)
    return made


def marked_line(problem: BaseException) -> int:
    """The line marked `# here` in the file that an error names first."""
    path = str(problem).split(":")[0]
    lines = Path(path).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if "# here" in line)
