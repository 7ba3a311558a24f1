"""A run of the proofs: obligations decided, controls refuted, instances explored, and everything put together."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from poolproof.proofs import arithmetic, codec, codec_cases, products, smtlib, tasks, twins
from poolproof.proofs import results as grades
from poolproof.proofs.cache import Cache, digest
from poolproof.proofs.obligations import Generator, Obligation
from poolproof.proofs.results import Control, Report, Result
from poolproof.proofs.solver import LONG_LIMIT, SHORT_LIMIT, solver_name
from poolproof.proofs.subject import SHIPPED, Subject, SubjectError
from poolproof.spec import arithmetic as spec_arithmetic
from poolproof.spec import codec as spec_codec

CHUNK = 16
Progress = Callable[[str, int, int], None]


@dataclass
class Options:
    """How to run.

    Attributes:
        only: glob patterns over claims, claim names and theorem tags; empty means everything.
        jobs: processes; 1 runs everything in this one.
        second: the name of a second solver, or "".
        use_cache: look verdicts up in, and add them to, the user's cache.
        progress: called as (what, done, of) after each piece of work.
    """

    only: Sequence[str] = ()
    jobs: int = 1
    second: str = ""
    use_cache: bool = True
    progress: Progress = field(default=lambda what, done, of: None)


def prove(subjects: Iterable[Subject] | None = None, options: Options | None = None) -> Report:
    """Run the proofs of some subjects (the shipped ones, with the shared arithmetic, by default).

    Raises:
        SubjectError: a pattern of `only` matches nothing, or a subject makes no claim.
    """
    options = options or Options()
    start = time.perf_counter()
    report = Report()
    chosen = [tasks.subject_of(ref) for ref in SHIPPED.values()] if subjects is None else list(subjects)
    report.refs = {s.name: s.ref for s in chosen if s.ref not in SHIPPED.values()}
    runs = [Run(subject, options) for subject in chosen]
    asides = ASIDE if subjects is None else ()
    _reject_empty(runs)
    _reject_idle_patterns(options.only, runs, asides)
    cache = Cache(options.use_cache)
    try:
        work = [job for run in runs for job in run.jobs()]
        work += [_job_aside(report, aside, wanted) for aside in asides if (wanted := aside.chosen(options.only))]
        _carry_out(work, options, cache)
        for run in runs:
            run.report(report)
    finally:
        cache.close()
    report.seconds = time.perf_counter() - start
    return report


def _reject_empty(runs: list[Run]) -> None:
    for run in runs:
        if not run.everything:
            raise SubjectError(f"{run.subject.name} makes no claim that could be proved; state an invariant or theorem")


def _reject_idle_patterns(only: Sequence[str], runs: list[Run], asides: Sequence[Aside]) -> None:
    for pattern in only:
        hit = any(grades.matches(pattern, o.claim, o.about, o.tags) for run in runs for o in run.obligations.values())
        if not hit and not any(aside.chosen([pattern]) for aside in asides):
            stated = {t for run in runs for o in run.everything.values() for t in o.tags}
            tags = sorted(stated.union(*(aside.tags for aside in asides)), key=grades.tag_order)
            raise SubjectError(
                f"--only {pattern!r} matches no claim; give a glob such as 'slots/free/*', a claim's name, "
                f"or a theorem: {', '.join(tags)}"
            )


# ----------------------------------------------------------------------------------------------------------- jobs


@dataclass
class Job:
    """One piece of work: what is called, its cache key per part, and who takes the outcome."""

    what: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    keys: dict[str, str]
    take: Callable[[Any, bool], None]
    weight: int = 1


def _carry_out(work: list[Job], options: Options, cache: Cache) -> None:
    """Do all jobs, those in the cache first; a job with several parts only for the parts that are missing."""
    total, done = len(work), 0
    missing: list[Job] = []
    for job in work:
        left = _from_cache(job, cache)
        if left is None:
            done += 1
            options.progress(job.what, done, total)
        else:
            missing.append(left)
    missing.sort(key=lambda job: -job.weight)
    for job, outcome in _outcomes(missing, options.jobs):
        for part, key in job.keys.items():
            kept = outcome[part] if part else outcome
            # A counterexample speaks of one spec by name, and the same text may be another's: it is found anew.
            if not (isinstance(kept, dict) and kept.get("counterexample")):
                cache.put(key, kept)
        job.take(outcome, False)
        done += 1
        options.progress(job.what, done, total)


def _from_cache(job: Job, cache: Cache) -> Job | None:
    """Take what the cache has; the job that is left, or None."""
    found = {part: cache.get(key) for part, key in job.keys.items()}
    if "" in found:
        if found[""] is None:
            return job
        job.take(found[""], True)
        return None
    known = {part: value for part, value in found.items() if value is not None}
    if known:
        job.take(known, True)
    rest = {part: text for part, text in job.arguments[-1].items() if part not in known}
    if not rest:
        return None
    keys = {part: job.keys[part] for part in rest}
    return Job(job.what, job.call, (*job.arguments[:-1], rest), keys, job.take, job.weight)


def _outcomes(work: list[Job], jobs: int) -> Iterator[tuple[Job, Any]]:
    if jobs <= 1 or len(work) <= 1:
        for job in work:
            yield job, job.call(*job.arguments)
        return
    with _pool(min(jobs, len(work))) as pool:
        waiting: dict[Future[Any], Job] = {pool.submit(job.call, *job.arguments): job for job in work}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


@contextmanager
def _pool(size: int) -> Iterator[ProcessPoolExecutor]:
    # Forking needs no importable __main__, but is safe only while this process has a single thread.
    method = "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"
    pool = ProcessPoolExecutor(size, mp_context=multiprocessing.get_context(method))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    pool.shutdown()


@dataclass(frozen=True)
class Aside:
    """Claims that are of no specification of steps: what makes them, and the modules on which they rest."""

    name: str
    tags: tuple[str, ...]
    claims: Callable[[], list[str]]
    task: Callable[[], list[dict[str, Any]]]
    modules: tuple[Any, ...]

    def chosen(self, only: Sequence[str]) -> set[str]:
        """The claims that a run is about."""
        return {claim for claim in self.claims() if grades.is_chosen(only, claim, "", self.tags)}


ASIDE = (
    Aside(
        "arithmetic",
        (),
        lambda: [*arithmetic.claims(), *products.claims()],
        tasks.arithmetic_task,
        (arithmetic, products, smtlib, twins.arithmetic, spec_arithmetic),
    ),
    Aside("codec", ("I18",), codec.claims, tasks.codec_task, (codec, spec_codec)),
    Aside("codec_cases", ("I18",), codec_cases.claims, tasks.codec_cases_task, (codec_cases, spec_codec)),
)


def _job_aside(report: Report, aside: Aside, wanted: set[str]) -> Job:
    """The work of one of them; of its results the wanted ones are reported."""

    def _take(found: list[dict[str, Any]], cached: bool) -> None:
        for plain in found:
            if plain["claim"] in wanted:
                report.obligations.append(Result(**{**plain, "tags": tuple(plain["tags"]), "cached": cached}))

    sources = [Path(str(module.__file__)).read_text() for module in aside.modules]
    key = digest(aside.name, arithmetic.checker_name(), solver_name(), *sources)
    return Job(aside.name, aside.task, (), {"": key}, _take, weight=3)


# ------------------------------------------------------------------------------------------------------ one subject


class Run:
    """The proofs of one subject."""

    def __init__(self, subject: Subject, options: Options) -> None:
        self.subject = subject
        self.options = options
        self.everything = {o.claim: o for o in Generator(subject.spec).all()}
        only = options.only
        self.obligations = {
            c: o for c, o in self.everything.items() if grades.is_chosen(only, o.claim, o.about, o.tags)
        }
        self.whole = len(self.obligations) == len(self.everything)
        self.where: tasks.Where = subject.ref or subject
        if not subject.ref and options.jobs > 1:
            raise SubjectError(f"{subject.name} has no reference by which another process could load it; use jobs=1")
        self.verdicts: dict[str, dict[str, Any]] = {}
        self.cached: set[str] = set()
        self.second: dict[str, str] = {}
        self.excusing: set[str] = set()
        self.controls: dict[str, dict[str, Any]] = {}
        self.explored: list[tuple[dict[str, int], dict[str, Any]]] = []

    def jobs(self) -> Iterator[Job]:
        """All pieces of work."""
        sources = digest(tasks.sources_digest(self.subject), solver_name())
        for sizes in self.subject.explore_sizes if self.obligations else ():
            key = digest("explore", sources, repr(sizes))
            take = self._take_exploration(sizes)
            yield Job(
                f"{self.subject.name}: explore", tasks.explore_task, (self.where, sizes), {"": key}, take, weight=9
            )
        for action in self._actions():
            key = digest("controls", sources, action)
            what = f"{self.subject.name}: mutants of {action or 'init'}"
            yield Job(what, tasks.control_task, (self.where, action), {"": key}, self._take_controls(action), weight=5)
        texts = {claim: o.text for claim, o in self.obligations.items()}
        for chunk in _chunks(texts):
            how = (solver_name(), str((SHORT_LIMIT, LONG_LIMIT)), tasks.solving_digest())
            keys = {c: digest("solve", *how, t) for c, t in chunk.items()}
            what = f"{self.subject.name}: {next(iter(chunk)).split('/')[1]}"
            yield Job(what, tasks.solve_task, (self.where, chunk), keys, self._take_verdicts)
        if self.options.second:
            from poolproof.proofs.second_opinion import opinion_name

            for chunk in _chunks(texts):
                keys = {
                    c: digest("second", opinion_name(self.options.second), solver_name(), t) for c, t in chunk.items()
                }
                what = f"{self.subject.name}: second opinion"
                yield Job(what, tasks.second_task, (chunk,), keys, lambda said, cached: self.second.update(said))

    def _actions(self) -> list[str]:
        """The actions whose controls are needed: all of them where a claim about states is asked for."""
        if not self.obligations:
            return []
        if any(not o.action and o.kind != "init" for o in self.obligations.values()):
            return ["", *(item.name for item in self.subject.spec.actions)]
        return sorted({o.action for o in self.obligations.values()})

    def _take_exploration(self, sizes: dict[str, int]) -> Callable[[Any, bool], None]:
        return lambda found, cached: self.explored.append((sizes, {**found, "cached": cached}))

    def _take_controls(self, action: str) -> Callable[[Any, bool], None]:
        return lambda found, cached: self.controls.update({action: found})

    def _take_verdicts(self, found: dict[str, dict[str, Any]], cached: bool) -> None:
        self.verdicts.update(found)
        self.cached |= set(found) if cached else set()

    # ---------------------------------------------------------------------------------------------- put together

    def report(self, report: Report) -> None:
        """Add this subject's results, in an order that does not depend on which piece of work was done first."""
        self.controls = {action: self.controls[action] for action in self._actions()}
        self.explored.sort(key=lambda found: self.subject.explore_sizes.index(found[0]))
        broken = self._broken_by()
        for claim, obligation in self.obligations.items():
            report.obligations.append(self._result(claim, obligation, broken))
        for sizes, seen in self.explored:
            report.obligations.append(self._exploration(sizes, seen))
            report.explorations.append(self._coverage(sizes, seen))
        self._report_controls(report)
        if self.whole:
            report.problems += self._stale_declarations(report, broken)

    def _broken_by(self) -> dict[tuple[str, str], list[str]]:
        """(action, claim name) -> the changed actions that break it; claims about states are under ""."""
        found: dict[tuple[str, str], list[str]] = {}
        states = {self._short(o) for o in self.obligations.values() if o.kind in ("theorem", "batch")}
        for action, control in self.controls.items():
            for name, why in control.get("shifted", {}).items():
                found.setdefault(("wd", name), []).append(why)
            faults = {twin.name: twin.fault for twin in self.subject.twins}
            planted = [{**kill, "mutant": f"{n} ({faults[n]})"} for n, kill in control["twins"].items()]
            for kill in [*planted, *control["mutants"]]:
                for name in kill["broken"]:
                    found.setdefault(("" if name in states else action or "init", name), []).append(kill["mutant"])
        return found

    @staticmethod
    def _short(o: Obligation) -> str:
        return o.claim.split("/", 1)[1] if o.kind == "batch" else o.about

    def _result(self, claim: str, o: Obligation, broken: dict[tuple[str, str], list[str]]) -> Result:
        verdict = self.verdicts[claim]
        result = Result(claim, o.module, o.kind, o.tags, o.doc, solver=solver_name(), cached=claim in self.cached)
        result.seconds, result.counterexample = verdict["seconds"], verdict["counterexample"]
        result.resources = verdict["resources"]
        result.second = self.second.get(claim, "")
        result.witness = self._witness(o)
        result.twins = self._twins(o, broken)
        if verdict["counterexample"] is not None:
            result.grade = grades.REFUTED
            result.note = verdict["counterexample"]["conjunct"]
        elif verdict["verdict"] != "unsat":
            result.note = verdict["reason"] or verdict["verdict"]
        elif not result.witness:
            result.note = "unsat, but no reachable state meets the premise"
        elif not result.twins:
            result.note = "unsat, but no mutant or twin breaks it: declare it implied, with the reason"
        else:
            result.grade = grades.PROVED
        return result

    def _witness(self, o: Obligation) -> str:
        for _, seen in self.explored:
            if o.action:
                trace = seen["enabled"].get(o.action)
                if trace is None or (o.kind in ("step", "ensures") and o.about not in seen["premises"]):
                    continue
                return "; ".join(trace)
            if o.kind in ("theorem", "batch"):
                if self._short(o) in seen["premises"]:
                    return str(seen["premises"][self._short(o)])
            else:
                return "the initial state"
        return ""

    def _twins(self, o: Obligation, broken: dict[tuple[str, str], list[str]]) -> list[str]:
        group = {"init": "init", "invariant-wd": "wd", "theorem": "", "batch": ""}.get(o.kind, o.action)
        found = broken.get((group, self._short(o)), [])
        if found:
            return found[:3]
        if o.frame:
            return ["FRAME"]
        pattern = self.subject.pattern(self.subject.implied, f"{group}/{self._short(o)}")
        self.excusing.add(pattern)
        return [f"IMPLIED: {self.subject.implied[pattern]}"] if pattern else []

    def _exploration(self, sizes: dict[str, int], seen: dict[str, Any]) -> Result:
        shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
        doc = (
            f"{seen['states']} states, {seen['steps']} steps, {seen['checks']} checks of claims, every action and guard"
        )
        if seen["wandered"]:
            doc += f"; beyond them {seen['wandered']} random steps and {seen['met']} states, checked likewise"
        doc += "".join(f"; {how}" for how in seen["sampled"])
        result = Result(f"{self.subject.name}/explore/{shown}", self.subject.name, "explore", (), doc)
        result.solver, result.seconds, result.cached = "explorer", seen["seconds"], seen["cached"]
        result.witness, result.twins = doc, [seen["control"]] if seen["control"] else []
        if seen["broken"]:
            first = seen["broken"][0]
            result.grade, result.note = grades.REFUTED, f"{first['claim']} after {'; '.join(first['trace'])}"
        elif self._gaps():
            result.note = "; ".join(self._gaps())
        elif not seen["control"] and any(twin.action for twin in self.subject.twins):
            result.note = "nothing is broken, but neither was the planted fault found that it looks for as a control"
        else:
            whole = seen["complete"] and all(seen["sampled"].values())
            result.grade = grades.EXHAUSTED if whole else grades.EXPLORED
        return result

    def _gaps(self) -> list[str]:
        """What no instance witnessed."""
        missing = [seen["gaps"] for _, seen in self.explored]
        return [gap for gap in missing[0] if all(gap in gaps for gaps in missing)] if missing else []

    def _coverage(self, sizes: dict[str, int], seen: dict[str, Any]) -> dict[str, Any]:
        """What was reached: states, and for each action its shortest trace and how many of its guards said no."""
        actions = {
            item.name: {
                "shortest_trace": seen["enabled"].get(item.name),
                "guards": seen["guards"][item.name],
                "guards_that_refused": seen["refused"][item.name],
            }
            for item in self.subject.spec.actions
        }
        counts = {key: seen[key] for key in ("states", "steps", "checks", "complete", "gaps")}
        return {"module": self.subject.name, "sizes": sizes, **counts, "actions": actions}

    def _report_controls(self, report: Report) -> None:
        planted = {twin.name: twin for twin in self.subject.twins}
        for action, control in self.controls.items():
            for kill in control["mutants"]:
                reason = "" if kill["broken"] else self.subject.reason(self.subject.redundant, kill["mutant"])
                made = Control(kill["mutant"], self.subject.name, action or "init", kill["line"], kill["broken"])
                made.reason = reason
                report.mutants.append(made)
            for name, kill in control["twins"].items():
                twin = planted[name]
                made = Control(name, self.subject.name, action or "init", kill["line"], kill["broken"])
                made.fault, made.story, made.expected = twin.fault, twin.story, twin.refutes
                report.twins.append(made)

    def _stale_declarations(self, report: Report, broken: dict[tuple[str, str], list[str]]) -> list[str]:
        """Declarations that excuse nothing, or excuse what a mutant does break."""
        lines = []
        for pattern in self.subject.implied:
            if pattern not in self.excusing:
                lines.append(f"{self.subject.name}: declared implied, but nothing needs it: {pattern}")
            contradicted = [k for k in broken if fnmatchcase(f"{k[0]}/{k[1]}", pattern)]
            lines += [
                f"{self.subject.name}: declared implied, but a mutant breaks it: {a}/{c}" for a, c in contradicted
            ]
        own = [c for c in report.mutants if c.module == self.subject.name]
        for pattern in self.subject.redundant:
            matching = [c for c in own if fnmatchcase(c.name, pattern)]
            if not any(not c.broken for c in matching):
                lines.append(f"{self.subject.name}: declared redundant, but no surviving mutant matches: {pattern}")
            lines += [f"{self.subject.name}: declared redundant, but refuted: {c.name}" for c in matching if c.broken]
        return lines


def _chunks(texts: dict[str, str]) -> Iterator[dict[str, str]]:
    items = list(texts.items())
    for index in range(0, len(items), CHUNK):
        yield dict(items[index : index + CHUNK])
