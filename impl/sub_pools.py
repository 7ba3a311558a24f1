"""Which sub-pools share a buffer: what an engine declares, and the page layout and place in the chain that follow.

    chain = resolve([
        KVPages("full", layers=12, kv_heads=2, head_dim=256, dtype="bfloat16", page_size=16, grows="up"),
        StateSlots("state", layers=36, conv_shapes=[(8192, 3)], temporal_shape=(32, 128, 128),
                   conv_dtype="bfloat16", temporal_dtype="bfloat16", grows="down"),
        Checkpoints("checkpoint", of="state", grows="float"),
    ])

A declaration checks its own numbers when it is made, `resolve` what they mean for each other. Where things lie inside a
page is worked out in `poolproof.spec.shapes`. Importing this module imports neither torch nor numpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from operator import index
from typing import Any, ClassVar, Final, Literal, TypeAlias

from poolproof.errors import LayoutError
from poolproof.spec.codec import FORMATS
from poolproof.spec.shapes import (
    ITEM_BYTES,
    PageLayout,
    checkpoint_layout,
    kv_layout,
    latent_layout,
    opaque_layout,
    round_up,
    state_layout,
    with_strides,
)

Grows: TypeAlias = Literal["up", "down", "float"]
"""Where a sub-pool stands: the end at the bottom, the end at the top, or between the two."""

Zero: TypeAlias = Literal["on_handout", "never"]
"""Whether a page's bytes are set to zero when it is handed out."""

Codec: TypeAlias = Literal["int8", "none"]
"""How a checkpoint is stored: quantised, or as a plain copy of the state."""

Dtype: TypeAlias = Any
"""A torch dtype, a numpy dtype or scalar type, or a name such as "bfloat16"; a declaration keeps the name."""

EMPTY_PAGE_BYTES: Final = 4096
"""Bytes of a page without layers, where a page of one layer is not smaller. See `resolve`."""

_CHAIN: Final[tuple[str, ...]] = ("up", "float", "down")
_ZERO: Final[tuple[str, ...]] = ("on_handout", "never")
_CODECS: Final[tuple[str, ...]] = ("int8", "none")


def whole_number(where: str, key: str, value: Any, least: int = 1) -> int:
    """The value as an int.

    Raises:
        LayoutError: it is no integer (a bool is none), or less than `least`.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise LayoutError(f"{where} {key} = {value!r}: it must be a whole number of at least {least}")
    return number


def dtype_name(where: str, key: str, value: Dtype) -> str:
    """The name of a dtype, as `poolproof.spec.shapes.ITEM_BYTES` has it.

    Raises:
        LayoutError: it is no dtype of that table, or has swapped bytes.
    """
    # Torch's dtypes have no name attribute, numpy's do, and numpy's scalar types are classes.
    named = value if isinstance(value, str) else getattr(value, "name", getattr(value, "__name__", str(value)))
    name = str(named).removeprefix("torch.")
    if name not in ITEM_BYTES or not getattr(value, "isnative", True):
        raise LayoutError(f"{where} {key} = {value!r}: it must be one of {', '.join(ITEM_BYTES)}")
    return name


@dataclass(frozen=True)
class Resolved:
    """A sub-pool as the allocator and the views need it.

    Attributes:
        name: of the sub-pool.
        kind: "kv", "mla", "window", "state", "checkpoint" or "pages", as in `poolproof.spec.shapes`.
        chain_index: its place in the chain from byte 0 up: 0 grows up, the last one (if not the only one) down.
        page_bytes: bytes from one page to the next, a multiple of `align` and of the largest element.
        page_size: tokens a page; 1 for slots.
        grows: "up", "down" or "float".
        zeroed: whether a page reads as zeros when it is handed out.
        ids_of: the sub-pool whose ids a window binds pages for; None where the sub-pool owns its ids.
        align: bytes; each page, each tensor of a layer and each of its rows starts at a multiple of it, counted from
            the buffer's first byte.
        layout: what lies where inside a page.
        shapes: the shape of each part of the layout, in elements: for keys (page_size, kv_heads, head_dim).
        dtypes: the name of the dtype of each part.
    """

    name: str
    kind: str
    chain_index: int
    page_bytes: int
    page_size: int
    grows: Grows
    zeroed: bool
    ids_of: str | None
    align: int
    layout: PageLayout
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class _Content:
    """What lies in a page: the layout, and for each of its parts the shape and the dtype."""

    layout: PageLayout
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    page_size: int = 1
    ids_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What every sub-pool states. Declare one of the kinds below.

    Args:
        name: letters, digits, '.', '_' and '-'; no two sub-pools of a buffer share one.
        grows: "up", "down" or "float".
        zero: "on_handout" or "never".
        align: a power of two, in bytes. Tensors and layers are padded to start at multiples of it; rows are not, so
            theirs must be multiples.

    Raises:
        LayoutError: a value is impossible; the message says which, and the remedy.
    """

    kind: ClassVar[str] = ""
    name: str = field(kw_only=False)
    grows: Grows = "float"
    zero: Zero = "on_handout"
    align: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", self.name):
            raise LayoutError(f"a sub-pool's name is {self.name!r}; use letters, digits, '.', '_' and '-'")
        for key, allowed in (("grows", _CHAIN), ("zero", _ZERO)):
            value = getattr(self, key)
            if value not in allowed:
                raise LayoutError(f"{self._where} {key} = {value!r}: it must be one of {', '.join(allowed)}")
        self._whole("align")
        if self.align & (self.align - 1):
            raise LayoutError(f"{self._where} align = {self.align}: it must be a power of two")

    @property
    def _where(self) -> str:
        return f"sub-pool {self.name!r}"

    def _whole(self, *keys: str, least: int = 1) -> None:
        """Check whole numbers, and keep them as plain ints."""
        for key in keys:
            object.__setattr__(self, key, whole_number(self._where, key, getattr(self, key), least))

    def _dtype(self, *keys: str) -> None:
        """Check dtypes, and keep their names."""
        for key in keys:
            object.__setattr__(self, key, dtype_name(self._where, key, getattr(self, key)))

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        raise LayoutError(f"{self._where} is of no kind; declare KVPages, StateSlots or another kind")


