"""The pieces of work of a run, each a function from plain values to plain values, so that any process can do them."""

from __future__ import annotations

import ast
import sys
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from poolproof.proofs import counterexample
from poolproof.proofs.cache import digest
from poolproof.proofs.controls import ASKED, Kill, Killer, shifted_reads
from poolproof.proofs.explore import Explorer, sampled
from poolproof.proofs.mutate import Mutant, fields_named, mutants
from poolproof.proofs.obligations import Generator, Obligation
from poolproof.proofs.solver import LONG_LIMIT, SHORT_LIMIT, Answer, solve
from poolproof.proofs.subject import Subject, load
from poolproof.spec.language import Enumeration, Id, Item, State
from poolproof.spec.language.items import registered
from poolproof.spec.language.source import parse
from poolproof.spec.language.state import nested_sizes
from poolproof.spec.language.terms import TRUE

Where = Subject | str


def subject_of(where: Where) -> Subject:
    """The subject itself, or the one at a reference."""
    return load(where) if isinstance(where, str) else where


@cache
def _obligations(ref: str) -> dict[str, Obligation]:
    return {o.claim: o for o in Generator(load(ref).spec).all()}


def obligations_of(where: Where) -> dict[str, Obligation]:
    """All obligations of a subject by claim."""
    if isinstance(where, str):
        return _obligations(where)
    return {o.claim: o for o in Generator(where.spec).all()}


