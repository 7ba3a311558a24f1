"""Corrections of Triton's interpreter, which departs from the device in how it rounds.

Measured of Triton 3.6: `.to(tl.bfloat16)` cuts bits off where the device rounds half to even, and turns some NaNs into
numbers; a float32 to float16 or bfloat16 subnormal is cut off too; `tl.fma` rounds the product before the sum. Kernels
are written for the device, so the interpreter is corrected, in this process, when one of them is imported under
TRITON_INTERPRET=1.
"""

from __future__ import annotations

import numpy as np
import torch
from triton import knobs
from triton import language as tl
from triton.runtime import interpreter


def is_on() -> bool:
    """Do kernels run in the interpreter in this process?"""
    return bool(knobs.runtime.interpret)


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z of float32 arrays, rounded once: the float64 sum is rounded to odd, which a second rounding survives.

    See Boldo and Melquiond, Emulation of FMA and correctly rounded sums, IEEE Transactions on Computers 57(4), 2008.
    """
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)  # the product is exact
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = np.atleast_1d(total).copy().view(np.int64)
    away = np.sign(np.atleast_1d(error)) == np.sign(np.atleast_1d(total))
    inexact = (np.atleast_1d(error) != 0) & np.isfinite(np.atleast_1d(error)) & (bits & 1 == 0)
    bits += np.where(inexact, np.where(away, 1, -1), 0)
    with np.errstate(over="ignore", invalid="ignore"):
        return bits.view(np.float64).reshape(np.shape(total)).astype(np.float32)


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, half to even."""
    wide = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32).reshape(-1))
    return wide.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16).reshape(np.shape(x))


def correct() -> None:
    """Replace what departs. Calling it again changes nothing."""
    builder = interpreter.InterpreterBuilder
    if getattr(builder, "_poolproof", False):
        return
    plain_cast, plain_fp_to_fp = builder.cast_impl, builder.create_fp_to_fp

    def narrowed(src: interpreter.TensorHandle, dst_type: object) -> interpreter.TensorHandle | None:
        """A float32 in a narrower format, or None where that is not asked."""
        if src.dtype.scalar != tl.float32:
            return None
        if dst_type.scalar == tl.bfloat16:  # type: ignore[attr-defined]
            return interpreter.TensorHandle(to_bfloat16(src.data), tl.bfloat16)
        if dst_type.scalar == tl.float16:  # type: ignore[attr-defined]
            with np.errstate(over="ignore"):
                return interpreter.TensorHandle(src.data.astype(np.float16), tl.float16)
        return None

    def cast_impl(self: object, src: interpreter.TensorHandle, dst_type: object) -> interpreter.TensorHandle:
        """As on the device."""
        found = narrowed(src, dst_type)
        return plain_cast(self, src, dst_type) if found is None else found

    def create_fp_to_fp(
        self: object, src: interpreter.TensorHandle, dst_type: object, rounding: object
    ) -> interpreter.TensorHandle:
        """As on the device."""
        found = narrowed(src, dst_type)
        return plain_fp_to_fp(self, src, dst_type, rounding) if found is None else found

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