@dataclass(frozen=True, kw_only=True)
class _KeysAndValues(Declaration):
    layers: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None
    dtype: Dtype

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.v_head_dim is None:
            object.__setattr__(self, "v_head_dim", self.head_dim)
        self._whole("layers", least=0)
        self._whole("kv_heads", "head_dim", "v_head_dim")
        self._dtype("dtype")

    def _pages(self, page_size: int, ids_of: str | None) -> _Content:
        heads, k_dim, v_dim = self.kv_heads, self.head_dim, self.v_head_dim
        assert v_dim is not None
        layout = kv_layout(self.layers, heads, k_dim, v_dim, ITEM_BYTES[self.dtype], page_size, self.align)
        shapes = ((page_size, heads, k_dim), (page_size, heads, v_dim))
        return _Content(layout, shapes, (self.dtype, self.dtype), page_size, ids_of)


@dataclass(frozen=True, kw_only=True)
class KVPages(_KeysAndValues):
    """Pages of keys and values: for each layer the keys of `page_size` tokens, then their values.

    A page takes layers * page_size * kv_heads * (head_dim + v_head_dim) elements. fp8 caches are declared with their
    own dtype ("float8_e4m3fn", "float8_e5m2"): one byte an element, seen at that dtype.

    Zeroed when handed out, unless `zero` says otherwise: kernels read whole pages, and what they mask with a weight of
    zero must not be an earlier tenant's NaN.

    Args:
        layers: attention layers of this rank and pipeline stage; 0 is legal (see `resolve`).
        kv_heads: key/value heads of this rank.
        head_dim, v_head_dim: elements of a key and of a value; equal where nothing is said.
        dtype: of keys and values.
        page_size: tokens a page.
        name, grows, zero, align: see `Declaration`.

    Raises:
        LayoutError: a value is impossible.
    """

    kind: ClassVar[str] = "kv"
    page_size: int = 1
    grows: Grows = "up"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("page_size")

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        return self._pages(self.page_size, None)


