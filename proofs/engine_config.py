"""An engine's own numbers, read from a TOML file: its buffer, its sub-pools or its model, and its kernels' indices.

Every mistake is an `EngineConfigError` that names the key, the value and the remedy. Nothing is guessed: what has no
safe default must be stated.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from poolproof.spec import shapes
from poolproof.spec.models import Model, conv_shapes, kv_heads_on_rank, model_named, temporal_shape
from poolproof.spec.shapes import ITEM_BYTES, Buffer, Index, SubPool

BUFFER: Final = "buffer"
"""The place of claims about the whole buffer, and so no name for a sub-pool."""

MOST: Final = 1 << 62
"""The largest number that is read: what a signed 64-bit counter can hold twice of."""

WIDEST: Final = 128
"""The widest index, in bits."""

_MISSING: Final = object()
_UNITS: Final = {"B": 1} | {f"{p}iB": 1 << 10 * n for n, p in enumerate("KMGT", 1)}
_UNITS_OF_TEN: Final = {f"{p}B": 1000**n for n, p in enumerate("KMGT", 1)}


class EngineConfigError(ValueError):
    """A configuration that says something impossible, unknown or too little."""


class Table:
    """One table of the file. Each key is taken once; what is left over is unknown."""

    def __init__(self, values: Any, where: str) -> None:
        self.where = where
        if not isinstance(values, dict):
            raise EngineConfigError(f"{where} is {values!r}; it must be a table")
        self._left = dict(values)
        self._asked: list[str] = []

    def wrong(self, key: str, value: Any, remedy: str) -> EngineConfigError:
        """An error about one key."""
        return EngineConfigError(f"{self.where} {key} = {value!r}: {remedy}")

    def take(self, key: str, default: Any = _MISSING, remedy: str = "") -> Any:
        """The raw value under a key.

        Raises:
            EngineConfigError: it is missing and has no default.
        """
        self._asked.append(key)
        value = self._left.pop(key, default)
        if value is _MISSING:
            near = get_close_matches(key, self._left, 1)
            meant = f"; {near[0]} is not known, did you mean {key}?" if near else f"; {remedy or 'add it'}"
            raise EngineConfigError(f"{self.where} has no {key}{meant}")
        return value

    def number(self, key: str, default: Any = _MISSING, least: int = 1, remedy: str = "") -> int:
        """A whole number."""
        value = self.take(key, default, remedy or f"add {key} = N, a whole number of at least {least}")
        if value is default:
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(key, value, f"it must be a whole number of at least {least}")
        if value > MOST:
            raise self.wrong(key, _shortened(value), f"it must be at most {MOST} (2^62)")
        return value

    def size(self, key: str, default: Any = _MISSING) -> Any:
        """A number of bytes: a whole number, or text such as "8 GiB"."""
        value = self.take(key, default, f'add {key} in bytes, as a number or as text such as "8 GiB"')
        if value is default:
            return value
        wanted = 'it must be a whole number of bytes of at least 1, or text such as "8 GiB" or "512 MB"'
        found = re.fullmatch(r"(\d{1,24}(?:\.\d{1,24})?)\s*([KMGT]?i?B)", value) if isinstance(value, str) else None
        if found:
            size = Fraction(found[1]) * (_UNITS | _UNITS_OF_TEN).get(found[2], 0)
            value = int(size) if size.denominator == 1 else 0
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(key, _as_written(found, value), wanted)
        if value > MOST:
            raise self.wrong(key, _shortened(value), f"it must be at most {MOST} bytes (2^62)")
        return value

    def text(self, key: str, default: Any = _MISSING, remedy: str = "") -> str:
        """A string that can be part of a claim's name."""
        value = self.take(key, default, remedy)
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", value):
            raise self.wrong(key, value, "it must be text of letters, digits, '.', '_' and '-'")
        return value

    def choice(self, key: str, allowed: Mapping[str, Any] | tuple[str, ...], default: Any = _MISSING) -> str:
        """One of a few words."""
        value = self.take(key, default, f"add one of {', '.join(allowed)}")
        if not isinstance(value, str) or value not in allowed:
            raise self.wrong(key, value, f"it must be one of {', '.join(allowed)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, value, "it must be true or false")
        return value

    def numbers(self, key: str, length: int | None = None, default: Any = _MISSING) -> tuple[int, ...]:
        """A list of positive whole numbers."""
        value = self.take(key, default, f"add {key} = [...]")
        if value is default:
            return tuple(value)
        if not _are_positive(value) or (length is not None and len(value) != length):
            many = "" if length is None else f"{length} "
            raise self.wrong(key, value, f"it must be a list of {many}positive whole numbers")
        if max(value) > MOST:
            raise self.wrong(key, _shortened(max(value)), f"it must hold numbers of at most {MOST} (2^62)")
        return tuple(value)

    def finish(self) -> None:
        """Every key must have been asked for.

        Raises:
            EngineConfigError: one is unknown.
        """
        for key in self._left:
            near = get_close_matches(key, self._asked, 1)
            meant = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(set(self._asked)))}"
            raise EngineConfigError(f"{self.where} {key} = {self._left[key]!r} is not known; {meant}")