def solve_task(where: Where, claims: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Decide claims given as SMT-LIB text.

    A claim that is not `unsat` at the short limit is searched for a counterexample at small sizes before the long try:
    a false claim would mostly idle to the long limit.
    """
    decided = {}
    for claim, text in claims.items():
        start = time.perf_counter()
        answer = solve(text, SHORT_LIMIT)
        if answer.verdict == "unknown":
            answer = _solve_parts(obligations_of(where)[claim], answer)
        said: dict[str, Any] = {"verdict": answer.verdict, "reason": answer.reason, "counterexample": None}
        if answer.verdict != "unsat":
            found = counterexample.search(subject_of(where), obligations_of(where)[claim])
            if found is not None:
                said.update(verdict="sat", counterexample=asdict(found))
            else:
                answer = solve(text, LONG_LIMIT)
                unconfirmed = "sat, but no counterexample up to size 4 was confirmed" if answer.verdict == "sat" else ""
                said.update(verdict=answer.verdict, reason=unconfirmed or answer.reason)
        decided[claim] = {**said, "seconds": time.perf_counter() - start, "resources": answer.resources}
    return decided


def _solve_parts(obligation: Obligation, whole: Answer) -> Answer:
    """Decide a conjunction part by part; the answer for the whole where a part is not `unsat`."""
    texts = obligation.part_texts()
    spent = whole.resources
    for text in texts if len(texts) > 1 else ():
        answer = solve(text, SHORT_LIMIT)
        spent += answer.resources
        if answer.verdict != "unsat":
            return whole
    return Answer("unsat", resources=spent) if len(texts) > 1 else whole


def second_task(claims: dict[str, str]) -> dict[str, str]:
    """The second solver's word on claims given as SMT-LIB text."""
    from poolproof.proofs.second_opinion import second_opinion

    return {claim: second_opinion(text) for claim, text in claims.items()}


def control_task(where: Where, action: str) -> dict[str, Any]:
    """Refute every mutant and every twin of one action ("" for the initializer)."""
    subject = subject_of(where)
    if not action:
        return _initial_controls(subject)
    item = subject.spec.action(action)
    found = mutants(subject.spec, item)
    kills = {mutant.label: Kill(mutant.label, action, mutant.line) for mutant in found}
    planted: dict[str, Kill] = {}
    aims = _aims(subject, action)
    for sizes in subject.mutant_sizes:
        scenes = subject.scenes if sizes in subject.explore_sizes else ()
        killer = Killer(subject.spec, sizes, _broken(kills), scenes)
        _refute_mutants(subject, killer, item, found, kills, aims)
        _refute_twins(subject, killer, item, planted)
        if not aims and all(kill.broken for kill in kills.values()) and not killer.concerned(item):
            break
    return {"mutants": [asdict(k) for k in kills.values()], "twins": {name: asdict(k) for name, k in planted.items()}}


def _refute_mutants(
    subject: Subject, killer: Killer, item: Item, found: list[Mutant], kills: dict[str, Kill], aims: set[str]
) -> None:
    """Refute mutants at one size: all that are alive, and those that are near to a claim that none has broken yet."""
    first = not _broken(kills)
    for mutant in found:
        if first or not kills[mutant.label].broken or any(_share_spoken_of(subject, aim, mutant) for aim in aims):
            _merge(kills, mutant.label, killer.run(item, mutant))
            aims -= set(kills[mutant.label].broken)
    asked = {aim: _nearest(subject, aim, found, kills) for aim in aims}
    for mutant in sorted(found, key=lambda m: bool(kills[m.label].broken)):
        wanted = {aim for aim in aims if mutant.label in asked[aim]}
        is_open = not kills[mutant.label].broken and not subject.reason(subject.redundant, mutant.label)
        if wanted or is_open:
            killer.search(item, mutant, kills[mutant.label], wanted)
            aims -= set(kills[mutant.label].broken)
    for mutant in found[:ASKED]:
        if left := killer.concerned(item):
            killer.search_states(item, mutant, kills[mutant.label], left)


def _refute_twins(subject: Subject, killer: Killer, item: Item, planted: dict[str, Kill]) -> None:
    """Refute the planted faults of an action at one size, each by all the claims that must see it."""
    for twin in (t for t in subject.twins if t.action == item.name):
        if twin.name in planted and set(twin.refutes) <= set(planted[twin.name].broken):
            continue
        planted_as = Mutant(item.name, twin.name, parse(twin.function).lineno, twin.function)
        _merge(planted, twin.name, killer.run(item, planted_as, set(twin.refutes)))
        if not set(twin.refutes) <= set(planted[twin.name].broken):
            killer.search(item, planted_as, planted[twin.name], set(twin.refutes))
            killer.search_states(item, planted_as, planted[twin.name], set(twin.refutes))


def _broken(kills: dict[str, Kill]) -> set[str]:
    """The claims that some mutant has broken."""
    return {name for kill in kills.values() for name in kill.broken}


def _aims(subject: Subject, action: str) -> set[str]:
    """The claims about an action that a mutant has to break."""
    own = Generator(subject.spec).of_action(subject.spec.action(action))
    live = [o for o in own if not o.frame and o.goal is not TRUE]
    return {o.about for o in live if not subject.reason(subject.implied, f"{action}/{o.about}")}


def _nearest(subject: Subject, aim: str, found: list[Mutant], kills: dict[str, Kill]) -> set[str]:
    """The mutants that the solver is asked about for a claim: those nearest to it, and those that drop something."""
    apt = [mutant for mutant in found if not subject.reason(subject.redundant, mutant.label)]
    order = sorted(apt, key=lambda m: (-_share_spoken_of(subject, aim, m), bool(kills[m.label].broken)))
    dropped = [mutant for mutant in apt if mutant.name.startswith("drops ")]
    return {mutant.label for mutant in [*order[:ASKED], *dropped]}


def _share_spoken_of(subject: Subject, aim: str, mutant: Mutant) -> float:
    """Which part of what a mutant changed a claim speaks of; all of it where the claim is well-definedness."""
    spec = subject.spec
    claims = [*spec.invariants, *spec.steps, *spec.ensures(spec.action(mutant.action))]
    claim = next((claim for claim in claims if claim.name == aim), None)
    if claim is None or not mutant.fields:
        return 1.0
    return len(mutant.fields & fields_named(parse(claim.function), claim.function)) / len(mutant.fields)


def _merge(kills: dict[str, Kill], name: str, kill: Kill) -> None:
    if name in kills:
        kills[name].broken = {**kill.broken, **kills[name].broken}
    else:
        kills[name] = kill


def _initial_controls(subject: Subject) -> dict[str, Any]:
    spec = subject.spec
    found = mutants(spec, spec.initializer)
    twins = [Mutant("init", t.name, parse(t.function).lineno, t.function) for t in subject.twins if not t.action]
    kills: dict[str, Kill] = {}
    planted: dict[str, Kill] = {}
    for sizes in subject.mutant_sizes:
        killer = Killer(spec, sizes)
        for mutant in found:
            _merge(kills, mutant.label, killer.kill_initial(mutant))
        for twin in twins:
            _merge(planted, twin.name, killer.kill_initial(twin))
    return {
        "mutants": [asdict(k) for k in kills.values()],
        "twins": {name: asdict(k) for name, k in planted.items()},
        "shifted": shifted_reads(spec, subject.mutant_sizes[0]),
    }


def explore_task(where: Where, sizes: dict[str, int]) -> dict[str, Any]:
    """Visit every reachable state of one instance; as a control, find the first planted fault in a smaller one."""
    subject = subject_of(where)
    start = time.perf_counter()
    seen = Explorer(subject.spec, sizes, subject.explore_limit, subject.canonical, subject.scenes).run()
    control = ""
    if any(twin.action for twin in subject.twins):
        twin = next(twin for twin in subject.twins if twin.action)
        faulty = subject.spec.with_body(subject.spec.action(twin.action), twin.function)
        given = any(not isinstance(size, int) for size in sizes.values())
        small = sizes if given else {name: max(2, size - 2) for name, size in sizes.items()}
        found = Explorer(faulty, small, subject.explore_limit, subject.canonical, subject.scenes if given else ())
        broken = found.run(until_broken=True).broken
        control = f"{twin.name}: {broken[0].claim} after {'; '.join(broken[0].trace)}" if broken else ""
    return {
        "states": seen.states,
        "steps": seen.steps,
        "checks": seen.checks,
        "complete": seen.complete,
        "wandered": seen.wandered,
        "met": seen.met,
        "sampled": sampled(subject.spec, subject.spec.state.blank(**nested_sizes(sizes))),
        "enabled": seen.enabled,
        "premises": seen.premises,
        "gaps": seen.gaps(subject.spec),
        "guards": {name: len(lines) for name, lines in seen.guards.items()},
        "refused": {name: len(lines & seen.guards[name]) for name, lines in seen.refused.items()},
        "broken": [{"claim": f.claim, "trace": f.trace} for f in seen.broken],
        "control": control,
        "seconds": time.perf_counter() - start,
    }


def arithmetic_task() -> list[dict[str, Any]]:
    """CrossHair on the shared arithmetic, Z3 on the lemmas about products."""
    from poolproof.proofs import arithmetic, products

    return [asdict(result) for result in [*products.results(), *arithmetic.results()]]


def codec_task() -> list[dict[str, Any]]:
    """The int8 codec over real numbers."""
    from poolproof.proofs import codec

    return [asdict(result) for result in codec.results()]


def codec_cases_task() -> list[dict[str, Any]]:
    """Every case of the 16-bit formats of the int8 codec."""
    from poolproof.proofs import codec_cases

    return [asdict(result) for result in codec_cases.results()]


@cache
def solving_digest() -> str:
    """A digest of the code that turns an obligation into what the solver reads, and its answers into a verdict."""
    import poolproof.proofs

    (folder,) = (Path(p) for p in poolproof.proofs.__path__)
    return digest(*((folder / f"{name}.py").read_text() for name in ("obligations", "smtlib", "solver", "tasks")))


def sources_digest(subject: Subject) -> str:
    """A digest of all source that the controls and the explorer of a subject depend on."""
    import poolproof.proofs
    import poolproof.spec

    folders = [Path(p) for package in (poolproof.proofs, poolproof.spec) for p in package.__path__]
    texts = [file.read_text() for file in sorted(file for folder in folders for file in folder.rglob("*.py"))]
    functions = [*subject.spec.actions, subject.spec.initializer]
    bodies = [ast.unparse(parse(item.function)) for item in functions]
    bodies += [f"{t.action} {t.fault} {ast.unparse(parse(t.function))}" for t in subject.twins]
    declared = (sorted(subject.implied.items()), sorted(subject.redundant.items()), subject.scenes)
    sizes = repr((subject.mutant_sizes, subject.explore_sizes, subject.explore_limit, declared))
    own: dict[str, str] = {}
    for name in [subject.spec.module, subject.ref.partition(":")[0], *(t.function.__module__ for t in subject.twins)]:
        _add_sources(name, own)
    return digest(sys.version, subject.name, sizes, *bodies, *texts, *own.values(), *_constants(subject))


def _constants(subject: Subject) -> list[str]:
    """The constants that spec functions read, wherever they were imported from."""
    found = set()
    for item in registered(subject.spec.module):
        names = {node.id for node in ast.walk(parse(item.function)) if isinstance(node, ast.Name)}
        values = {name: item.function.__globals__.get(name) for name in names}
        found |= {f"{name}={value!r}" for name, value in values.items() if isinstance(value, int | str | float)}
    return sorted(found)


def _add_sources(name: str, found: dict[str, str]) -> None:
    """The text of a module, and of every module from which it takes states, sorts or spec functions."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name in found or file is None:
        return
    found[name] = Path(file).read_text()
    for value in list(vars(module).values()):
        if hasattr(value, "__spec_item__") or (isinstance(value, type) and issubclass(value, State | Id | Enumeration)):
            _add_sources(value.__module__, found)
