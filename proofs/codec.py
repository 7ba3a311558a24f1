"""The proofs of spec/codec.py over real numbers: the definition itself, traced, with rounding as bounded change.

Every rounding of the definition is a function of which only this is assumed: how far it may go, that it keeps order and
sign, and that it is a function. That floating-point rounding is so is IEEE 754's definition. That loading keeps order
and sign is little more than this assumption, and all that is shown of it for float32; for bfloat16 and float16
`proofs/codec_cases.py` runs every maximum, threshold, load and second store. What the argument leaves out: NaN and
infinity, and that a product of codes, elements and reciprocals is taken exactly, which is for the kernels' tests.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import z3

from poolproof.proofs.results import PROVED, REFUTED, UNKNOWN, Result
from poolproof.proofs.solver import LONG_LIMIT, solve, solver_name
from poolproof.spec import codec
from poolproof.spec.codec import FORMATS, LARGEST_CODE, Format

HALF = z3.Q(1, 2)
RECIPROCAL_ERROR = z3.Q(1, 2**24)
"""Half a unit in the last place of float32, relative to a normal number."""


LEAST_NORMAL = z3.Q(1, 2**126)
"""The least normal number of float32."""


def real(value: Fraction | int) -> Any:
    """A fraction as a term."""
    return z3.Q(Fraction(value).numerator, Fraction(value).denominator)


class Reals:
    """The definition's arithmetic on real terms; `facts` gathers what each rounding may do."""

    def __init__(self, storage: Format) -> None:
        self.storage = storage
        self.facts: list[Any] = []
        self._integer = z3.Function("integer", z3.RealSort(), z3.IntSort())
        self._stored = z3.Function("stored", z3.RealSort(), z3.RealSort())
        self._rounded: list[tuple[Any, Any]] = []
        self._count = itertools.count()

    def _fresh(self, name: str) -> Any:
        """A new unknown; names are the same in every run, on which the solver's luck depends."""
        return z3.Real(f"{name} {next(self._count)}")

    def least_scale(self) -> Any:
        """The least scale of the format."""
        return real(self.storage.least_scale)

    def up(self, value: Any) -> Any:
        """Not below a value that is not negative, and less than a spacing above it."""
        found = self._fresh("up")
        relative, least = real(Fraction(2) ** (1 - self.storage.precision)), real(self.storage.least)
        self.facts += [value <= found, found <= value + relative * value + least]
        return found

    def larger(self, a: Any, b: Any) -> Any:
        """The larger of two numbers."""
        return z3.If(a >= b, a, b)

    def reciprocal(self, value: Any) -> Any:
        """Within half a unit in the last place of float32, where value and reciprocal are normal numbers there."""
        found = self._fresh("reciprocal")
        near = [found > 0, found * value <= 1 + RECIPROCAL_ERROR, found * value >= 1 - RECIPROCAL_ERROR]
        self.facts.append(z3.Implies(z3.And(value >= LEAST_NORMAL, value <= 1 / LEAST_NORMAL), z3.And(near)))
        return found

    def integer(self, value: Any) -> Any:
        """The nearest integer; one function, and odd."""
        found = self._integer(value)
        self.facts += [found - value <= HALF, value - found <= HALF, self._integer(-value) == -found]
        return z3.ToReal(found)

    def nearest(self, value: Any) -> Any:
        """The nearest number of the format, if exponents had no upper end; one function, odd, and in order."""
        found = self._stored(value)
        off = real(Fraction(2) ** -self.storage.precision) * z3.Abs(value) + real(self.storage.least) / 2
        self.facts += [
            z3.Abs(found - value) <= off,
            z3.Implies(value == 0, found == 0),
            self._stored(-value) == -found,
        ]
        for other, stored in self._rounded:
            self.facts += [z3.Implies(value <= other, found <= stored), z3.Implies(other <= value, stored <= found)]
        largest = real(self.storage.largest)
        self.facts += [z3.Implies(value <= largest, found <= largest), z3.Implies(value >= largest, found >= largest)]
        self._rounded.append((value, found))
        return found

    def clamped(self, value: Any) -> Any:
        """The value, cut to the range of the format."""
        largest = real(self.storage.largest)
        return z3.If(value > largest, largest, z3.If(value < -largest, -largest, value))


class Truncating(Reals):
    """A fault: codes are cut off, not rounded."""

    def integer(self, value: Any) -> Any:
        """The integer next to a value on the side of zero."""
        found = self._integer(value)
        self.facts += [z3.Abs(found) <= z3.Abs(value), z3.Abs(value - found) < 1, self._integer(-value) == -found]
        return z3.ToReal(found)


