"""Triton's interpreter rounds as the device does, once it is corrected, and does not before."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import oracles
import pytest
import small_kernels
import torch

from poolproof.kernels import interpreter
from poolproof.spec.codec import FLOAT32

HERE = Path(__file__).parent


@pytest.fixture(
    params=[
        pytest.param("cpu", marks=pytest.mark.skipif(not interpreter.is_on(), reason="kernels are compiled")),
        pytest.param(
            "cuda",
            marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
        ),
    ]
)
def where(request: pytest.FixtureRequest) -> str:
    """Where small kernels run: in the corrected interpreter, and on the device that it is corrected after."""
    return str(request.param)


def hard_casts(dtype: torch.dtype) -> np.ndarray:
    """float32 numbers on, next to and between the numbers of a narrower format, and beyond them; no NaNs."""
    bits = np.unique(
        np.concatenate(
            [np.arange(300), np.arange(0, oracles.infinity(dtype), 37), oracles.infinity(dtype) - 1 - np.arange(300)]
        )
    )
    numbers = oracles.numbers(bits, dtype).astype(np.float32)
    after = oracles.numbers(bits[:-1] + 1, dtype).astype(np.float32)
    middle = ((numbers[:-1].astype(np.float64) + after) / 2).astype(np.float32)
    largest = numbers[-1].astype(np.float64)
    beyond = largest + (largest - numbers[-2]) * np.array([0.25, 0.499, 0.5, 0.501, 1.0])
    ends = np.array(
        [3.4e38, np.finfo(np.float32).max, np.inf, 0.0, 1e-45, 2.0**-126, 2.0**-133, 2.0**-134, 2.0**-24, 2.0**-25]
    )
    with np.errstate(over="ignore"):
        found = np.concatenate([numbers, middle, beyond.astype(np.float32), ends.astype(np.float32)])
        found = np.concatenate([found, np.nextafter(found, np.float32(0)), np.nextafter(found, np.float32(np.inf))])
    return np.concatenate([found, -found])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_casts_round_half_to_even(dtype: torch.dtype, where: str) -> None:
    """Against torch, and against ml_dtypes or numpy: subnormals, ties, overflow to infinities."""
    wide = hard_casts(dtype)
    found = oracles.bits_of(small_kernels.narrow(torch.from_numpy(wide).to(where), dtype))
    with np.errstate(over="ignore"):
        expected = wide.astype(oracles.NUMPY[dtype])
    assert np.array_equal(found, np.ascontiguousarray(expected).view(np.uint16))
    assert np.array_equal(found, oracles.bits_of(torch.from_numpy(wide).to(dtype)))
    assert np.isinf(expected.astype(np.float32)).sum() >= 10


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_nans_stay_nans(dtype: torch.dtype, where: str) -> None:
    """Payloads of any size, those among them whose upper bits are none."""
    payloads = np.array([1, 2, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF], np.uint32)
    bits = np.concatenate([0x7F80_0000 | payloads, 0xFF80_0000 | payloads]).astype(np.uint32)
    found = small_kernels.narrow(torch.from_numpy(bits.view(np.float32)).to(where), dtype)
    assert found.isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_wider_and_equal_casts_are_left_alone(dtype: torch.dtype, where: str) -> None:
    bits = np.arange(1 << 16)
    bits = bits[(bits & 0x7FFF) <= oracles.infinity(dtype)]
    narrow = oracles.tensor_of(bits, dtype).to(where)
    assert np.array_equal(oracles.bits_of(small_kernels.narrow(narrow, torch.float32)), oracles.bits_of(narrow.float()))
    assert np.array_equal(oracles.bits_of(small_kernels.narrow(narrow, dtype)), bits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_casts_that_are_to_cut_off_do(dtype: torch.dtype, where: str) -> None:
    """`.to(..., fp_downcast_rounding="rtz")` is no cast that rounds to the nearest."""
    bits = np.arange(0x3C00, 0x3C80)
    numbers = oracles.numbers(bits, dtype)
    step = numbers[1:] - numbers[:-1]
    wide = np.concatenate([numbers[:-1] + step * part for part in (0, 0.25, 0.5, 0.75)]).astype(np.float32)
    found = oracles.bits_of(small_kernels.cut(torch.from_numpy(wide).to(where), dtype))
    assert np.array_equal(found, np.tile(bits[:-1], 4))


FP8 = {torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn, torch.float8_e5m2: ml_dtypes.float8_e5m2}


def fp8_bits(wide: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """float32 as fp8 by ml_dtypes: half to even, what is beyond the largest number cut down to it, one NaN."""
    largest = float(ml_dtypes.finfo(FP8[dtype]).max)
    with np.errstate(invalid="ignore"):
        bits = np.clip(wide, -largest, largest).astype(FP8[dtype]).view(np.uint8)
    return np.where(np.isnan(wide), np.uint8(0x7F), bits)


def hard_fp8_casts(dtype: torch.dtype) -> np.ndarray:
    """Every number of an fp8 format, every tie between two, the float32 next to these, and all of bfloat16."""
    numbers = np.arange(0x80, dtype=np.uint8).view(FP8[dtype]).astype(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    assert (np.diff(numbers) > 0).all()
    largest, last = numbers[-1], numbers[-1] - numbers[-2]
    beyond = largest + last * np.array([0.25, 0.5, 0.75, 1, 2], np.float32)
    found = np.concatenate([numbers, (numbers[:-1] + numbers[1:]) / 2, beyond])
    found = np.concatenate([found, np.nextafter(found, np.float32(-1)), np.nextafter(found, np.float32(np.inf))])
    every = (np.arange(0x8000, dtype=np.uint32) << 16).view(np.float32)
    found = np.concatenate([found, every, np.array([1e-45, 3.4e38, np.inf, np.nan], np.float32)])
    return np.concatenate([found, -found])


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_fp8_casts_round_half_to_even_and_saturate(dtype: torch.dtype, where: str) -> None:
    wide = hard_fp8_casts(dtype)
    found = small_kernels.narrow(torch.from_numpy(wide).to(where), dtype).view(torch.uint8).cpu().numpy()
    assert np.array_equal(found, fp8_bits(wide, dtype))
    assert np.isnan(wide).sum() > 200


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_to_fp8_keeps_shapes_and_agrees_with_ml_dtypes(dtype: torch.dtype) -> None:
    wide = hard_fp8_casts(dtype)
    expected = fp8_bits(wide, dtype)
    assert np.array_equal(interpreter.to_fp8(wide, dtype), expected)
    assert np.array_equal(interpreter.to_fp8(wide[::2], dtype), expected[::2])
    assert np.array_equal(interpreter.to_fp8(wide[:6].reshape(2, 3).T, dtype), expected[:6].reshape(2, 3).T)
    assert interpreter.to_fp8(np.float32(1.0), dtype).shape == ()
    assert interpreter.to_fp8(wide[:0], dtype).shape == (0,)


def once(x: np.float32, y: np.float32, z: np.float32) -> np.float32:
    """x * y + z on fractions, rounded once."""
    exact = FLOAT32.nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
    if abs(exact) > FLOAT32.largest:
        return np.float32(np.inf if exact > 0 else -np.inf)
    return np.float32(float(exact))


def random_sums(count: int, seed: int) -> tuple[np.ndarray, ...]:
    """Factors and addends of like sizes, and some of all sizes."""
    rng = np.random.default_rng(seed)
    x, y = ((rng.uniform(1, 2, count) * rng.choice([-1, 1], count)).astype(np.float32) for _ in range(2))
    z = (rng.uniform(1, 2, count) * 2.0 ** rng.integers(-60, 60, count) * rng.choice([-1, 1], count)).astype(np.float32)
    some = rng.integers(0, 0x7F80_0000, (3, count // 4), dtype=np.uint32).view(np.float32)
    return np.concatenate([x, some[0]]), np.concatenate([y, some[1]]), np.concatenate([z, some[2]])


def crafted_sums() -> tuple[np.ndarray, ...]:
    """Sums that rounding to float64 first puts on a tie of float32, and others that lie next to ties and to nothing."""
    one, tiny = 1.0, 2.0**-24
    rows = []
    for sign in (1, -1):
        for far in (2.0**-31, 2.0**-60, 2.0**-100, 2.0**-126):
            for x in (1 + 2.0**-23, 1 + 2.0**-22 + 2.0**-23, 1.5):
                # The product ends in a half of the sum's last bit, and `far` decides which way.
                rows += [(sign * x, 1 + tiny * 2, far), (sign * x, 1 + tiny * 2, -far)]
                rows += [(sign * x, tiny, one), (sign * far, far, 1 + 2.0**-23), (sign * far, one, x + tiny)]
    rows += [
        (x / 2**12, (1 + 2.0**-11) / 2**12, z) for x in (1.0, 1 + 2.0**-12, 1 - 2.0**-12) for z in (1.0, -1.0, 3.0)
    ]
    rows += [(one + 2.0**-12, one + 2.0**-12, -(one + 2.0**-11)), (2.0**-75, 2.0**-74, 0.0), (2.0**-75, 2.0**-75, 0.0)]
    rows += [
        (2.0**-75, 1.5 * 2.0**-75, 2.0**-149),
        (2.0**-100, 2.0**-100, 2.0**-126),
        (3e38, 2.0, -3e38),
        (3e38, 2.0, 0),
    ]
    rows += [(2.0**64, 2.0**64, -(2.0**104)), (2.0**64, 2.0**64, -(2.0**103)), (2.0**64, 2.0**64, -(2.0**102))]
    rows += [(127.0, y, 12582912.0) for y in (0.5, 1.5, 0.50000006, 0.49999997, 2.5 / 127, -0.5 / 127)]
    return tuple(np.array(rows, np.float32).T)


def double_rounding_cases() -> tuple[np.ndarray, ...]:
    """Products that lie so near to half of the addend's last bit that float64, and a rounded product, hold the half."""
    rng = np.random.default_rng(5)
    count = 4000
    a = rng.integers(1, 1 << 11, count)
    z = rng.integers(1 << 23, 1 << 24, count).astype(np.float32) * rng.choice([-1, 1], count).astype(np.float32)
    x = ((1 + a * 2.0**-23) * rng.choice([-1, 1], count)).astype(np.float32)
    y = (0.5 * (1 - a * 2.0**-23)).astype(np.float32)  # x * y is a half less a**2 * 2.0**-47
    return x, y, z


