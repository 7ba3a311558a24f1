"""Keys and values of new tokens, written to the pages of a buffer in one launch: cast, or scaled to fp8."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
import triton
from torch import Tensor
from triton import language as tl

from poolproof.kernels import interpreter
from poolproof.kernels.codec import BITS, NAN_BITS
from poolproof.kernels.copy_windows import with_one_nan
from poolproof.kernels.launch import Prepared
from poolproof.kernels.layout import FORMATS, KernelArgumentError
from poolproof.kernels.overlap import are_apart, meets_itself

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
"""The largest number of each fp8 format."""

FP8 = {torch.float8_e4m3fn: 1, torch.float8_e5m2: 2}
"""The fp8 formats, as the kernel tells them apart; 0 is none of them."""

FP8_NAN = 0x7F
"""The one fp8 NaN that is ever stored."""

STORED = (*FORMATS, *LARGEST)
"""What pages may hold. Keys and values come in the formats of 16 and 32 bits."""

BLOCK = 2048
"""Elements that a program writes."""

COLUMNS = (64, 128, 256, 512, 1024)
"""So many of them are of one token, where it has as many."""

WARPS = 4

MOST = 2**31 - 1
"""Programs of one launch."""

VECTOR = 16
"""Bytes that a thread reads or writes at once, from a multiple of as many."""

UNITS = {dtype: VECTOR // dtype.itemsize for dtype in STORED}
"""So many elements these are."""

AXES = "(pages, page_size, kv_heads, head_dim)"

Scale = Tensor | None

Kind = tuple[torch.dtype | None, int, bool, int]
"""What of rows the kernel is compiled for: their dtype; the elements of a unit, of which all steps are multiples; do
they start at a multiple of a vector; the step from scale to scale, -1 without one.
"""

NO_VALUES: Kind = (None, 1, False, -1)


class WriteKV:
    """Writes keys and values of tokens to the pages of one layer.

    `write(keys, values, tokens)` does `k_pages[page, offset] = keys` and `v_pages[page, offset] = values`, where a
    token is page * page_size + offset, in one launch on the current stream, without a synchronisation or, on CUDA, an
    allocation: it can be captured in a graph. The first call of its kind compiles and belongs before the capture: kinds
    differ in dtypes, in which scales there are, in whether keys and values start and step by multiples of 16 bytes, and
    in the strides of tokens and scales. On the CPU it is done in torch.
    """

    def __init__(self, k_pages: Tensor, v_pages: Tensor | None = None) -> None:
        """Bind the pages.

        Args:
            k_pages: (pages, page_size, kv_heads, head_dim), or (pages, page_size, width) for one head; bfloat16,
                float16, float32, float8_e4m3fn or float8_e5m2, any strides but for the last axis, which has no gaps.
            v_pages: the same but for the elements of a head; None where there is only one tensor, as of latent rows.

        fp8 takes a device of compute capability 8.9 or higher.

        Raises:
            KernelArgumentError: the pages do not fit together, have no token, or elements of them lie in one place.
        """
        self._k = _Side("keys", "k_pages", k_pages)
        self._v = None if v_pages is None else _Side("values", "v_pages", v_pages)
        if self._v is not None:
            _check_together(self._k, self._v)
        self._device = k_pages.device
        self._is_cuda, self._is_meta = self._device.type == "cuda", self._device.type == "meta"
        self._kinds: dict[tuple[Any, ...], Prepared] = {}
        sides = [self._k] if self._v is None else [self._k, self._v]
        self._columns = [_columns(side.heads * side.dim) for side in sides]
        self._each = sum(-(-side.heads * side.dim // wide) for side, wide in zip(sides, self._columns, strict=True))
        self._tokens = max(1, BLOCK // max(self._columns))

    def __call__(
        self, keys: Tensor, values: Tensor | None, tokens: Tensor, k_scale: Scale = None, v_scale: Scale = None
    ) -> None:
        """Write tokens.

        Args:
            keys: (n, kv_heads, head_dim), or (n, head_dim) for one head; bfloat16, float16 or float32, any strides but
                for the last axis, which has no gaps. They share no bytes with the pages; that is for the caller to
                know.
            values: the same but for the elements of a head; None where the pages have no values.
            tokens: (n), int64 or int32: physical token numbers. A negative one, and one beyond the pages, stands for
                token 0, the sink. All but those of the sink are distinct; that is for the caller to know.
            k_scale: float32, of one element or (kv_heads): what fp8 keys are divided by; None is 1.
            v_scale: the same for values.

        Where the dtype stays, bits are copied as they are. Where it changes, numbers are rounded half to even, and
        every NaN becomes one and the same. In fp8 a number is x / scale, rounded to float32, then half to even to the
        format, and the largest of the format where it is beyond; that includes infinities.

        After several rows for the sink each of its elements is that of one of them: finite, if they are and fit the
        pages' format.

        Raises:
            TypeError: the tokens are no tensor, or not of int64 or int32.
            KernelArgumentError: a tensor does not fit the pages.
            ValueError: there are not as many rows as tokens, or more than go into a launch.
        """
        if self._is_cuda or (interpreter.is_on() and not self._is_meta):
            programs, prepared, changing = self.plan(keys, values, tokens, k_scale, v_scale)
            if programs:
                prepared.launch(programs, *changing)
            return
        self._take(keys, values, _count(tokens, self._device), k_scale, v_scale)
        if not self._is_meta:
            v_pages = None if self._v is None else self._v.pages
            write_kv_reference(self._k.pages, v_pages, keys, values, tokens, k_scale, v_scale)

    def plan(
        self, keys: Tensor, values: Tensor | None, tokens: Tensor, k_scale: Scale = None, v_scale: Scale = None
    ) -> tuple[int, Prepared, tuple[Any, ...]]:
        """What such a call launches: the number of programs, the kernel, and the arguments that change.

        Raises:
            TypeError, KernelArgumentError, ValueError: as for the call.
        """
        count = _count(tokens, self._device)
        programs = -(-count // self._tokens) * self._each
        if programs > MOST:
            most = MOST // self._each * self._tokens
            raise ValueError(f"{count} tokens in one call: at most {most} go into a launch")
        k_steps, v_steps, kind = self._take(keys, values, count, k_scale, v_scale)
        kind = (*kind, tokens.dtype, tokens.stride(0) if count > 1 else 1)
        prepared = self._kinds.get(kind)
        if prepared is None:
            prepared = self._kinds[kind] = self._prepare(*kind)
        return programs, prepared, (keys, values, tokens, k_scale, v_scale, count, *k_steps, *v_steps)

    def _take(
        self, keys: Any, values: Any, count: int, k_scale: Any, v_scale: Any
    ) -> tuple[tuple[int, int], tuple[int, int], tuple[Any, ...]]:
        """Steps in keys and in values, and what else of them the kernel is compiled for."""
        k_steps, k_kind = self._k.take(keys, count, k_scale)
        if self._v is not None:
            v_steps, v_kind = self._v.take(values, count, v_scale)
            return k_steps, v_steps, (k_kind, v_kind)
        if values is not None or v_scale is not None:
            raise KernelArgumentError("values or their scale, but no v_pages are bound: pass None for both")
        return k_steps, (0, 0), (k_kind, NO_VALUES)

    def _prepare(self, k_kind: Kind, v_kind: Kind, _: torch.dtype, t_step: int) -> Prepared:
        """The launch of one kind of call."""
        k, v = self._k, self._v
        unit = k.unit if v is None else min(k.unit, v.unit)
        steps = [step // unit for side in (k, v) for step in (side.steps if side is not None else (0, 0, 0))]
        total = k.pages.shape[0] * k.pages.shape[1]
        return Prepared(
            _write,
            (k.bits, None if v is None else v.bits, total, *steps),
            HEADS=k.heads,
            K_DIM=k.dim,
            V_DIM=0 if v is None else v.dim,
            PAGE=k.pages.shape[1],
            TOKENS=self._tokens,
            K_COLUMNS=self._columns[0],
            V_COLUMNS=self._columns[-1],
            K_UNIT=k_kind[1],
            V_UNIT=v_kind[1],
            UNIT=unit,
            FP8=FP8.get(k.pages.dtype, 0),
            K_SCALE=k_kind[3],
            V_SCALE=v_kind[3],
            T_STEP=t_step,
            num_warps=WARPS,
        )


class _Side:
    """The pages of keys or of values."""

    def __init__(self, what: str, name: str, pages: Any) -> None:
        """`what` is written to pages that are called `name`."""
        _check_pages(name, pages)
        self.what, self.name, self.pages = what, name, pages
        self.heads, self.dim = (1 if pages.dim() == 3 else pages.shape[2]), pages.shape[-1]
        self.device, self.is_fp8 = pages.device, pages.dtype in LARGEST
        steps = [pages.stride(axis) if pages.shape[axis] > 1 else 0 for axis in range(pages.dim() - 1)]
        self.steps = (*steps, 0) if pages.dim() == 3 else tuple(steps)
        self.unit = UNITS[pages.dtype]
        while any(step % self.unit for step in self.steps):
            self.unit //= 2
        self.bits = pages.view(torch.uint8) if self.is_fp8 else pages

    def take(self, rows: Any, count: int, scale: Any) -> tuple[tuple[int, int], Kind]:
        """The steps from token to token and from head to head, in units, of rows that fit the pages; and their kind.

        Raises:
            KernelArgumentError: rows or scale do not fit.
            ValueError: there are not as many.
        """
        dtype = rows.dtype if isinstance(rows, Tensor) else None
        if dtype not in FORMATS or rows.device != self.device:
            self._refuse(rows, count)
        strides = rows.stride()
        if rows.shape != (count, self.heads, self.dim):
            if self.heads > 1 or rows.shape != (count, self.dim):
                self._refuse_shape(rows.shape, count)
            strides = (strides[0], 0, strides[1])
        if strides[2] != 1 and self.dim > 1:
            raise KernelArgumentError(
                f"{self.what} have the strides {rows.stride()}: the last axis must be without gaps; call contiguous()"
            )
        if rows.is_neg():
            raise KernelArgumentError(f"{self.what} are a view that turns signs: call resolve_neg()")
        # A step over an axis of one place is never taken, and says nothing of how things are aligned.
        token = strides[0] if count > 1 else 0
        head = strides[1] if self.heads > 1 else 0
        unit = UNITS[dtype]
        if (token | head) % unit:
            unit = 1
        step = -1 if scale is None else self.scale_step(scale)
        return (token // unit, head // unit), (dtype, unit, rows.data_ptr() % VECTOR == 0, step)

    def scale_step(self, scale: Any) -> int:
        """The step from the scale of a head to that of the next; 0 where all have one.

        Raises:
            KernelArgumentError: it is no scale of these pages.
        """
        if not self.is_fp8:
            raise KernelArgumentError(
                f"a scale for {self.what}, but {self.name} are {self.pages.dtype}, not fp8: pass None"
            )
        is_tensor = isinstance(scale, Tensor)
        if not is_tensor or scale.dtype != torch.float32 or scale.device != self.device:
            found = f"{scale.dtype} on {scale.device}" if is_tensor else f"a {type(scale).__name__}"
            raise KernelArgumentError(f"the scale of {self.what} is {found}: give a float32 tensor on {self.device}")
        if scale.numel() == 1:
            return 0
        if scale.shape != (self.heads,):
            raise KernelArgumentError(
                f"the scale of {self.what} has the shape {tuple(scale.shape)}: give one element, or ({self.heads},), "
                "one for each head"
            )
        step: int = scale.stride(0)
        return step

    def _refuse(self, rows: Any, count: int) -> NoReturn:
        """Raises what rows of another kind are answered with."""
        if not isinstance(rows, Tensor):
            raise KernelArgumentError(
                f"{self.what} are a {type(rows).__name__}, not a torch tensor; bound pages take {self._expected(count)}"
            )
        raise KernelArgumentError(
            f"{self.what} are {rows.dtype} on {rows.device}: give bfloat16, float16 or float32 on {self.device}"
        )

    def _expected(self, count: int) -> str:
        return f"({count}, {self.heads}, {self.dim})" + (f" or ({count}, {self.dim})" if self.heads == 1 else "")

    def _refuse_shape(self, shape: torch.Size, count: int) -> NoReturn:
        """Raises what a wrong shape is answered with."""
        if shape[1:] == (self.heads, self.dim) or (self.heads == 1 and shape[1:] == (self.dim,)):
            raise ValueError(f"{shape[0]} {self.what} for {count} tokens: give as many of either")
        raise KernelArgumentError(
            f"{self.what} have the shape {tuple(shape)}: {self.name} of the shape {tuple(self.pages.shape)} take "
            f"{self._expected(count)}"
        )


def _check_pages(name: str, pages: Any) -> None:
    if not isinstance(pages, Tensor):
        raise KernelArgumentError(f"{name} are a {type(pages).__name__}, not a torch tensor")
    if pages.dtype not in STORED:
        raise KernelArgumentError(
            f"{name} are {pages.dtype}; pages hold bfloat16, float16, float32, float8_e4m3fn or float8_e5m2"
        )
    if pages.device.type not in ("cuda", "cpu", "meta"):
        raise KernelArgumentError(f"pages are on cuda, cpu or meta, not on {pages.device}")
    if pages.layout != torch.strided or pages.is_neg() or pages.requires_grad:
        raise KernelArgumentError(
            f"{name} are a plain strided tensor that takes no part in autograd: make it without requires_grad, dense, "
            "and not as a view that turns signs"
        )
    shape, strides = tuple(pages.shape), pages.stride()
    if len(shape) not in (3, 4) or not pages.numel():
        raise KernelArgumentError(
            f"{name} have the shape {shape}; they have the axes {AXES}, or (pages, page_size, width) for one head, "
            "none of them empty: page 0 holds the sink"
        )
    if strides[-1] != 1 and shape[-1] > 1:
        raise KernelArgumentError(f"{name} have the strides {strides}: the elements of a head must be without gaps")
    if meets_itself(pages):
        raise KernelArgumentError(
            f"{name} of the shape {shape} and strides {strides} have several elements in one place: give a place to "
            "each"
        )


def _check_together(k: _Side, v: _Side) -> None:
    """What holds of the pages of keys and of values."""
    if k.pages.dtype != v.pages.dtype or k.device != v.device:
        raise KernelArgumentError(
            f"k_pages are {k.pages.dtype} on {k.device}, v_pages {v.pages.dtype} on {v.device}: give both one dtype "
            "and device"
        )
    first, second = tuple(k.pages.shape), tuple(v.pages.shape)
    if first[:2] != second[:2] or k.heads != v.heads:
        raise KernelArgumentError(
            f"k_pages have the shape {first}, v_pages {second}: both have the axes {AXES} and differ in head_dim only"
        )
    if not are_apart(k.pages, v.pages) and not _are_in_turns(k.pages, v.pages):
        raise KernelArgumentError(
            f"k_pages and v_pages share bytes: they are {v.pages.data_ptr() - k.pages.data_ptr()} bytes apart, of the "
            f"shapes {first} and {second} and strides {k.pages.stride()} and {v.pages.stride()}; give each its own"
        )


def _are_in_turns(k: Tensor, v: Tensor) -> bool:
    """Would both fit into one tensor that has keys and values for an axis, without two elements in one place?"""
    gap = abs(v.data_ptr() - k.data_ptr())
    if gap % k.element_size() or k.stride() != v.stride():
        return False
    wide = torch.Size((2, *k.shape[:-1], max(k.shape[-1], v.shape[-1])))
    return not meets_itself(torch.empty_strided(wide, (gap // k.element_size(), *k.stride()), device="meta"))


def _columns(size: int) -> int:
    """How many elements of a token a program takes: those that leave the fewest idle, and the most of these."""
    if size <= min(COLUMNS):
        return 1 << (size - 1).bit_length()
    return min(COLUMNS, key=lambda columns: (-(-size // columns) * columns, -columns))


def _count(tokens: Any, device: torch.device) -> int:
    """How many tokens there are.

    Raises:
        TypeError: they are none.
        KernelArgumentError: they lie elsewhere, or not in a row.
    """
    if not isinstance(tokens, Tensor):
        raise TypeError(f"tokens are a torch tensor on {device}, not {type(tokens).__name__}; torch.tensor makes one")
    if tokens.dtype != torch.int64 and tokens.dtype != torch.int32:
        raise TypeError(f"tokens are int64 or int32, not {tokens.dtype}")
    if tokens.device != device:
        raise KernelArgumentError(f"tokens are on {tokens.device}, the pages on {device}: move them there first")
    if tokens.dim() != 1:
        raise KernelArgumentError(f"tokens have the shape {tuple(tokens.shape)}: give one axis, as of reshape(-1)")
    return tokens.shape[0]


def write_kv_reference(
    k_pages: Tensor,
    v_pages: Tensor | None,
    keys: Tensor,
    values: Tensor | None,
    tokens: Tensor,
    k_scale: Scale = None,
    v_scale: Scale = None,
) -> None:
    """What `WriteKV(k_pages, v_pages)(keys, values, tokens, k_scale, v_scale)` does, in torch, on any device."""
    _write_reference(k_pages, keys, tokens, k_scale)
    if v_pages is not None and values is not None:
        _write_reference(v_pages, values, tokens, v_scale)


def read_kv_reference(pages: Tensor, tokens: Tensor, scale: Scale = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Keys or values of tokens, back from the pages, in torch, on any device.

    Args:
        pages: (pages, page_size, kv_heads, head_dim) or (pages, page_size, width), as `WriteKV` takes them.
        tokens: (n), int64 or int32; what is no token of the pages reads the sink.
        scale: as for `WriteKV`, on the device of the pages.
        dtype: bfloat16, float16 or float32.

    Returns:
        (n, kv_heads, head_dim) or (n, width) in the dtype: fp8 numbers times the scale, rounded to float32 and then to
        the dtype; other numbers cast. Where the dtype changes, every NaN becomes one and the same.

    Raises:
        TypeError: the tokens are no tensor, or not of int64 or int32.
        KernelArgumentError: a tensor does not fit the pages, or the dtype is none of the three.
    """
    side = _Side("rows", "pages", pages)
    _count(tokens, side.device)
    if dtype not in FORMATS:
        raise KernelArgumentError(f"rows are read as bfloat16, float16 or float32, not as {dtype}")
    if scale is not None:
        side.scale_step(scale)
    rows = pages[_place(pages, tokens)]
    if dtype == pages.dtype:
        return rows
    wide = rows.float()
    if scale is not None:
        wide = wide * (scale.reshape(-1) if pages.dim() == 3 else scale.reshape(-1, 1))
    return wide.to(dtype).view(BITS[dtype]).masked_fill(wide.isnan(), NAN_BITS[dtype]).view(dtype)