class Stochastic(Reals):
    """A fault: what is rounded twice may go two ways."""

    def integer(self, value: Any) -> Any:
        """One of the integers next to a value."""
        found = z3.ToInt(self._fresh("either"))
        self.facts += [z3.Abs(found - value) < 1]
        return z3.ToReal(found)


class HalfUp(Reals):
    """A fault: ties go up, whatever the sign."""

    def integer(self, value: Any) -> Any:
        """The integer part of a value and a half."""
        found = z3.ToInt(value + HALF)
        return z3.ToReal(found)


class Unordered(Reals):
    """A fault: what is rounded twice may go two ways, on loading."""

    def nearest(self, value: Any) -> Any:
        """Something within a unit of the value."""
        found = self._fresh("either")
        self.facts += [z3.Abs(found - value) <= real(Fraction(2) ** -self.storage.precision) * z3.Abs(value)]
        return found


class Overflowing(Reals):
    """A fault: what is larger than the largest number is left as it comes."""

    def clamped(self, value: Any) -> Any:
        """The value itself."""
        return value


class Loose(Reals):
    """A fault: codes are off by up to one."""

    def integer(self, value: Any) -> Any:
        """An integer within one of a value."""
        found = self._integer(value)
        self.facts += [z3.Abs(found - value) <= 1]
        return z3.ToReal(found)


class TinyLeastScale(Reals):
    """A fault: the least scale is the least positive number of float32, which has no reciprocal there."""

    def least_scale(self) -> Any:
        """2**-149."""
        return z3.Q(1, 2**149)


class AllCodes(Reals):
    """A fault: the scale is that of 128 codes, of which int8 has no positive one."""

    def up(self, value: Any) -> Any:
        """The same of 127 / 128 of the value."""
        return super().up(value * LARGEST_CODE / 128)


class Overshooting(Reals):
    """A fault: the scale may be twice as large as it must."""

    def up(self, value: Any) -> Any:
        """Not below the value, and not beyond twice it."""
        found = self._fresh("up")
        self.facts += [value <= found, found <= 2 * value + real(self.storage.least)]
        return found


@dataclass(frozen=True)
class Stored:
    """Two elements of a channel, and what becomes of them."""

    n: Reals
    amax: Any
    x: Any
    y: Any

    @property
    def premises(self) -> list[Any]:
        """The largest magnitude is a finite one, and no element's is larger."""
        n = self.n
        return [
            self.amax >= 0,
            self.amax <= real(n.storage.largest),
            *(bound for value in (self.x, self.y) for bound in (value <= self.amax, -value <= self.amax)),
        ]


def _scale(case: Stored) -> Any:
    return codec.scale_of(case.n, case.amax)


def codes_fit(case: Stored) -> Any:
    """|q| <= 127 without a clamp."""
    q = codec.quantized(case.n, case.x, _scale(case))
    return z3.And(q <= LARGEST_CODE, q >= -LARGEST_CODE)


def zeros_stay(case: Stored) -> Any:
    """Zero is stored as 0 and loaded as zero, whatever its channel holds."""
    scale = _scale(case)
    q = codec.quantized(case.n, z3.RealVal(0), scale)
    return z3.And(q == 0, codec.dequantized(case.n, q, scale) == 0)


def scales_are_finite(case: Stored) -> Any:
    """A scale is finite, and it and its reciprocal are normal numbers of float32."""
    scale = _scale(case)
    return z3.And(scale >= LEAST_NORMAL, scale <= 1 / LEAST_NORMAL, scale <= real(case.n.storage.largest))


def finite_comes_back_finite(case: Stored) -> Any:
    """No finite element is loaded as an infinity."""
    scale = _scale(case)
    loaded = codec.dequantized(case.n, codec.quantized(case.n, case.x, scale), scale)
    return z3.Abs(loaded) <= real(case.n.storage.largest)


def the_code_is_near(case: Stored) -> Any:
    """|x - q * scale| <= scale * (1/2 + 127 * 2**-24)."""
    scale = _scale(case)
    q = codec.quantized(case.n, case.x, scale)
    return z3.Abs(case.x - q * scale) <= scale * (HALF + LARGEST_CODE * RECIPROCAL_ERROR)


def what_is_loaded_is_near(case: Stored) -> Any:
    """|x - loaded| <= scale * (1/2 + 127 * 2**-24) + half a spacing of the output at q * scale."""
    n, scale = case.n, _scale(case)
    q = codec.quantized(n, case.x, scale)
    loaded = codec.dequantized(n, q, scale)
    rounding = real(Fraction(2) ** -n.storage.precision) * z3.Abs(q * scale) + real(n.storage.least) / 2
    return z3.Abs(case.x - loaded) <= scale * (HALF + LARGEST_CODE * RECIPROCAL_ERROR) + rounding