@dataclass(frozen=True, kw_only=True)
class LatentPages(Declaration):
    """Pages of latent attention (MLA): for each layer one row a token, the compressed latent and then the rotary key.

    A page takes layers * page_size * (latent_dim + rope_dim) elements. It is a kind of its own, no face of `KVPages`:
    there is one tensor in the place of two, it has no heads, and tensor parallel ranks hold all of it instead of a
    share, so that no field of the one would mean the same in the other.

    Zeroed when handed out, as `KVPages` are.

    Args:
        layers: latent attention layers of this pipeline stage; 0 is legal (see `resolve`).
        latent_dim: elements of the compressed latent.
        rope_dim: elements of the rotary key; 0 without one.
        dtype: of both.
        page_size: tokens a page.
        name, grows, zero, align: see `Declaration`.

    Raises:
        LayoutError: a value is impossible.
    """

    kind: ClassVar[str] = "mla"
    layers: int
    latent_dim: int
    rope_dim: int
    dtype: Dtype
    page_size: int = 1
    grows: Grows = "up"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("layers", "rope_dim", least=0)
        self._whole("latent_dim", "page_size")
        self._dtype("dtype")

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        item, size = ITEM_BYTES[self.dtype], self.page_size
        layout = latent_layout(self.layers, self.latent_dim, self.rope_dim, item, size, self.align)
        return _Content(layout, ((size, self.latent_dim + self.rope_dim),), (self.dtype,), size)


@dataclass(frozen=True, kw_only=True)
class WindowPages(_KeysAndValues):
    """Pages of sliding window layers. They own no ids: pages are bound for the ids of another sub-pool.

    So a page holds as many tokens as a page of that sub-pool, and has no page size of its own. Otherwise as `KVPages`,
    zeroing included.

    Args:
        ids_of: the KVPages, LatentPages or Pages whose ids it binds pages for.
        layers: sliding window layers of this rank and pipeline stage; 0 is legal (see `resolve`).
        kv_heads, head_dim, v_head_dim, dtype: as for `KVPages`.
        name, grows, zero, align: see `Declaration`.

    Raises:
        LayoutError: a value is impossible.
    """

    kind: ClassVar[str] = "window"
    ids_of: str = "full"
    grows: Grows = "down"

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        owner = others.get(self.ids_of) if isinstance(self.ids_of, str) else None
        if not isinstance(owner, KVPages | LatentPages | Pages):
            found = "there is no such sub-pool" if owner is None else f"it is {type(owner).__name__}"
            remedy = _named(others, KVPages, LatentPages, Pages) or "none: declare KVPages for its ids"
            raise LayoutError(
                f"{self._where} ids_of = {self.ids_of!r}: {found}; a window binds pages for the ids of a sub-pool that "
                f"holds tokens and owns its ids: {remedy}"
            )
        return self._pages(owner.page_size, owner.name)


@dataclass(frozen=True, kw_only=True)
class StateSlots(Declaration):
    """Slots of recurrent state: for each layer the temporal state, then the conv windows. One slot a sequence.

    A slot takes layers * (H * d_v * d_k elements of `temporal_dtype` + the windows' elements of `conv_dtype`).

    Not zeroed, unless `zero` says otherwise: the first step of a sequence starts from zero without reading its slot,
    and a restored checkpoint fills the whole slot.

    Args:
        layers: recurrent layers of this pipeline stage; 0 is legal (see `resolve`).
        conv_shapes: a (channels, kernel - 1) for each conv window of a layer on this rank; [] without any.
        temporal_shape: (H, d_v, d_k) of a layer on this rank; for Mamba-2 (heads, head size, state size).
        conv_dtype, temporal_dtype: of the windows and of the temporal state.
        name, grows, zero, align: see `Declaration`.

    Raises:
        LayoutError: a value is impossible.
    """

    kind: ClassVar[str] = "state"
    layers: int
    conv_shapes: Sequence[tuple[int, int]]
    temporal_shape: tuple[int, int, int]
    conv_dtype: Dtype
    temporal_dtype: Dtype
    grows: Grows = "down"
    zero: Zero = "never"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("layers", least=0)
        where, shapes = self._where, self.conv_shapes
        if not isinstance(shapes, Iterable) or isinstance(shapes, str):
            raise LayoutError(
                f"{where} conv_shapes = {shapes!r}: it must be a list of shapes such as [(8192, 3)], or []"
            )
        windows = tuple(_shape(where, "conv_shapes", shape, "(channels, kernel - 1)") for shape in shapes)
        object.__setattr__(self, "conv_shapes", windows)
        object.__setattr__(
            self, "temporal_shape", _shape(where, "temporal_shape", self.temporal_shape, "(H, d_v, d_k)")
        )
        self._dtype("conv_dtype", "temporal_dtype")

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        items = ITEM_BYTES[self.conv_dtype], ITEM_BYTES[self.temporal_dtype]
        layout = state_layout(self.layers, self.conv_shapes, self.temporal_shape, *items, self.align)
        dtypes = (self.temporal_dtype, *(self.conv_dtype for _ in self.conv_shapes))
        return _Content(layout, (self.temporal_shape, *self.conv_shapes), dtypes)


