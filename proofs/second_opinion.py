"""A second solver on the same SMT-LIB text.

cvc5 gets the script reduced to Z3's unsat core, with enumerative instantiation: that is what makes it decide these
quantified scripts in milliseconds. The core is Z3's, so the opinion is not fully independent; `unsat` of a part of
the script is `unsat` of the whole.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from poolproof.proofs.solver import LONG_LIMIT

RESOURCE_LIMIT = 2_000_000
NAMES = ("cvc5",)


def opinion_name(name: str) -> str:
    """The second solver and its version."""
    return f"{name} {version(name)}"


def core_of(text: str) -> str:
    """The script with only those assertions that Z3 needs for `unsat`; the whole script where it finds none."""
    import z3

    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", LONG_LIMIT)
    for index, assertion in enumerate(z3.parse_smt2_string(text, ctx=context)):
        solver.assert_and_track(assertion, f"core!{index}")
    if solver.check() != z3.unsat:
        return text
    needed = {int(str(name).partition("!")[2]) for name in solver.unsat_core()}
    kept, index = [], -1
    for line in text.splitlines():
        if line.startswith("(assert "):
            index += 1
            if index not in needed:
                continue
        kept.append(line)
    return "\n".join([*kept, ""])


def ask_cvc5(text: str) -> str:
    """What cvc5 says of a script: unsat, sat, or "no second opinion"."""
    import cvc5

    solver: Any = cvc5.Solver(cvc5.TermManager())
    solver.setOption("enum-inst", "true")
    solver.setOption("rlimit", str(RESOURCE_LIMIT))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols = parser.getSymbolManager()
    said = ""
    while True:
        command = parser.nextCommand()
        if command.isNull():
            break
        said += str(command.invoke(solver, symbols))
    verdict = said.strip()
    return verdict if verdict in ("unsat", "sat") else "no second opinion"


def second_opinion(text: str) -> str:
    """The second solver on the core of a script that Z3 found unsat."""
    return ask_cvc5(core_of(text))
