"""Counterexamples: found at small sizes, confirmed by the run reading, shown as a table, saved as a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from poolproof.proofs.concrete import arguments_of, broken_by, run, state_of, violated
from poolproof.proofs.explain import explain
from poolproof.proofs.explore import claim_name, show_call
from poolproof.proofs.obligations import Obligation
from poolproof.proofs.solver import LONG_LIMIT, Model, solve
from poolproof.proofs.subject import Subject, load
from poolproof.spec.language import IllDefined, Map, Set, SpecError, Specification, State, fields_of
from poolproof.spec.language.sorts import is_enumeration
from poolproof.spec.language.state import Field, names_of, plain_scalar

FORMAT = "poolproof-counterexample"
VERSION = 1
SIZES = (0, 1, 2, 3, 4)


@dataclass
class Counterexample:
    """A state, what was done in it, and what broke, confirmed by running the spec.

    All values are plain, so that it can be saved: `before` and `after` are `State.plain()`.
    """

    claim: str
    subject: str
    sizes: dict[str, Any]
    call: str
    arguments: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any] | None
    violated: list[str]
    conjunct: str
    format: str = FORMAT
    version: int = VERSION
    notes: list[str] = field(default_factory=list)

    def table(self) -> str:
        """The before / action / after table, with the violated conjunct under it."""
        rows = [("", "before", self.call or "(no step)", "after" if self.after is not None else "")]
        for name, value in self.before.items():
            later = "" if self.after is None else _show(self.after[name])
            shown = _show(value)
            rows.append((name, shown, "->" if later and later != shown else "", later))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.append(f"violated: {', '.join(self.violated)}")
        lines.append(f"because:  {self.conjunct}")
        return "\n".join([*lines, *self.notes])


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(str(item) for item in value) + "]"
    return str(value)


def search(subject: Subject, obligation: Obligation) -> Counterexample | None:
    """Look for a counterexample at small sizes; a proposal counts only once the run reading confirms it."""
    for sizes in instances(subject):
        answer = solve(obligation.bounded_text(sizes), LONG_LIMIT)
        if answer.model is not None:
            found = confirm(subject, obligation, sizes, answer.model)
            if found is not None:
                return found
    return None


def instances(subject: Subject) -> list[dict[str, Any]]:
    """The small instances at which counterexamples are looked for: those declared where fields are given."""
    if names_of(subject.spec.state, "given"):
        return sorted(subject.mutant_sizes, key=lambda sizes: sum(n for n in sizes.values() if isinstance(n, int)))
    names = names_of(subject.spec.state, "size")
    return [{name: max(bound, subject.spec.at_least.get(name, 0)) for name in names} for bound in SIZES]


def confirm(subject: Subject, obligation: Obligation, sizes: dict[str, int], model: Model) -> Counterexample | None:
    """The model as a counterexample, or None where running the spec does not bear it out."""
    before = state_of(subject.spec, sizes, model)
    if obligation.kind == "init":
        return check_initial(subject, obligation.claim, before, sizes)
    if obligation.kind != "invariant-wd" and violated(subject.spec, before):
        return None
    if obligation.action:
        item = subject.spec.action(obligation.action)
        return check_step(subject, obligation.claim, before, sizes, arguments_of(item.parameters, model))
    claim = _claim_of(subject.spec, obligation.claim)
    return check_claim(subject, obligation.claim, before, sizes, arguments_of(claim.parameters, model))


def check_step(
    subject: Subject, claim: str, before: State, sizes: dict[str, Any], arguments: dict[str, Any]
) -> Counterexample | None:
    """Run one action; a counterexample to the claim, or None where the claim holds of this step."""
    spec = subject.spec
    _, action, *_, about = claim.split("/")
    item = spec.action(action)
    values = list(arguments.values())
    outcome = run(spec, item, before, values)
    broken = broken_by(spec, item, before, values, outcome)
    if about not in broken:
        return None
    conjunct = outcome.ill_defined
    if not conjunct:
        assert outcome.after is not None
        claims = {c.name: c for c in [*spec.invariants, *spec.steps, *spec.ensures(item)]}
        states = {"invariant": (outcome.after,), "step": (before, outcome.after)}
        with spec.active():
            chosen = claims[about]
            conjunct = explain(chosen, states.get(chosen.kind, (before, outcome.after, *values)))
    call = show_call(item.name, item.parameters, values)
    return _build(subject, claim, sizes, call, arguments, before, outcome.after, broken, conjunct)


def check_claim(
    subject: Subject, claim: str, state: State, sizes: dict[str, Any], arguments: dict[str, Any]
) -> Counterexample | None:
    """Evaluate a claim about one state; a counterexample, or None where it holds (or is defined, if that is all)."""
    item = _claim_of(subject.spec, claim)
    values = list(arguments.values())
    with subject.spec.active():
        try:
            if item.function(state, *values) or claim.endswith("/is_well_defined"):
                return None
            conjunct = explain(item, (state, *values))
        except IllDefined as problem:
            conjunct = str(problem)
    call = f"for {show_call(claim_name(item), item.parameters, values)}" if values else ""
    return _build(subject, claim, sizes, call, arguments, state, None, [claim_name(item)], conjunct)


def check_initial(subject: Subject, claim: str, before: State, sizes: dict[str, Any]) -> Counterexample | None:
    """Run the initializer on whatever was there before; a counterexample, or None where the claim holds."""
    spec, about = subject.spec, claim.rpartition("/")[2]
    outcome = run(spec, spec.initializer, before, ())
    broken = broken_by(spec, spec.initializer, before, (), outcome)
    if about not in broken:
        return None
    conjunct = outcome.ill_defined
    if not conjunct:
        claims = {c.name: c for c in [*spec.invariants, *spec.ensures(spec.initializer)]}
        chosen = claims[about]
        conjunct = explain(chosen, (outcome.after,) if chosen.kind == "invariant" else (before, outcome.after))
    call = f"{spec.initializer.name}()"
    return _build(subject, claim, sizes, call, {}, before, outcome.after, broken, conjunct)


def _claim_of(spec: Specification[Any], claim: str) -> Any:
    """The invariant, theorem or batch fact that a claim's full name speaks of.

    Raises:
        SpecError: there is none.
    """
    short = claim.split("/", 1)[1]
    facts = {claim_name(fact): fact for batch in spec.batches for fact in batch.facts()}
    named = {f"theorem/{t.name}": t for t in spec.theorems}
    named |= {f"invariant/{i.name}/is_well_defined": i for i in spec.invariants}
    found = {**facts, **named}.get(short)
    if found is None:
        raise SpecError(f"{spec.name} has no claim {claim!r}")
    return found


def _build(
    subject: Subject,
    claim: str,
    sizes: dict[str, Any],
    call: str,
    arguments: dict[str, Any],
    before: State,
    after: State | None,
    broken: list[str],
    conjunct: str,
) -> Counterexample:
    plain = {name: plain_scalar(value) for name, value in arguments.items()}
    later = None if after is None else after.plain()
    return Counterexample(claim, subject.ref, sizes, call, plain, before.plain(), later, broken, conjunct)


# ------------------------------------------------------------------------------------------------- saved as a test

_TEST = '''"""A counterexample to {claim}, saved by poolproof. It fails for as long as the fault is there."""

from pathlib import Path

from poolproof.proofs.counterexample import replay


def test_{slug}():
    found = replay(Path(__file__).with_suffix(".json"))
    assert found is None, found.table()
'''


def save(found: Counterexample, directory: Path) -> Path:
    """Write the counterexample and a pytest file that replays it; give the test's path."""
    directory.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"\W+", "_", found.claim)
    test = directory / f"test_{slug}.py"
    test.write_text(_TEST.format(claim=found.claim, slug=slug))
    test.with_suffix(".json").write_text(json.dumps(asdict(found), indent=1) + "\n")
    return test


