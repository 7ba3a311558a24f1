"""Compile the kernels for a Hopper device, on any machine: a program, run where Triton's interpreter is off."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from poolproof.kernels.clear_windows import ClearWindows
from poolproof.kernels.copy_windows import CopyWindows
from poolproof.kernels.dequantize_load import DequantizeLoad
from poolproof.kernels.launch import Prepared
from poolproof.kernels.move_pages import MovePages
from poolproof.kernels.move_windows import CopyAndClearWindows
from poolproof.kernels.quantize_store import QuantizeStore
from poolproof.kernels.refresh_pages import RefreshPages
from poolproof.kernels.translate_tokens import TranslateTokens
from poolproof.kernels.whole_slots import LoadSlots, StoreSlots
from poolproof.kernels.write_kv import WriteKV

HOPPER = GPUTarget("cuda", 90, 32)
POINTERS = {
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
}


def kind(value: Any) -> str:
    """An argument's type, as Triton's signatures have it."""
    if value is None:
        return "constexpr"
    if isinstance(value, Tensor):
        return POINTERS[value.dtype]
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def compile_prepared(prepared: Prepared, changing: tuple[Any, ...]) -> None:
    """What the first launch would compile, but for the specialisation of some numbers."""
    names = prepared.kernel.arg_names
    values = dict(zip(names, (*changing, *prepared.fixed), strict=False))
    options = dict(prepared.options)
    constants = {name: options.pop(name) for name in names if name in options}
    params = prepared.kernel.params
    constants |= {param.name: values[param.name] for param in params if param.is_constexpr and param.name in values}
    stated = {param.name: param.annotation_type for param in params}
    signature = {n: "constexpr" if n in constants else stated[n] or kind(values[n]) for n in names}
    constants |= {name: None for name in names if signature[name] == "constexpr" and name not in constants}
    source = ASTSource(fn=prepared.kernel, signature=signature, constexprs=constants)
    triton.compile(source, target=HOPPER, options=options)


def codec_launches(dtype: torch.dtype, d_v: int, d_k: int) -> list[Prepared]:
    """Both directions, for one shape; `lost` with the larger ones."""
    active = torch.empty((2, 3, 2, d_v, d_k), dtype=dtype)
    codes, scales = active.to(torch.int8), torch.empty((2, 3, 2, d_k), dtype=dtype)
    lost = torch.zeros(1, dtype=torch.int32) if d_v > 8 else None
    copies = (QuantizeStore(active, codes, scales, lost), DequantizeLoad(codes, scales, active))
    return [prepared for copy in copies for _, prepared in copy.launches]


def window_launches(dtypes: tuple[torch.dtype, ...]) -> list[Prepared]:
    """Windows of one dtype to the others."""
    source = [torch.empty((2, 3, 4, 5), dtype=dtypes[0]) for _ in dtypes]
    target = [torch.empty((2, 3, 4, 5), dtype=dtype) for dtype in dtypes]
    return [prepared for _, prepared in CopyWindows(source, target).launches]


def whole_launches(dtype: torch.dtype, d_v: int, d_k: int) -> list[Prepared]:
    """Both directions of a state and its windows, which are copied and cast."""
    active, windows = torch.empty((2, 3, 2, d_v, d_k), dtype=dtype), list(torch.empty((2, 2, 3, 4, 5), dtype=dtype))
    codes, scales = active.to(torch.int8), torch.empty((2, 3, 2, d_k), dtype=dtype)
    cached = [windows[0].clone(), windows[1].to(torch.float32)]
    copies = (StoreSlots(active, codes, scales, windows, cached), LoadSlots(codes, scales, active, cached, windows))
    return [prepared for copy in copies for _, prepared in copy.launches]


def far_launches() -> list[Prepared]:
    """States of one row and k-channel, whose strides are wider than 32 bits: they take no step along those."""
    active = torch.empty(6, dtype=torch.bfloat16).as_strided((2, 3, 1, 1, 1), (3, 1, 2**40, 2**40, 2**40))
    codes, scales = active.to(torch.int8).as_strided(active.shape, active.stride()), active.clone()[..., 0, :]
    copies = (QuantizeStore(active, codes, scales), DequantizeLoad(codes, scales, active))
    return [prepared for copy in copies for _, prepared in copy.launches]


def clear_launches() -> list[tuple[Prepared, tuple[Any, ...]]]:
    """Windows that are cleared, of every width, and copied beside it; slots as numbers and as lists."""
    dtypes, slots = (torch.bfloat16, torch.float16, torch.float32), torch.zeros(2, dtype=torch.int64)
    source = [torch.empty((2, 3, 4, 5), dtype=torch.float32) for _ in dtypes]
    target = [torch.empty((2, 3, 4, 5), dtype=dtype) for dtype in dtypes]
    launches = [*ClearWindows([*target, target[0].to(torch.int8)]).launches]
    launches += CopyAndClearWindows(source, target).launches
    return [(prepared, which) for _, prepared in launches for which in ((1, 1, 1, 1, 1), (slots, slots, 2, slots, 2))]


def write_launches() -> list[tuple[Prepared, tuple[Any, ...]]]:
    """Keys and values to pages: copied, cast, and to fp8 with a scale for all heads and one for each; latent rows."""
    found = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2):
        pages = torch.empty((2, 16, 3, 80)).to(dtype)
        write, latent = WriteKV(pages, pages[..., :5].contiguous()), WriteKV(pages.reshape(2, 16, 240))
        scales = (torch.ones(1), torch.ones(3)) if dtype.itemsize == 1 else (None, None)
        keys, values, tokens = torch.empty((4, 3, 80)), torch.empty((4, 3, 5), dtype=torch.bfloat16), torch.arange(4)
        found += [write.plan(keys, values, tokens, *scales)[1:]]
        found += [latent.plan(keys.reshape(4, 240).half(), None, tokens.int())[1:]]
    return found


def page_launches() -> list[tuple[Prepared, tuple[Any, ...]]]:
    """Pages moved and zeroed, in units of every width; tokens of either dtype, aligned or not, of one rank and more."""
    buffer, slots = torch.zeros(2**16, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    table, found = torch.zeros(8, dtype=torch.int32), []
    for size, offset, pages in ((4096, 0, 1), (1000, 0, slots), (4100, 0, 1), (20_000, 2, slots), (16, 1, 1)):
        found.append((MovePages(buffer[offset:], size).prepared, (pages, pages)))
    for sizes, offset in (((4096,), 0), ((20_000, 40, 1000), 4), ((16, 7), 1)):
        found.append((RefreshPages(buffer[offset:], sizes, table).prepared, (slots, 1, 1, 1)))
    for page_size, (ranks, rank) in ((16, (1, None)), (3, (2, None)), (64, (3, 1))):
        translate = TranslateTokens(table, page_size, 9, ranks, rank)
        for dtype, aligned in product((torch.int64, torch.int32), (True, False)):
            found.append((translate.prepared(dtype, aligned), (slots.to(dtype), slots.to(dtype), 2)))
    return found


def main() -> None:
    """Compile all: full tiles with slots as numbers, masked ones with lists of slots. The count goes to the output."""
    formats = (torch.bfloat16, torch.float16, torch.float32)
    slots, count = torch.zeros(2, dtype=torch.int64), 0
    for d_v, d_k, changing in ((16, 128, (1, 1, 1)), (5, 7, (slots, slots, 2)), (600, 48, (slots, slots, 2))):
        launches = [prepared for dtype in formats for prepared in codec_launches(dtype, d_v, d_k)]
        launches += whole_launches(torch.float32 if d_v > 256 else torch.bfloat16, d_v, d_k)
        for prepared in launches + window_launches(formats) + window_launches(formats[::-1]):
            compile_prepared(prepared, changing)
            count += 1
    for prepared in far_launches():
        compile_prepared(prepared, (1, 1, 1))
        count += 1
    for prepared, changing in clear_launches() + write_launches() + page_launches():
        compile_prepared(prepared, changing)
        count += 1
    print("compiled", count)


if __name__ == "__main__":
    main()