def codes_keep_order(case: Stored) -> Any:
    """x <= y in one channel: so are their codes."""
    n = case.n
    r = n.reciprocal(_scale(case))
    return z3.Implies(case.x <= case.y, _code(n, case.x, r) <= _code(n, case.y, r))


def loading_keeps_order(case: Stored) -> Any:
    """p <= q: so are the numbers that they are loaded as, with one scale, if rounding keeps order, which is assumed."""
    n, scale = case.n, _scale(case)
    p, q = z3.ToReal(z3.Int("p")), z3.ToReal(z3.Int("q"))
    return z3.Implies(p <= q, codec.dequantized(n, p, scale) <= codec.dequantized(n, q, scale))


def signs_are_kept(case: Stored) -> Any:
    """-x has the code -q, and is loaded as the opposite, if rounding is odd, which is assumed."""
    n, scale = case.n, _scale(case)
    r = n.reciprocal(scale)
    p, q = _code(n, case.x, r), _code(n, -case.x, r)
    return z3.And(q == -p, codec.dequantized(n, q, scale) == -codec.dequantized(n, p, scale))


def a_second_store_keeps_the_scale(case: Stored) -> Any:
    """Of a state that was loaded the scale is no larger than scale * (1 + 4 * 2**-precision) + 2 * least number."""
    n, scale = case.n, _scale(case)
    loaded = codec.dequantized(n, codec.quantized(n, case.x, scale), scale)
    again = codec.scale_of(n, z3.Abs(loaded))
    return again <= scale * (1 + real(Fraction(4) / 2**n.storage.precision)) + 2 * real(n.storage.least)


class _Once:
    """An arithmetic whose reciprocal is given: that of one channel's scale, for several elements."""

    def __init__(self, n: Reals, reciprocal: Any) -> None:
        self.integer = n.integer
        self.reciprocal = lambda value: reciprocal


def _code(n: Reals, x: Any, reciprocal: Any) -> Any:
    return codec.quantized(_Once(n, reciprocal), x, None)  # type: ignore[arg-type]


CLAIMS: tuple[tuple[Callable[[Stored], Any], type[Reals]], ...] = (
    (codes_fit, AllCodes),
    (zeros_stay, Loose),
    (scales_are_finite, TinyLeastScale),
    (finite_comes_back_finite, Overflowing),
    (the_code_is_near, Truncating),
    (what_is_loaded_is_near, Truncating),
    (codes_keep_order, Stochastic),
    (loading_keeps_order, Unordered),
    (signs_are_kept, HalfUp),
    (a_second_store_keeps_the_scale, Overshooting),
)
"""Each claim, and the fault that must break it."""


def claims() -> list[str]:
    """The names of all claims."""
    return [f"codec/{name}/{claim.__name__}" for name in FORMATS for claim, _ in CLAIMS]


def _decide(
    storage: Format, claim: Callable[[Stored], Any], kind: type[Reals], deny: bool = True, hint: bool = False
) -> tuple[str, Any]:
    """The verdict on a claim's denial, or on its premises; with a hint, for two elements of 1/2 beside one of 127."""
    n = kind(storage)
    case = Stored(n, z3.Real("amax"), z3.Real("x"), z3.Real("y"))
    goal = claim(case)
    solver = z3.Solver()
    solver.add(*case.premises, *n.facts, z3.Not(goal) if deny else case.amax > case.x)
    if hint:
        solver.add(case.amax == LARGEST_CODE, case.x == HALF, case.y == HALF)
    answer = solve(solver.to_smt2(), LONG_LIMIT)
    return answer.verdict, answer.model


def results() -> list[Result]:
    """One result for each format and claim, with a case that meets the premises and a fault that breaks the claim."""
    made = []
    for name, storage in FORMATS.items():
        for claim, fault in CLAIMS:
            start = time.perf_counter()
            result = Result(f"codec/{name}/{claim.__name__}", "codec", "real", ("I18",), claim.__doc__ or "")
            result.solver = solver_name()
            verdict, model = _decide(storage, claim, Reals)
            met, _ = _decide(storage, claim, Reals, deny=False)
            refuted, _ = _decide(storage, claim, fault, hint=fault in (Stochastic, HalfUp))
            result.witness = "the premises are met" if met == "sat" else ""
            result.twins = [fault.__name__] if refuted == "sat" else []
            sound = verdict == "unsat" and result.witness and result.twins
            result.grade = PROVED if sound else REFUTED if verdict == "sat" else UNKNOWN
            result.note = "" if sound else f"{verdict}; premises {met}; {fault.__name__} {refuted} {model or ''}"
            result.seconds = time.perf_counter() - start
            made.append(result)
    return made