def replay(path: Path, subject: Subject | None = None) -> Counterexample | None:
    """Run a saved counterexample against the specification as it is now; None where the claim holds.

    Raises:
        SpecError: the file is not a counterexample of this version, or does not fit the specification.
    """
    try:
        saved = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise SpecError(f"{path}: not a saved counterexample ({problem})") from None
    if saved.get("format") != FORMAT or saved.get("version") != VERSION:
        raise SpecError(
            f"{path}: expected {FORMAT} version {VERSION}, got {saved.get('format')} {saved.get('version')}"
        )
    subject = subject or load(saved["subject"])
    before = state_from_plain(subject.spec.state, saved["before"])
    claim, arguments = saved["claim"], saved["arguments"]
    if claim.split("/")[1] in {item.name for item in subject.spec.actions}:
        item = subject.spec.action(claim.split("/")[1])
        values = {p.name: _value(p.sort, arguments[p.name]) for p in item.parameters}
        return check_step(subject, claim, before, saved["sizes"], values)
    if claim.split("/")[1] == "init":
        return check_initial(subject, claim, before, saved["sizes"])
    item = _claim_of(subject.spec, claim)
    values = {p.name: _value(p.sort, arguments[p.name]) for p in item.parameters}
    return check_claim(subject, claim, before, saved["sizes"], values)


