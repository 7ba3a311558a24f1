"""Corrections of Triton's interpreter, which departs from the device in how it rounds.

Measured of Triton 3.6: `.to(tl.bfloat16)` cuts bits off where the device rounds half to even, and turns some NaNs into
numbers; a bfloat16 subnormal becomes zero on its way to float32; casts of float32 to fp8 round ties away from zero, cut
bits of subnormals off and do not saturate; `tl.fma` rounds the product before the sum. Kernels are written for the
device, so the interpreter is corrected, in this process, when one of them is imported under TRITON_INTERPRET=1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from triton import knobs
from triton import language as tl
from triton.runtime import interpreter

_ON = bool(knobs.runtime.interpret)
"""As kernels find it when they are defined; a change of the variable afterwards changes none of them."""

FP8 = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}
"""The fp8 formats whose casts are corrected."""


def is_on() -> bool:
    """Do kernels run in the interpreter in this process?"""
    return _ON


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z of float32 arrays, rounded once: the float64 sum is rounded to odd, which a second rounding survives.

    See Boldo and Melquiond, Emulation of FMA and correctly rounded sums, IEEE Transactions on Computers 57(4), 2008.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)  # the product is exact
        total = np.atleast_1d(product + addend)
        back = total - product
        error = (product - (total - back)) + (addend - back)
        bits = total.copy().view(np.int64)
        inexact = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
        bits += np.where(inexact, np.where(np.sign(error) == np.sign(total), 1, -1), 0)
        return bits.view(np.float64).reshape(np.shape(product)).astype(np.float32)


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, half to even."""
    wide = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32).reshape(-1))
    return wide.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16).reshape(np.shape(x))


def to_fp8(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """float32 to the bits of fp8, half to even; what is beyond the largest number becomes it, every NaN 0x7F."""
    wide = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32).reshape(-1))
    largest = torch.finfo(dtype).max
    narrow = wide.clamp(-largest, largest).to(dtype).view(torch.uint8)
    return narrow.masked_fill(wide.isnan(), 0x7F).numpy().reshape(np.shape(x))


def correct() -> None:
    """Replace what departs. Calling it again changes nothing."""
    builder = interpreter.InterpreterBuilder
    if getattr(builder, "_poolproof", False):
        return
    plain_cast, plain_fp_to_fp = builder.cast_impl, builder.create_fp_to_fp

    def cast_impl(self: object, src: interpreter.TensorHandle, dst_type: Any) -> interpreter.TensorHandle:
        """As on the device: bfloat16 is rounded half to even from float32, and keeps its subnormals on the way back."""
        start, end = src.dtype.scalar, dst_type.scalar
        if end == tl.bfloat16 and start in (tl.float32, tl.float64):
            return interpreter.TensorHandle(to_bfloat16(src.data.astype(np.float32)), tl.bfloat16)
        if start == tl.bfloat16 and end in (tl.float32, tl.float64):
            wide = (src.data.astype(np.uint32) << 16).view(np.float32)
            return interpreter.TensorHandle(wide.astype(np.float64) if end == tl.float64 else wide, end)
        return plain_cast(self, src, dst_type)

    def create_fp_to_fp(
        self: object, src: interpreter.TensorHandle, dst_type: Any, rounding_mode: Any
    ) -> interpreter.TensorHandle:
        """As on the device: fp8 is rounded half to even from float32, and saturated."""
        is_nearest = rounding_mode in (None, interpreter._ir.ROUNDING_MODE.RTNE)
        if src.dtype.scalar == tl.float32 and dst_type.scalar in FP8 and is_nearest:
            return interpreter.TensorHandle(to_fp8(src.data, FP8[dst_type.scalar]), dst_type.scalar)
        return plain_fp_to_fp(self, src, dst_type, rounding_mode)

    def create_fma(
        self: object, x: interpreter.TensorHandle, y: interpreter.TensorHandle, z: interpreter.TensorHandle
    ) -> interpreter.TensorHandle:
        """As on the device: float32 is rounded once."""
        if z.dtype.scalar != tl.float32:
            return interpreter.TensorHandle(x.data * y.data + z.data, z.dtype.scalar)
        return interpreter.TensorHandle(fma(x.data, y.data, z.data), tl.float32)

    builder.cast_impl = cast_impl
    builder.create_fp_to_fp = create_fp_to_fp
    builder.create_fma = create_fma
    builder._poolproof = True


if is_on():
    correct()