def _shortened(value: int) -> str:
    """A number that is too large, as far as one wants to read it."""
    return f"a number of {value.bit_length()} bits"


def _as_written(found: re.Match[str] | None, value: Any) -> Any:
    return found[0] if found else value


def _are_positive(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in value)
    )


def read_engine(path: Path) -> Buffer:
    """The engine that a file describes.

    Raises:
        EngineConfigError: it is not TOML, or says something wrong.
        OSError: it cannot be read.
    """
    try:
        data = tomllib.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as problem:  # also numbers or nesting beyond what Python reads
        raise EngineConfigError(f"{path} is not TOML: {problem}") from None
    engine = engine_of(data, str(path))
    if not any(engine.demand(engine.max_context)):
        raise EngineConfigError(f"{path}: a request takes no page of any sub-pool; state pages_per_request or slots")
    return engine


def engine_of(data: Mapping[str, Any], source: str = "engine.toml") -> Buffer:
    """The engine that parsed TOML describes.

    Raises:
        EngineConfigError: it says something wrong.
    """
    top = Table(dict(data), source)
    head = Table(top.take("engine", remedy="add an [engine] table with name, total_bytes and index"), "[engine]")
    listed = top.take("sub_pool", [])
    top.finish()
    if not isinstance(listed, list):
        raise EngineConfigError("sub_pool must be an array of tables: write [[sub_pool]]")
    name, total = head.text("name", remedy="add a name; claims begin with it"), head.size("total_bytes")
    reader = _Reader(head)
    for number, values in enumerate(listed, 1):
        reader.add(values, f"[[sub_pool]] {number}")
    context = head.number(
        "max_context",
        reader.model.positions if reader.model else _MISSING,
        remedy="add the longest request in tokens: it is what the buffer must be able to hold",
    )
    step = head.number("max_step_tokens", context)
    engine = Buffer(
        name=name,
        total_bytes=total,
        alignment=head.number("alignment", 16),
        max_context=context,
        step_tokens=min(step, context),
        max_requests=head.number("max_requests", 1),
        sub_pools=_chain(reader.sub_pools),
    )
    head.finish()
    return engine


def _chain(sub_pools: list[SubPool]) -> tuple[SubPool, ...]:
    """The sub-pools from byte 0 to the top: the end that grows up, the floats as listed, the end that grows down."""
    if not sub_pools:
        raise EngineConfigError("the engine has no sub-pools; add [[sub_pool]] tables, or model = NAME to [engine]")
    names = [sub_pool.name for sub_pool in sub_pools]
    for sub_pool in sub_pools:
        if names.count(sub_pool.name) > 1:
            raise EngineConfigError(f"two sub-pools are named {sub_pool.name!r}; give each a name of its own")
        if sub_pool.ids_of:
            _check_pairing(sub_pool, {other.name: other for other in sub_pools})
    ends = {grows: [s.name for s in sub_pools if s.grows == grows] for grows in ("up", "down")}
    for grows, found in ends.items():
        if len(found) > 1:
            raise EngineConfigError(
                f"{' and '.join(found)} both have grows = {grows!r}; one sub-pool may: let the others float"
            )
    return tuple(sorted(sub_pools, key=lambda sub_pool: ("up", "float", "down").index(sub_pool.grows)))


def _check_pairing(window: SubPool, others: Mapping[str, SubPool]) -> None:
    full = others.get(window.ids_of)
    if full is None or full.window or not full.page_size:
        kv = [other.name for other in others.values() if other.page_size and not other.window]
        raise EngineConfigError(
            f"sub-pool {window.name!r} ids_of = {window.ids_of!r}: it must name a kv or mla sub-pool: {', '.join(kv)}"
        )
    if full.page_size != window.page_size:
        raise EngineConfigError(
            f"sub-pool {window.name!r} has page_size {window.page_size}, {full.name!r} has {full.page_size}; a window "
            "binds pages for the other's ids, so the two must be equal"
        )


