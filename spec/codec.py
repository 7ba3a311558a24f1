"""The int8 state codec: symmetric, one scale for each k-channel of a head of a layer of a slot.

A channel is the `d_v` elements of a state that share one k-index. It is stored as `d_v` int8 numbers q and one scale,
which has the state's own storage format:

    scale  = max(round_up(amax / 127), least_scale)       amax: the channel's largest magnitude
    q      = round_half_even(x * round32(1 / scale))      the product exact, rounded once
    loaded = saturate(round(q * scale))                   the product exact, rounded once to the storage format

`round_up` rounds towards infinity in the storage format, so that no |x| / scale exceeds 127, and no finite state comes
back infinite. `least_scale` is the least normal number of float32, or the least positive number of the format where
that is larger: its reciprocal is finite and normal in float32. A channel that holds a NaN or an infinity is stored with
the scale NaN and zeros, and comes back as NaN throughout, as does a scale that is not finite, whatever its sign.

The reciprocal form was chosen over `round_half_even(x / scale)`: one fused multiply-add with 1.5 * 2**23 multiplies,
rounds once and leaves q in the low byte. The two differ only next to ties.

The definition is written once, over any arithmetic that has the few operations of `Arithmetic`. `Exact` runs it on
fractions; the proofs trace it over real numbers; on tensors `kernels/` must give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

LARGEST_CODE = 127


@dataclass(frozen=True)
class Format:
    """A binary floating-point format of IEEE 754's kind.

    Attributes:
        name: as torch names it.
        precision: significant bits of a normal number, the hidden one included.
        least_exponent, largest_exponent: of normal numbers 1.f * 2**e.
    """

    name: str
    precision: int
    least_exponent: int
    largest_exponent: int

    @property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return (2 - Fraction(2) ** (1 - self.precision)) * Fraction(2) ** self.largest_exponent

    @property
    def least(self) -> Fraction:
        """The least positive number, a subnormal."""
        return Fraction(2) ** (self.least_exponent + 1 - self.precision)

    @property
    def least_scale(self) -> Fraction:
        """The least scale: its reciprocal is finite and normal in float32."""
        return max(Fraction(2) ** -126, self.least)

    def spacing(self, value: Fraction) -> Fraction:
        """The distance of neighbouring numbers at a value's magnitude, as if exponents had no upper end."""
        exponent = self.least_exponent if value == 0 else max(_exponent(abs(value)), self.least_exponent)
        return Fraction(2) ** (exponent + 1 - self.precision)

    def nearest(self, value: Fraction) -> Fraction:
        """Rounded half to even; beyond the largest number the next one counts as it were one."""
        step = self.spacing(value)
        return round(value / step) * step

    def up(self, value: Fraction) -> Fraction:
        """Rounded towards infinity."""
        step = self.spacing(value)
        return math.ceil(value / step) * step


BFLOAT16 = Format("bfloat16", 8, -126, 127)
FLOAT16 = Format("float16", 11, -14, 15)
FLOAT32 = Format("float32", 24, -126, 127)
FORMATS = {f.name: f for f in (BFLOAT16, FLOAT16, FLOAT32)}


def _exponent(value: Fraction) -> int:
    """The e with 2**e <= value < 2**(e + 1), of a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


class Arithmetic(Protocol):
    """What the definition asks of numbers, besides `*` and `/`."""

    def least_scale(self) -> Any:
        """The least scale of the format."""

    def up(self, value: Any) -> Any:
        """Rounded towards infinity in the storage format."""

    def larger(self, a: Any, b: Any) -> Any:
        """The larger of two numbers."""

    def reciprocal(self, value: Any) -> Any:
        """1 / value, rounded half to even in float32."""

    def integer(self, value: Any) -> Any:
        """The nearest integer, half to even."""

    def nearest(self, value: Any) -> Any:
        """Rounded half to even in the storage format, as if its exponents had no upper end."""

    def clamped(self, value: Any) -> Any:
        """The value, or the largest number of the format with its sign where that is smaller in magnitude."""


def scale_of(n: Arithmetic, amax: Any) -> Any:
    """The scale of a channel whose largest magnitude is `amax`."""
    return n.larger(n.up(amax / LARGEST_CODE), n.least_scale())


def quantized(n: Arithmetic, x: Any, scale: Any) -> Any:
    """The code of one element."""
    return n.integer(x * n.reciprocal(scale))


def dequantized(n: Arithmetic, q: Any, scale: Any) -> Any:
    """What one code is loaded as."""
    return n.clamped(n.nearest(q * scale))


class Exact:
    """The definition's arithmetic on fractions, for one storage format."""

    def __init__(self, storage: Format) -> None:
        self.storage = storage

    def least_scale(self) -> Fraction:
        """The least scale of the format."""
        return self.storage.least_scale

    def up(self, value: Fraction) -> Fraction:
        """Rounded towards infinity in the storage format."""
        return self.storage.up(value)

    def larger(self, a: Fraction, b: Fraction) -> Fraction:
        """The larger of two numbers."""
        return max(a, b)

    def reciprocal(self, value: Fraction) -> Fraction:
        """1 / value, rounded half to even in float32."""
        return FLOAT32.nearest(1 / value)

    def integer(self, value: Fraction) -> Fraction:
        """The nearest integer, half to even."""
        return Fraction(round(value))

    def nearest(self, value: Fraction) -> Fraction:
        """Rounded half to even, as if exponents had no upper end."""
        return self.storage.nearest(value)

    def clamped(self, value: Fraction) -> Fraction:
        """No larger in magnitude than the format's largest number."""
        return max(-self.storage.largest, min(value, self.storage.largest))


@dataclass(frozen=True)
class Channel:
    """A stored channel. `scale` is None, which stands for NaN, where the state was not finite."""

    codes: tuple[int, ...]
    scale: Fraction | None


def store(storage: Format, state: Sequence[float]) -> Channel:
    """A channel as it is stored. The elements are numbers of the storage format, NaN and infinities among them."""
    if not all(math.isfinite(x) for x in state):
        return Channel((0,) * len(state), None)
    n, exact = Exact(storage), [Fraction(x) for x in state]
    scale = scale_of(n, max(map(abs, exact), default=Fraction(0)))
    return Channel(tuple(int(quantized(n, x, scale)) for x in exact), scale)


def load(storage: Format, channel: Channel) -> list[float]:
    """What a stored channel is loaded as."""
    if channel.scale is None:
        return [math.nan] * len(channel.codes)
    n = Exact(storage)
    return [float(dequantized(n, Fraction(q), channel.scale)) for q in channel.codes]
