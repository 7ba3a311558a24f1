"""Z3 on SMT-LIB text, limited by its resource counter so that verdicts do not depend on the machine's load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

SHORT_LIMIT = 5_000_000
LONG_LIMIT = 60_000_000


def solver_name() -> str:
    """The solver and its version, as ledgers and cache keys name it."""
    return f"z3 {version('z3-solver')}"


@dataclass
class Answer:
    """What the solver said: unsat, sat or unknown; with a model where sat, and what it spent of its limit."""

    verdict: str
    reason: str = ""
    model: Model | None = None
    resources: int = 0


class Model:
    """A model, read by SMT-LIB symbol."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._symbols = {symbol.name(): symbol for symbol in model.decls()}

    def value(self, name: str, *arguments: int) -> Any:
        """The value of a constant or of a function at integer arguments: bool, int or an enumeration member's symbol.

        A symbol that the model leaves open gives None.
        """
        symbol = self._symbols.get(name)
        if symbol is None:
            return None
        import z3

        value = self._model.eval(symbol(*(z3.IntVal(a, symbol.ctx) for a in arguments)), model_completion=True)
        if z3.is_true(value) or z3.is_false(value):
            return bool(z3.is_true(value))
        return value.as_long() if z3.is_int_value(value) else value.decl().name()


def solve(text: str, limit: int) -> Answer:
    """Run Z3 once on a script, in a context of its own."""
    import z3

    solver = z3.Solver(ctx=z3.Context())
    solver.set("rlimit", limit)
    solver.from_string(text)
    verdict = solver.check()
    spent = int(solver.statistics().get_key_value("rlimit count"))
    if verdict == z3.unsat:
        return Answer("unsat", resources=spent)
    if verdict == z3.sat:
        return Answer("sat", model=Model(solver.model()), resources=spent)
    return Answer("unknown", solver.reason_unknown(), resources=spent)


def solve_each(text: str, names: list[str], limit: int) -> Iterator[tuple[str, Answer]]:
    """Run Z3 on one script with a switch `fails NAME` for each goal; one answer for each, as it is asked for.

    Raises:
        KeyError: a name has no switch in the script.
    """
    import z3

    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", limit)
    solver.from_string(text)
    for name in names:
        verdict = solver.check(z3.Bool(f"fails {name}", context))
        model = Model(solver.model()) if verdict == z3.sat else None
        yield name, Answer(str(verdict), model=model)