@dataclass(frozen=True, kw_only=True)
class Checkpoints(Declaration):
    """Slots of cached states: int8 codes, a scale per (layer, head, k-channel), and the conv windows as they are.

    The layout follows from the state's declaration; the scales have its `temporal_dtype`. A slot takes
    layers * (H * d_v * d_k bytes + H * d_k scales + the windows). Without a codec a checkpoint is a plain copy, as
    large as the state. An engine with a format of its own states `bytes` instead of `of`, and sees plain bytes.

    Not zeroed, unless `zero` says otherwise: a donation fills the whole slot.

    Args:
        of: the StateSlots that it holds checkpoints of, by name; "state" where neither `of` nor `bytes` is said. For a
            buffer without those states, such as one of checkpoints alone, their declaration itself.
        bytes: bytes of a slot whose content is not known here.
        codec: "int8", or "none" for plain copies.
        name, grows, zero, align: see `Declaration`.

    Raises:
        LayoutError: a value is impossible, or both `of` and `bytes` are stated.
    """

    kind: ClassVar[str] = "checkpoint"
    of: str | StateSlots | None = None
    bytes: int | None = None
    codec: Codec = "int8"
    zero: Zero = "never"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bytes is not None:
            if self.of is not None:
                raise LayoutError(f"{self._where} of = {self.of!r}, bytes = {self.bytes!r}: state one of the two")
            self._whole("bytes")
        elif self.of is None:
            object.__setattr__(self, "of", "state")
        if self.codec not in _CODECS:
            raise LayoutError(f"{self._where} codec = {self.codec!r}: it must be one of {', '.join(_CODECS)}")

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        if self.bytes is not None:
            return _opaque(self.bytes)
        state = others.get(self.of) if isinstance(self.of, str) else self.of
        if not isinstance(state, StateSlots):
            found = "there is no such sub-pool" if state is None else f"it is {type(state).__name__}"
            remedy = _named(others, StateSlots) or "none: declare StateSlots, or state bytes instead"
            raise LayoutError(f"{self._where} of = {self.of!r}: {found}; it must name StateSlots: {remedy}")
        return self._codes(state) if self.codec == "int8" else self._copies(state)

    def _copies(self, state: StateSlots) -> _Content:
        return replace(state, align=self.align)._content({})

    def _codes(self, state: StateSlots) -> _Content:
        if state.temporal_dtype not in FORMATS:
            raise LayoutError(
                f"{self._where} of = {self.of!r}: its states are {state.temporal_dtype}, and the int8 codec takes "
                f"{', '.join(FORMATS)}; take codec='none', or state bytes for a format of your own"
            )
        heads, _, d_k = state.temporal_shape
        items = ITEM_BYTES[state.conv_dtype], ITEM_BYTES[state.temporal_dtype]
        layout = checkpoint_layout(state.layers, state.conv_shapes, state.temporal_shape, *items, self.align)
        shapes = (state.temporal_shape, (heads, d_k), *state.conv_shapes)
        return _Content(layout, shapes, ("int8", state.temporal_dtype, *(state.conv_dtype for _ in state.conv_shapes)))


@dataclass(frozen=True, kw_only=True)
class Pages(Declaration):
    """Pages of which only the size is known; they are seen as plain bytes.

    Zeroed when handed out, unless `zero` says otherwise: nothing is known of who reads them.

    Args:
        bytes: bytes of a page, a multiple of `align`.
        page_size: tokens a page, where it holds tokens.
        grows: must be stated, for no place in the chain is more likely than another.
        name, zero, align: see `Declaration`.

    Raises:
        LayoutError: a value is impossible.
    """

    kind: ClassVar[str] = "pages"
    grows: Grows
    bytes: int
    page_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("bytes", "page_size")

    def _content(self, others: Mapping[str, Declaration]) -> _Content:
        return replace(_opaque(self.bytes), page_size=self.page_size)