def state_from_plain(cls: type[State], plain: dict[str, Any]) -> State:
    """The inverse of `State.plain`.

    Raises:
        SpecError: a field is missing or does not fit.
    """
    try:
        state = cls.blank(**_sizes_from(cls, plain))
        for f in fields_of(cls):
            value = plain[f.name]
            if f.given:
                continue
            if f.kind == "map":
                value = Map({key: _value(f.value, item) for key, item in _flat(value, len(f.keys))})
                if value.keys() != getattr(state, f.name).keys():
                    raise ValueError(f"{f.name} has {len(value)} entries")
            elif f.family:
                _put_family(f, getattr(state, f.name), value)
                continue
            elif f.kind == "roster":
                getattr(state, f.name).members = dict.fromkeys(value)
                continue
            elif f.kind == "component":
                value = state_from_plain(f.value, value)
            elif f.kind == "set":
                value = _set_of(value)
            elif f.kind == "scalar":
                value = _value(f.value, value)
            setattr(state, f.name, value)
    except (KeyError, TypeError, ValueError, IllDefined) as problem:
        raise SpecError(f"the saved state does not fit {cls.__name__}: {problem!r}") from None
    return state


def _flat(rows: list[Any], depth: int) -> Iterator[tuple[Any, Any]]:
    """The entries of a table saved as lists in lists, each with its key."""
    for index, row in enumerate(rows):
        if depth == 1:
            yield index, row
        else:
            for key, value in _flat(row, depth - 1):
                yield (index, *(key if isinstance(key, tuple) else (key,))), value


def _set_of(members: list[Any]) -> Set[Any]:
    return Set(tuple(member) if isinstance(member, list) else member for member in members)


def _put_family(f: Field, family: Any, rows: list[Any]) -> None:
    for key, members in _flat(rows, len(f.family)):
        if f.kind == "roster":
            family[key].members = dict.fromkeys(members)
        else:
            family[key] = _set_of(members)


def _sizes_from(cls: type[State], plain: dict[str, Any]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for f in fields_of(cls):
        if f.kind == "size":
            sizes[f.name] = plain[f.name]
        elif f.given:
            value = plain[f.name]
            sizes[f.name] = [_value(f.value, v) for v in value] if f.kind == "map" else _value(f.value, value)
        elif f.kind == "component":
            sizes[f.name] = _sizes_from(f.value, plain[f.name])
    return sizes


def _value(sort: Any, value: Any) -> Any:
    return sort[value] if is_enumeration(sort) else value