def _place(pages: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Pages and offsets of tokens, those of the sink for what is no token."""
    size = pages.shape[1]
    at = tokens.to(torch.int64)
    at = torch.where((at < 0) | (at >= pages.shape[0] * size), 0, at)
    return at // size, at % size


def _write_reference(pages: Tensor, rows: Tensor, tokens: Tensor, scale: Scale) -> None:
    wide = pages.unsqueeze(2) if pages.dim() == 3 else pages
    found = rows.detach().reshape(-1, *wide.shape[2:])
    bits = BITS.get(pages.dtype, torch.uint8)
    wide.view(bits)[_place(wide, tokens)] = _stored(found, pages.dtype, scale).view(bits)


def _stored(rows: Tensor, dtype: torch.dtype, scale: Scale) -> Tensor:
    """(n, heads, elements) as the pages hold them."""
    if dtype in FORMATS:
        value = rows.to(dtype)
        if dtype == rows.dtype:
            return value
        return value.view(BITS[dtype]).masked_fill(rows.isnan(), NAN_BITS[dtype])
    wide = rows.float()
    if scale is not None:
        # By a tensor: on CUDA torch turns a division by a number into a product with its reciprocal.
        wide = wide / scale.reshape(-1, 1)
    narrow = wide.clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)
    return narrow.view(torch.uint8).masked_fill(wide.isnan(), FP8_NAN)


@triton.jit
def _quotient(value, scale, head, there, STEP: tl.constexpr):
    """Elements as float32, over the scale of all heads or of their own."""
    wide = value.to(tl.float32)
    if STEP == 0:
        wide = tl.div_rn(wide, tl.zeros_like(wide) + tl.load(scale))
    elif STEP > 0:
        wide = tl.div_rn(wide, tl.zeros_like(wide) + tl.load(scale + head * STEP, mask=there, other=1.0)[None, :])
    return wide


@triton.jit
def _fp8_bits(wide, FP8: tl.constexpr):
    """Rounded half to even, cut down to the largest number; every NaN becomes the one."""
    if FP8 == 1:
        near = tl.minimum(tl.maximum(wide, -448.0), 448.0).to(tl.float8e4nv)
    else:
        near = tl.minimum(tl.maximum(wide, -57344.0), 57344.0).to(tl.float8e5)
    bits = near.to(tl.uint8, bitcast=True)
    return tl.where(wide == wide, bits, tl.full(bits.shape, 0x7F, tl.uint8))


@triton.jit
def _write_part(
    rows, pages, scale, token, nth, inside, block,
    r_token, r_head, p_page, p_offset, p_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr, COLUMNS: tl.constexpr,
    R_UNIT: tl.constexpr, UNIT: tl.constexpr, FP8: tl.constexpr, SCALE: tl.constexpr,
):  # fmt: skip
    """Some elements of some tokens' keys or values. Products with a unit tell the compiler how steps are aligned."""
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    head = (column // DIM).to(tl.int64)
    there = column < HEADS * DIM
    found = rows + (nth * r_token * R_UNIT)[:, None] + (head * r_head * R_UNIT + column % DIM)[None, :]
    start = (token // PAGE * p_page + token % PAGE * p_offset) * UNIT
    place = pages + start[:, None] + (head * p_head * UNIT + column % DIM)[None, :]
    mask = inside[:, None]
    if HEADS * DIM % COLUMNS != 0:
        mask = mask & there[None, :]
    value = tl.load(found, mask=mask)
    if FP8 > 0:
        tl.store(place, _fp8_bits(_quotient(value, scale, head, there, SCALE), FP8), mask=mask)
    elif rows.dtype.element_ty == pages.dtype.element_ty:
        tl.store(place, value, mask=mask)
    else:
        tl.store(place, with_one_nan(value, value.to(pages.dtype.element_ty)), mask=mask)


@triton.jit(do_not_specialize=["tokens", "k_scale", "v_scale", "count", "k_token", "k_head", "v_token", "v_head"])
def _write(
    keys, values, tokens, k_scale, v_scale,
    count: tl.int64, k_token: tl.int64, k_head: tl.int64, v_token: tl.int64, v_head: tl.int64,
    k_pages, v_pages, total, kp_page, kp_offset, kp_head, vp_page, vp_offset, vp_head,
    HEADS: tl.constexpr, K_DIM: tl.constexpr, V_DIM: tl.constexpr, PAGE: tl.constexpr, TOKENS: tl.constexpr,
    K_COLUMNS: tl.constexpr, V_COLUMNS: tl.constexpr, K_UNIT: tl.constexpr, V_UNIT: tl.constexpr, UNIT: tl.constexpr,
    FP8: tl.constexpr, K_SCALE: tl.constexpr, V_SCALE: tl.constexpr, T_STEP: tl.constexpr,
):  # fmt: skip
    """Of some tokens, one program each for every block of their keys, and then of their values."""
    k_blocks: tl.constexpr = (HEADS * K_DIM + K_COLUMNS - 1) // K_COLUMNS
    blocks: tl.constexpr = k_blocks + (HEADS * V_DIM + V_COLUMNS - 1) // V_COLUMNS
    program = tl.program_id(0)
    block = program % blocks
    nth = (program // blocks).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside = nth < count
    token = tl.load(tokens + nth * T_STEP, mask=inside, other=0).to(tl.int64)
    token = tl.where((token < 0) | (token >= total), tl.zeros_like(token), token)
    if block < k_blocks:
        _write_part(keys, k_pages, k_scale, token, nth, inside, block,
                    k_token, k_head, kp_page, kp_offset, kp_head,
                    HEADS, K_DIM, PAGE, K_COLUMNS, K_UNIT, UNIT, FP8, K_SCALE)  # fmt: skip
    elif V_DIM > 0:
        _write_part(values, v_pages, v_scale, token, nth, inside, block - k_blocks,
                    v_token, v_head, vp_page, vp_offset, vp_head,
                    HEADS, V_DIM, PAGE, V_COLUMNS, V_UNIT, UNIT, FP8, V_SCALE)  # fmt: skip