def assert_rounded_once(found: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    """Each sum is the exact one, rounded once. Signs of zeros are not looked at."""
    expected = np.array([once(*row) for row in zip(x, y, z, strict=True)], np.float32)
    wrong = np.flatnonzero(found != expected)
    assert len(wrong) == 0, [(x[n], y[n], z[n], found[n], expected[n]) for n in wrong[:3]]


SUMS = {"random": lambda: random_sums(4000, 3), "crafted": crafted_sums, "double rounding": double_rounding_cases}


@pytest.mark.parametrize("kind", SUMS)
def test_fma_rounds_once(kind: str, where: str) -> None:
    x, y, z = SUMS[kind]()
    on = [torch.from_numpy(np.ascontiguousarray(a)).to(where) for a in (x, y, z)]
    assert_rounded_once(small_kernels.fused(*on).cpu().numpy(), x, y, z)


@pytest.mark.parametrize("kind", SUMS)
def test_the_fma_itself_rounds_once(kind: str) -> None:
    x, y, z = SUMS[kind]()
    assert_rounded_once(interpreter.fma(x, y, z), x, y, z)


def test_the_cases_tell_an_fma_from_other_sums() -> None:
    """Float64 and then float32 is wrong for some of them; so are a rounded product and a cut off one."""
    x, y, z = (np.concatenate(part) for part in zip(crafted_sums(), double_rounding_cases(), strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        right = interpreter.fma(x, y, z)
        assert (right != (x.astype(float) * y + z).astype(np.float32)).any()
        assert (right != x * y + z).sum() > 100


def test_fma_of_what_is_not_finite() -> None:
    inf, nan = np.inf, np.nan
    rows = [
        (inf, 1, 1, inf),
        (inf, 0, 1, nan),
        (inf, 1, -inf, nan),
        (1, 1, -inf, -inf),
        (nan, 1, 1, nan),
        (1, 1, nan, nan),
    ]
    x, y, z, expected = np.array(rows, np.float32).T
    with np.errstate(invalid="ignore"):
        assert np.array_equal(interpreter.fma(x, y, z), expected, equal_nan=True)


def test_fma_keeps_shapes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(interpreter.fma(x, x, x), x * x + x)
    assert interpreter.fma(x, x, x).dtype == np.float32
    one = interpreter.fma(np.float32(2), np.float32(3), np.float32(4))
    assert (np.shape(one), float(one)) == ((), 10.0)
    assert interpreter.fma(x[:0], x[:0], x[:0]).shape == (0, 3)
    assert np.array_equal(interpreter.fma(x, x[:, :1], np.float32(1)), x * x[:, :1] + 1)


def test_to_bfloat16_keeps_shapes_and_agrees_with_ml_dtypes() -> None:
    wide = hard_casts(torch.bfloat16)
    expected = wide.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(interpreter.to_bfloat16(wide), expected)
    assert np.array_equal(interpreter.to_bfloat16(wide[::2]), expected[::2])
    assert np.array_equal(interpreter.to_bfloat16(wide[:6].reshape(2, 3).T), expected[:6].reshape(2, 3).T)
    assert interpreter.to_bfloat16(np.float32(1.0)).shape == ()
    assert interpreter.to_bfloat16(wide[:0]).shape == (0,)


def test_to_correct_again_changes_nothing() -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    names = ("cast_impl", "create_fp_to_fp", "create_fma")
    if interpreter.is_on():
        assert InterpreterBuilder._poolproof
        before = [getattr(InterpreterBuilder, name) for name in names]
        interpreter.correct()
        assert [getattr(InterpreterBuilder, name) for name in names] == before
    else:
        assert not hasattr(InterpreterBuilder, "_poolproof"), "compiled kernels need no correction"


SCRIPT = """
import os
os.environ["TRITON_INTERPRET"] = "1"
from triton import knobs
knobs.runtime.interpret = False
from poolproof.kernels import interpreter  # would correct the interpreter, were it on
knobs.runtime.interpret = True
if CORRECTED:
    interpreter.correct()
import numpy as np
import torch
import small_kernels
import test_interpreter as cases
for dtype in (torch.bfloat16, torch.float16):
    wide = torch.from_numpy(cases.hard_casts(dtype))
    right, found = wide.to(dtype), small_kernels.narrow(wide, dtype)
    print("cast to", dtype, int((right.view(torch.int16) != found.view(torch.int16)).sum()))
for dtype in cases.FP8:
    wide = cases.hard_fp8_casts(dtype)
    found = small_kernels.narrow(torch.from_numpy(wide), dtype).view(torch.uint8).numpy()
    print("cast to", dtype, int((found != cases.fp8_bits(wide, dtype)).sum()))
nans = torch.from_numpy(np.array([0x7F800001, 0xFF80FFFF], np.uint32).view(np.float32))
print("nans", int((~small_kernels.narrow(nans, torch.bfloat16).isnan()).sum()))
numbers = torch.arange(0x7F80, dtype=torch.int16).view(torch.bfloat16)
print("cast from torch.bfloat16", int((small_kernels.narrow(numbers, torch.float32) != numbers.float()).sum()))
x, y, z = cases.random_sums(4000, 3)
found = small_kernels.fused(*map(torch.from_numpy, (x, y, z))).numpy()
print("fma", int((found != interpreter.fma(x, y, z)).sum()))
"""


def departures(corrected: bool) -> dict[str, int]:
    """How many results depart from the device's, in a process of its own whose interpreter is corrected or is not."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    script = SCRIPT.replace("CORRECTED", str(corrected))
    command = [sys.executable, "-W", "ignore", "-c", script]
    environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in done.stdout.splitlines()}


def test_without_the_correction_the_interpreter_departs() -> None:
    """Where one of these no longer departs, Triton was fixed, and that correction can go."""
    found = departures(corrected=False)
    assert found.pop("cast to torch.float16") == 0, "numpy does it, and rounds"
    assert found.keys() == {
        *("cast to torch.bfloat16", "cast from torch.bfloat16", "nans", "fma"),
        *("cast to torch.float8_e4m3fn", "cast to torch.float8_e5m2"),
    }
    assert all(count > 0 for count in found.values()), found


def test_with_the_correction_it_does_not() -> None:
    found = departures(corrected=True)
    assert len(found) == 7
    assert set(found.values()) == {0}, found