@dataclass(frozen=True)
class _State:
    """What a checkpoint sub-pool takes over from the states that it holds checkpoints of."""

    layers: int
    conv_shapes: list[tuple[int, ...]]
    temporal_shape: tuple[int, int, int]
    conv_dtype: str
    temporal_dtype: str


def _triple(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    first, second, third = numbers
    return first, second, third


class _Reader:
    """Makes sub-pools from a model and from tables, with what `[engine]` says for all of them."""

    def __init__(self, head: Table) -> None:
        self.head = head
        self.sub_pools: list[SubPool] = []
        self.states: dict[str, _State] = {}
        index = head.take("index", None)
        self.index = None if index is None else _index(index, "[engine] index")
        self.page_size = head.number("page_size", 0)
        name = head.take("model", None)
        self.model = None if name is None else model_named(str(name))
        if self.model is not None:
            self._from_model(self.model)

    def add(self, values: Any, where: str) -> None:
        """Read one sub-pool."""
        table = Table(values, where)
        name = table.text("name", remedy="add a name; claims speak of it")
        table.where = f"sub-pool {name!r}"
        if name == BUFFER:
            raise table.wrong("name", name, "claims about the whole buffer are named so; choose another")
        kind = table.choice("kind", tuple(_KINDS))
        _KINDS[kind](self, table, name, kind)
        table.finish()

    # ------------------------------------------------------------------------------------------------------- kinds

    def _keep(self, table: Table, name: str, kind: str, layout: shapes.PageLayout, **more: Any) -> None:
        stated = shapes.with_strides(layout, table.size("layer_bytes", None), table.size("page_bytes", None))
        index = table.take("index", None)
        found = self.index if index is None else _index(index, f"{table.where} index")
        if found is None:
            raise EngineConfigError(
                f"{table.where} has no index; say with which integer the kernels address it, for example "
                'index = { bits = 32, signed = true, unit = "elements" }, here or once in [engine]'
            )
        grows = table.choice("grows", ("up", "down", "float"))
        self.sub_pools.append(SubPool(name, kind, grows, stated, found, **more))

    def _page_size(self, table: Table) -> int:
        if self.page_size:
            return table.number("page_size", self.page_size)
        return table.number("page_size", remedy="add the tokens of a page, here or once in [engine]")

    def _kv(self, table: Table, name: str, kind: str) -> None:
        page_size, head_dim = self._page_size(table), table.number("head_dim")
        layout = shapes.kv_layout(
            table.number("layers"),
            table.number("kv_heads"),
            head_dim,
            table.number("v_head_dim", head_dim),
            ITEM_BYTES[table.choice("dtype", ITEM_BYTES)],
            page_size,
            table.number("pad_to", 1),
        )
        if kind == "window":
            window, ids_of = table.number("window"), table.text("ids_of", remedy="name the sub-pool whose ids it binds")
            self._keep(table, name, kind, layout, page_size=page_size, window=window, ids_of=ids_of)
        else:
            self._keep(table, name, kind, layout, page_size=page_size)

    def _mla(self, table: Table, name: str, kind: str) -> None:
        page_size = self._page_size(table)
        layout = shapes.latent_layout(
            table.number("layers"),
            table.number("latent_dim"),
            table.number("rope_dim", 0, least=0),
            ITEM_BYTES[table.choice("dtype", ITEM_BYTES)],
            page_size,
            table.number("pad_to", 1),
        )
        self._keep(table, name, kind, layout, page_size=page_size)

    def _state(self, table: Table, name: str, kind: str) -> None:
        state = _State(
            table.number("layers"),
            _conv_shapes(table),
            _triple(table.numbers("temporal_shape", 3)),
            table.choice("conv_dtype", ITEM_BYTES),
            table.choice("temporal_dtype", ITEM_BYTES),
        )
        self.states[name] = state
        layout = shapes.state_layout(
            state.layers,
            state.conv_shapes,
            state.temporal_shape,
            ITEM_BYTES[state.conv_dtype],
            ITEM_BYTES[state.temporal_dtype],
            table.number("pad_to", 1),
        )
        self._keep(table, name, kind, layout, per_request=table.number("slots_per_request", 1))

    def _checkpoint(self, table: Table, name: str, kind: str) -> None:
        of = table.text("of", remedy="name the state sub-pool that it holds checkpoints of")
        if of not in self.states:
            known = ", ".join(self.states) or "none: list the state sub-pool first"
            raise table.wrong("of", of, f"it must name a state sub-pool: {known}")
        state = self.states[of]
        layout = shapes.checkpoint_layout(
            state.layers,
            state.conv_shapes,
            state.temporal_shape,
            ITEM_BYTES[state.conv_dtype],
            ITEM_BYTES[table.choice("scale_dtype", ITEM_BYTES, state.temporal_dtype)],
            table.number("pad_to", 1),
        )
        self._keep(table, name, kind, layout, per_request=table.number("slots_per_request", 1, least=0))

    def _pages(self, table: Table, name: str, kind: str) -> None:
        layout = shapes.opaque_layout(table.size("page_bytes"))
        self._keep(table, name, kind, layout, per_request=table.number("pages_per_request", least=0))

    # ------------------------------------------------------------------------------------------------------- a model

    def _from_model(self, model: Model) -> None:
        """The sub-pools of one rank of a shipped model: full, then window, checkpoint and state where it has them."""
        head = self.head
        tp = head.number("tp", 1)
        first, end = _stage(head, model)
        full, windows, linear = (model.count(letters, first, end) for letters in ("FB", "W", "LB"))
        dtype = head.choice("dtype", ITEM_BYTES, model.dtype)
        token = {"dtype": dtype, "page_size": self._page_size(head)}
        if model.latent_dim:
            keys = {"latent_dim": model.latent_dim, "rope_dim": model.rope_dim, **token}
        else:
            keys = {"kv_heads": kv_heads_on_rank(model, tp), "head_dim": model.head_dim, **token}
        kind = "mla" if model.latent_dim else "kv"
        if full:
            self.add({"name": "full", "kind": kind, "grows": "up", "layers": full, **keys}, "the model's full")
        if windows:
            if not full:
                raise head.wrong("model", model.name, "this stage has windows but no full layers; state its sub-pools")
            more = {"window": model.window, "ids_of": "full", "layers": windows, "grows": "down"}
            self.add({"name": "window", "kind": "window", **more, **keys}, "the model's window")
        if model.linear is not None:
            state = {
                "layers": linear,
                "conv_shapes": [list(shape) for shape in conv_shapes(model.linear, tp)],
                "temporal_shape": list(temporal_shape(model.linear, tp)),
                "conv_dtype": head.choice("conv_dtype", ITEM_BYTES, model.dtype),
                "temporal_dtype": head.choice("temporal_dtype", ITEM_BYTES, model.temporal_dtype),
                "slots_per_request": head.number("slots_per_request", 1),
            }
            checkpoints = head.flag("checkpoints", False)
            if linear:
                self.add({"name": "state", "kind": "state", "grows": "down", **state}, "the model's state")
            if linear and checkpoints:
                more = {"of": "state", "grows": "float"}
                self.add({"name": "checkpoint", "kind": "checkpoint", **more}, "the model's checkpoint")


_KINDS: Final[dict[str, Callable[[_Reader, Table, str, str], None]]] = {
    "kv": _Reader._kv,
    "mla": _Reader._mla,
    "window": _Reader._kv,
    "state": _Reader._state,
    "checkpoint": _Reader._checkpoint,
    "pages": _Reader._pages,
}


def _index(values: Any, where: str) -> Index:
    table = Table(values, where)
    bits = table.number("bits", least=8)
    if bits > WIDEST:
        raise table.wrong("bits", bits, f"it must be at most {WIDEST}")
    index = Index(
        bits=bits,
        signed=table.flag("signed", True),
        unit=table.choice("unit", ("elements", "bytes")),
        base=table.choice("base", ("buffer", "view"), "buffer"),
    )
    table.finish()
    return index


def _conv_shapes(table: Table) -> list[tuple[int, ...]]:
    value = table.take("conv_shapes", remedy="add one [channels, kernel - 1] a conv window, or [] without any")
    if not isinstance(value, list) or not all(_are_positive(shape) for shape in value):
        raise table.wrong("conv_shapes", value, "it must be a list of shapes such as [[8192, 3]]")
    return [tuple(shape) for shape in value]


def _stage(head: Table, model: Model) -> tuple[int, int]:
    """The layers [first, end) of this pipeline stage."""
    layers, pp = len(model.pattern), head.number("pp", 1)
    rank = head.number("pp_rank", 0 if pp == 1 else _MISSING, least=0, remedy="say which stage this is, from 0")
    if rank >= pp:
        raise head.wrong("pp_rank", rank, f"pp = {pp}, so it must be less than {pp}")
    even = [layers // pp] * pp if layers % pp == 0 else _MISSING
    split = head.numbers("pp_partition", None, even if even is not _MISSING else ())
    if len(split) != pp or sum(split) != layers:
        raise EngineConfigError(
            f"[engine] pp = {pp}: {model.name} has {layers} layers; add pp_partition = [...], the layers of each of "
            f"the {pp} stages, which add up to {layers}"
        )
    return sum(split[:rank]), sum(split[: rank + 1])
