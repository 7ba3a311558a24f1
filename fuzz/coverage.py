"""What a campaign has exercised: operations, actions of the spec, and every guard that has said no."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from types import TracebackType
from typing import Any, Final

from poolproof.fuzz.operations import NAMES
from poolproof.spec import slots as spec
from poolproof.spec.language import Refused
from poolproof.spec.language.source import is_guard, parse, statements

_SPEC_FILE: Final = spec.__file__
REPEATED: Final = "no item occurs twice"
_SILENT: Final = {("reserve", "pool.group_is_open")}
"""Guards that cannot say no here: the driver reserves only inside `open_group`."""


class Coverage:
    """Counts of one or more runs."""

    def __init__(self) -> None:
        self.done = dict.fromkeys(NAMES, 0)
        self.refused = dict.fromkeys(NAMES, 0)
        self.skipped: Counter[str] = Counter()
        self.steps = {item.name: 0 for item in spec.SPEC.actions}
        self.refusals: Counter[tuple[str, int]] = Counter()

    def refuse(self, action: str, refusal: Refused) -> None:
        """Note that a guard of the action said no."""
        self.refusals[action, _line_in_spec(refusal.__traceback__)] += 1

    def plain(self) -> dict[str, Any]:
        """Everything as plain dicts: operations (done, refused, skipped) and actions (done, refusals by guard)."""
        operations = {
            name: {"done": self.done[name], "refused": self.refused[name], "skipped": self.skipped[name]}
            for name in NAMES
        }
        actions = {
            name: {
                "done": done,
                "refused": sum(n for (action, _), n in self.refusals.items() if action == name),
                "guards": {text: self.refusals[name, line] for line, (text, _) in guards_of(name).items()},
            }
            for name, done in self.steps.items()
        }
        return {"operations": operations, "actions": actions}

    def unreached(self, capable: frozenset[str]) -> list[str]:
        """The actions never done, and the guards that never said no though they can without a fault of the target.

        `capable` are the actions that the target can do at all.
        """
        missing = [name for name, done in self.steps.items() if name in capable and not done]
        for name in self.steps:
            missing += [
                f"{name}: {text}"
                for line, (text, chosen) in guards_of(name).items()
                if name in capable and not chosen and not self.refusals[name, line]
            ]
        return missing


def _line_in_spec(trace: TracebackType | None) -> int:
    """The line of the spec in which a refusal arose; 0 where a batch refused an item that occurs twice."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _SPEC_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@cache
def guards_of(action: str) -> dict[int, tuple[str, bool]]:
    """The guards of an action by line: their text, and whether only a broken target makes them say no.

    Those are the guards about the implementation's choice. Line 0 is the rule of batches that no item occurs twice.
    """
    item = spec.SPEC.action(action)
    chosen = {parameter.name for parameter in item.parameters if parameter.chosen}
    found = {}
    for statement in statements(parse(item.function)):
        if is_guard(statement):
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Call)
            condition = statement.value.args[0]
            names = {node.id for node in ast.walk(condition) if isinstance(node, ast.Name)}
            # "Owner FREE" says no to every slot when there is none left, which is how an alloc is refused.
            about_choice = bool(names & chosen) and "Owner" not in names
            text = ast.unparse(condition)
            found[statement.lineno] = (text, about_choice or (action, text) in _SILENT)
    if any(batch.item.name == action for batch in spec.SPEC.batches):
        found[0] = (REPEATED, bool(chosen))
    return found
