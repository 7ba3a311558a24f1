"""Shared by the tests of the language and of the specs: small specs made from text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from spec_text import HEAD, STATE, TAIL, import_text

MakeModule = Callable[[str], ModuleType]


@pytest.fixture
def module(tmp_path: Path) -> MakeModule:
    """Import a module from text; its source stays at hand for as long as the test runs."""
    return lambda text: import_text(tmp_path, text)


@pytest.fixture
def pool_spec(module: MakeModule) -> Callable[..., ModuleType]:
    """A small pool's spec with some more spec functions; `head` stands before the state."""

    def make(more: str = "", head: str = "", state: str = STATE, tail: str = TAIL) -> ModuleType:
        return module(HEAD + textwrap.dedent(head) + state + "\n" + textwrap.dedent(more) + tail)

    return make


@pytest.fixture
def function(pool_spec: Callable[..., ModuleType]) -> Callable[[str, str], ModuleType]:
    """A spec with one more function of a kind, given by its body; the line marked `# here` can be found again."""
    parameters = "(pool: Pool, slot: Slot, other: Slot, holder: Holder, amount: Int)"
    heads = {
        "action": f"@action\ndef act{parameters} -> None:",
        "define": f"@define\ndef look{parameters} -> Bool:",
        "invariant": "@invariant('I1')\ndef holds(pool: Pool) -> Bool:",
        "theorem": f"@theorem('I1')\ndef holds{parameters} -> Bool:",
    }

    def make(kind: str, body: str, **more: str) -> ModuleType:
        text = f'{heads[kind]}\n    """What it means."""\n{textwrap.indent(textwrap.dedent(body), "    ")}\n'
        return pool_spec(text, **more)

    return make