def resolve(declarations: Sequence[Declaration]) -> tuple[Resolved, ...]:
    """The sub-pools of one buffer, in chain order from byte 0: up, floats in the order given, down.

    A sub-pool without layers (a pipeline stage may have none of a kind) keeps its ids and its place in the chain, so
    that all stages make the same calls. Its pages hold nothing, yet a page has bytes: it takes what a page of one layer
    would, at most `EMPTY_PAGE_BYTES` (rounded up to `align`). Still smaller pages would save little, and the tables
    have an entry for each page that the buffer has room for.

    Args:
        declarations: at least one, in any order; exactly one grows up and, where there are several, exactly one down.

    Raises:
        LayoutError: names are doubled, an end is missing or doubled, `ids_of` or `of` name nothing suitable, a stated
            size or a row is no multiple of `align`.
    """
    chain = _chain(declarations)
    others = {declaration.name: declaration for declaration in chain}
    return tuple(_resolved(declaration, place, others) for place, declaration in enumerate(chain))


def _resolved(declaration: Declaration, place: int, others: Mapping[str, Declaration]) -> Resolved:
    content = declaration._content(others)
    layout = content.layout if content.layout.layers else _without_layers(content.layout, declaration.align)
    _check_alignment(declaration, layout)
    return Resolved(
        name=declaration.name,
        kind=declaration.kind,
        chain_index=place,
        page_bytes=layout.page_bytes,
        page_size=content.page_size,
        grows=declaration.grows,
        zeroed=declaration.zero == "on_handout",
        ids_of=content.ids_of,
        align=declaration.align,
        layout=layout,
        shapes=content.shapes,
        dtypes=content.dtypes,
    )


def _chain(declarations: Sequence[Declaration]) -> list[Declaration]:
    listed = list(declarations) if isinstance(declarations, Iterable) else [declarations]
    for declaration in listed:
        if not isinstance(declaration, Declaration):
            raise LayoutError(f"{declaration!r} is no sub-pool; pass a list of KVPages, StateSlots and the like")
    if not listed:
        raise LayoutError("the buffer has no sub-pools; declare at least one, which grows up")
    names = [declaration.name for declaration in listed]
    for name in names:
        if names.count(name) > 1:
            raise LayoutError(f"{names.count(name)} sub-pools are named {name!r}; give each a name of its own")
    _check_ends(listed)
    return sorted(listed, key=lambda declaration: _CHAIN.index(declaration.grows))


def _check_ends(listed: Sequence[Declaration]) -> None:
    for end in ("up", "down") if len(listed) > 1 else ("up",):
        found = [declaration.name for declaration in listed if declaration.grows == end]
        if len(found) > 1:
            raise LayoutError(
                f"{' and '.join(found)} all have grows = {end!r}; exactly one sub-pool of {len(listed)} may: "
                "let the others float"
            )
        if not found:
            free = [d.name for d in listed if d.grows == "float"] or [d.name for d in listed]
            raise LayoutError(
                f"none of {len(listed)} sub-pools has grows = {end!r}; set it on exactly one: {', '.join(free)}"
            )


def _without_layers(layout: PageLayout, align: int) -> PageLayout:
    # Both are powers of two, so the larger one is a multiple of the other.
    step = max(align, *(part.item_bytes for part in layout.parts))
    return with_strides(layout, page_bytes=min(layout.layer_bytes, round_up(EMPTY_PAGE_BYTES, step)))


def _check_alignment(declaration: Declaration, layout: PageLayout) -> None:
    where, align = f"sub-pool {declaration.name!r}", declaration.align
    if layout.page_bytes % align:
        raise LayoutError(
            f"{where} bytes = {layout.page_bytes}: a page must be a multiple of align = {align}; set bytes to "
            f"{round_up(layout.page_bytes, align)}, or align to {gcd(align, layout.page_bytes)}"
        )
    for part in layout.parts:
        if part.rows > 1 and part.row_bytes % align:
            raise LayoutError(
                f"{where} align = {align}: each of the {part.rows} rows of {part.name} takes {part.row_bytes} bytes, "
                f"so not all start at multiples of {align}; set align to {gcd(align, part.row_bytes)}"
            )


def _opaque(page_bytes: int) -> _Content:
    return _Content(opaque_layout(page_bytes), ((page_bytes,),), ("uint8",))


def _shape(where: str, key: str, value: Any, axes: str) -> tuple[int, ...]:
    shape = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    if len(shape) != axes.count(",") + 1:
        raise LayoutError(f"{where} {key}: {value!r} is no shape {axes}")
    return tuple(whole_number(where, f"{key} {axes}", size) for size in shape)


def _named(others: Mapping[str, Declaration], *kinds: type[Declaration]) -> str:
    return ", ".join(name for name, declaration in others.items() if isinstance(declaration, kinds))
