"""Call SGLang's int8 checkpoints as a list of calls says: `PEER_PYTHON sglang_checkpoint_worker.py [FILE]`.

Runs under the peer's own python (README.md says how to make it) and imports nothing of ours. FILE, or stdin where it is
`-` or missing, holds one JSON object; one goes to stdout:

    {"runs": [{"setup": SETUP, "calls": [CALL, ...]}, ...]}   ->   {"versions": {...}, "replies": [[REPLY, ...], ...]}

`Driver` makes the same calls on any module that has the peer's names: what a test compares is two runs of it. The peer
is `MambaSlotAllocator`, `Int8CheckpointStore`, `MambaCheckpointPool` and `maybe_init_int8_mamba_checkpoint_pool` of
`sglang.srt.mem_cache`, version 0.5.23, on CPU tensors: all of it is plain torch, so nothing stands in for a kernel. One
SUBSTITUTE: the engine's settings are not published by a server, but handed to the factory in place of `get_exec`.

SETUP says sizes: `active` and `checkpoints` (slots), `layers`, `heads`, `d_v`, `d_k`, `conv` (shapes), `dtype`,
`conv_dtype`. A driver has two allocators, "active" and "checkpoint"; an active pool; a `MambaCheckpointPool`; and a
bare `Int8CheckpointStore` of as many slots. CALL is `{"op": NAME, ...}`: the methods of `Driver` say what each takes.
Members that any call may have:

    as        the tensor of ids that comes back is kept under this name
    undo      the call should change nothing: the reply says whether it did, and what it did is undone
    fallback  another call, made where this one raises an error
    thread    the call is made from a second thread

SLOTS name ids by what was handed out, since two allocators choose different ones:

    {"of": [[name, place], ...]}           ids of kept tensors, as a fresh tensor, or as "form" says: "list", "int32",
                                           "float", "bool", "mask", "scalar", "number", "table" (two axes)
    {"view": [name, place]}                one, as the view that engines make: ids[place].unsqueeze(0)
    {"raw": [number, ...]}                 ids as they are, with "form" as above

REPLY has `value`, `error` (the name of its type, or null), `changed` (of calls with `undo`) and `available` (slots free
of either allocator). Tensors are `{"dtype", "shape", "hex"}`.
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch

Json = dict[str, Any]
BOTH = ("active", "checkpoint")


def as_json(value: Any) -> Any:
    """Tensors as dtype, shape and bytes; everything else as it is."""
    if isinstance(value, torch.Tensor):
        flat = value.contiguous().view(-1).view(torch.uint8) if value.numel() else torch.empty(0, dtype=torch.uint8)
        name = str(value.dtype).removeprefix("torch.")
        return {"dtype": name, "shape": list(value.shape), "hex": bytes(flat.tolist()).hex()}
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, list | tuple) else value


def state_of(spec: Json, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A state (..., d_v, d_k) from a seed: the same numbers wherever this runs.

    Kinds: "normal"; "wide", channels of very different sizes; "large", up to the largest number, which is in it;
    "small", down to the least; "zero", half of the channels are zeros; "lost", some channels hold a NaN or an infinity.
    """
    kind, draw = spec["kind"], random.Random(spec["seed"])
    count = torch.Size(shape).numel()
    state = torch.tensor([draw.gauss(0, 1) for _ in range(count)], dtype=torch.float64).view(shape)
    channels = (*shape[:-2], 1, shape[-1])
    limits = torch.finfo(dtype)

    def each(low: float, high: float) -> torch.Tensor:
        numbers = [draw.uniform(low, high) for _ in range(torch.Size(channels).numel())]
        return torch.tensor(numbers, dtype=torch.float64).view(channels)

    if kind == "wide":
        state = state * 2.0 ** (each(-10, 12) if dtype == torch.float16 else each(-40, 40))
    elif kind == "large":
        state = (state / state.abs().amax(-2, keepdim=True)) * limits.max * 2.0 ** -each(0, 3).floor().clamp(0, 2)
    elif kind == "small":
        state = state * 10.0 ** (each(-9, -3) if dtype == torch.float16 else each(-44, -6))
    elif kind == "zero":
        state = state * (each(0, 1) < 0.5)
    elif kind == "lost":
        bad = torch.tensor([draw.choice([0, 0, torch.inf, -torch.inf, torch.nan]) for _ in range(shape[-1])])
        state[..., draw.randrange(shape[-2]), :] += bad
    return state.clamp(-limits.max, limits.max).to(dtype) if kind == "large" else state.to(dtype)


class Driver:
    """Makes calls on the classes of one module.

    Args:
        names: has `MambaSlotAllocator`, `Int8CheckpointStore`, `MambaCheckpointPool` and
            `maybe_init_int8_mamba_checkpoint_pool`.
        setup: sizes and dtypes.
        with_settings: makes an engine's settings, or None for none, those that the factory finds in a block.
        reset: puts the free slots of an allocator back to what they were; None where no refused call changes them.
    """

    def __init__(self, names: Any, setup: Json, with_settings: Any, reset: Callable[[Any, Any], None] | None) -> None:
        self.names, self.setup, self.with_settings, self.reset = names, setup, with_settings, reset
        self.dtype = getattr(torch, setup["dtype"])
        self.kept: dict[str, Any] = {}
        self.pool = names.MambaCheckpointPool(**self.arguments(setup["checkpoints"]), device="cpu")
        self.slots = {
            "active": names.MambaSlotAllocator(size=setup["active"], device="cpu"),
            "checkpoint": self.pool.allocator,
        }
        self.store = names.Int8CheckpointStore(**self.sizes(), num_slots=setup["checkpoints"] + 1, device="cpu")
        if self.dtype != torch.bfloat16:  # the default is a part of what is compared
            self.store = names.Int8CheckpointStore(
                **self.sizes(), num_slots=setup["checkpoints"] + 1, device="cpu", scale_dtype=self.dtype
            )
        self.active = self.active_pool(setup["conv"])

    # ------------------------------------------------------------------------------------------------------- arguments

    def sizes(self) -> Json:
        """As the constructors name them."""
        names = {"num_layers": "layers", "num_heads": "heads", "head_v_dim": "d_v", "head_k_dim": "d_k"}
        return {name: self.setup[key] for name, key in names.items()}

    def arguments(self, slots: int, **more: Any) -> Json:
        """Of a `MambaCheckpointPool`."""
        dtypes = {"conv_dtype": getattr(torch, self.setup["conv_dtype"]), "temporal_dtype": self.dtype}
        shapes = [tuple(shape) for shape in self.setup["conv"]]
        return {**self.sizes(), "num_slots": slots, "conv_shapes": shapes, **dtypes, **more}

    def active_pool(self, shapes: list[list[int]]) -> SimpleNamespace:
        """What has the attributes of an engine's pool: zeros, slot 0 on top."""
        first = self.setup["layers"], self.setup["active"] + 1
        dtype = getattr(torch, self.setup["conv_dtype"])
        temporal = torch.zeros(*first, *self.state_shape()[1:], dtype=self.dtype)
        conv = [torch.zeros(*first, *shape, dtype=dtype) for shape in shapes]
        return SimpleNamespace(mamba_cache=SimpleNamespace(temporal=temporal, conv=conv))

    def state_shape(self) -> tuple[int, ...]:
        """Of one state: layers, heads, d_v, d_k."""
        return tuple(self.setup[key] for key in ("layers", "heads", "d_v", "d_k"))

    def ids(self, slots: Json) -> Any:
        """SLOTS as an argument."""
        if "view" in slots:
            name, place = slots["view"]
            return self.kept[name][place].unsqueeze(0)
        if "raw" in slots:
            ids = torch.tensor(slots["raw"], dtype=torch.int64)
        else:
            parts = [self.kept[name][place].reshape(1) for name, place in slots["of"]]
            ids = torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)
        return self.formed(ids, slots.get("form"))

    def formed(self, ids: torch.Tensor, form: str | None) -> Any:
        """Ids in another form."""
        forms: dict[str | None, Callable[[], Any]] = {
            None: lambda: ids,
            "list": ids.tolist,
            "int32": lambda: ids.to(torch.int32),
            "float": ids.float,
            "bool": lambda: ids > 0,
            "mask": lambda: torch.isin(torch.arange(self.setup["checkpoints"] + 1), ids),
            "scalar": lambda: ids[0],
            "number": lambda: int(ids[0]),
            "table": lambda: ids.view(1, -1),
        }
        return forms[form]()

    # ------------------------------------------------------------------------------------------------------- the calls

    def run(self, calls: list[Json]) -> list[Json]:
        """The reply to each call."""
        return [self.reply(call) for call in calls]

    def reply(self, call: Json) -> Json:
        """Make one call."""
        keep = self.everything() if call.get("undo") else None
        reply: Json = {"value": None, "error": None, "message": ""}
        self.attempt(call, reply)
        if keep is not None:
            reply["changed"] = self.undo(keep)
        if reply["error"] and "fallback" in call:
            self.attempt(call["fallback"], {})
        reply["available"] = [self.slots[name].available_size() for name in BOTH]
        return reply

    def attempt(self, call: Json, reply: Json) -> None:
        """Make a call, from another thread if it says so; note what came of it."""

        def work() -> None:
            try:
                value = getattr(self, f"op_{call['op']}")(call)
                if "as" in call and value is not None:
                    self.kept[call["as"]] = value
                reply["value"] = as_json(value)
            except Exception as error:
                reply["error"], reply["message"] = type(error).__name__, str(error)

        if call.get("thread"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()

    def bytes(self) -> list[torch.Tensor]:
        """All tensors that a call may write."""
        cache = self.active.mamba_cache
        temporal = self.pool.temporal
        both = [temporal.qdata, temporal.scale, self.store.qdata, self.store.scale]
        return [*both, *self.pool.conv, cache.temporal, *cache.conv]

    def everything(self) -> tuple[list[Any], list[torch.Tensor]]:
        """A copy of all that a call may change."""
        free = [(self.slots[name].free_slots.clone(), copy.copy(self.iterator(name))) for name in BOTH]
        return free, [each.clone() for each in self.bytes()]

    def iterator(self, name: str) -> Any:
        """What is left of the peer's group; nothing of another allocator."""
        return getattr(self.slots[name], "_alloc_iter", None)

    def undo(self, keep: tuple[list[Any], list[torch.Tensor]]) -> bool:
        """Everything is as it was again; whether anything was not."""
        free, tensors = keep
        changed = False
        for name, (ids, _) in zip(BOTH, free, strict=True):
            changed |= not torch.equal(self.slots[name].free_slots, ids)
        for now, before in zip(self.bytes(), tensors, strict=True):
            if not torch.equal(now.view(torch.uint8), before.view(torch.uint8)):
                changed = True
                now.copy_(before)
        for name, saved in zip(BOTH, free, strict=True):
            if self.reset is not None:
                self.reset(self.slots[name], saved)
        return changed

    # ------------------------------------------------------------------------------------------------ slots, one an op

    def op_alloc(self, call: Json) -> Any:
        """`n` slots `on` an allocator; through the checkpoint pool where `through` says "pool"."""
        if call.get("through") == "pool":
            return self.pool.alloc(call["n"]) if "n" in call else self.pool.alloc()
        return self.slots[call["on"]].alloc(call["n"])

    def op_free(self, call: Json) -> Any:
        """`slots` `on` an allocator, or through the checkpoint pool."""
        home = self.pool if call.get("through") == "pool" else self.slots[call["on"]]
        return home.free(self.ids(call["slots"]))

    def op_clear(self, call: Json) -> Any:
        """An allocator, or the checkpoint pool."""
        return (self.pool if call.get("through") == "pool" else self.slots[call["on"]]).clear()

    def op_group_begin(self, call: Json) -> Any:
        """For `n` slots `on` an allocator."""
        return self.slots[call["on"]].alloc_group_begin(call["n"])

    def op_group_end(self, call: Json) -> Any:
        """`on` an allocator."""
        return self.slots[call["on"]].alloc_group_end()

    def op_look(self, call: Json) -> Any:
        """What an allocator says of itself."""
        slots = self.slots[call["on"]]
        planned = slots.schedulable_available_size()
        return {"size": slots.size, "device": str(slots.device), "planned": planned, "free": slots.free_slots}

    def op_write_free_slots(self, call: Json) -> Any:
        """Write to the list of free slots that an allocator shows."""
        self.slots[call["on"]].free_slots.fill_(0)

    def op_make_slots(self, call: Json) -> Any:
        """An allocator of `size` slots; how many are free."""
        return self.names.MambaSlotAllocator(size=call["size"], device="cpu").available_size()

    # ------------------------------------------------------------------------------------------------ bytes, one an op

    def op_fill(self, call: Json) -> Any:
        """The active `slots` get states of `specs`, and windows from the same seeds."""
        cache = self.active.mamba_cache
        for slot, spec in zip(self.ids(call["slots"]).tolist(), call["specs"], strict=True):
            cache.temporal[:, slot] = state_of(spec, self.state_shape(), self.dtype)
            for window in cache.conv:
                shape = (window.shape[0], *window.shape[2:])
                window[:, slot] = state_of({**spec, "kind": "normal"}, shape, window.dtype)

    def op_store(self, call: Json) -> Any:
        """`store_from_active`; with `conv` from other conv tensors, with the dtype `windows` from cast ones."""
        pool = self.active_pool(call["conv"]) if "conv" in call else self.active
        if "windows" in call:
            cache = self.active.mamba_cache
            cast = [window.to(getattr(torch, call["windows"])) for window in cache.conv]
            pool = SimpleNamespace(mamba_cache=SimpleNamespace(temporal=cache.temporal, conv=cast))
        return self.pool.store_from_active(pool, self.ids(call["active"]), self.ids(call["checkpoint"]))

    def op_load(self, call: Json) -> Any:
        """`load_to_active`; what was in the store, and what is in the pool then."""
        source, target = self.ids(call["checkpoint"]), self.ids(call["active"])
        self.pool.load_to_active(self.active, source, target)
        cache, temporal = self.active.mamba_cache, self.pool.temporal
        if not isinstance(source, torch.Tensor) or source.dim() != 1 or call.get("undo"):
            return None
        source, target = source.long(), target.long()
        return {
            "codes": temporal.qdata[:, source],
            "scale": temporal.scale[:, source],
            "loaded": cache.temporal[:, target],
            "conv": [window[:, target] for window in cache.conv],
        }

    def op_put(self, call: Json) -> Any:
        """`Int8CheckpointStore.store` of states of `specs`, in `dtype` where it is another, one a slot or `alone`."""
        dtype = getattr(torch, call.get("dtype", self.setup["dtype"]))
        states = torch.stack([state_of(spec, self.state_shape(), dtype) for spec in call["specs"]], 1)
        return self.store.store(self.ids(call["slots"]), states[:, 0] if call.get("alone") else states)

    def op_get(self, call: Json) -> Any:
        """`Int8CheckpointStore.load` in dtype `out`, and what was in the store."""
        slots = self.ids(call["slots"])
        loaded = self.store.load(slots, getattr(torch, call["out"]))
        if call.get("undo"):
            return None
        return {"codes": self.store.qdata[:, slots], "scale": self.store.scale[:, slots], "loaded": loaded}

    def op_copy(self, call: Json) -> Any:
        """`store_from_pool` of states of `specs`, then `copy_to_pool` into a pool of dtype `out`; what came back."""
        temporal = torch.zeros_like(self.active.mamba_cache.temporal)
        slots, places = self.ids(call["slots"]), torch.arange(1, len(call["specs"]) + 1)
        for place, spec in zip(places.tolist(), call["specs"], strict=True):
            temporal[:, place] = state_of(spec, self.state_shape(), self.dtype)
        self.store.store_from_pool(temporal, places, slots)
        back = torch.zeros(temporal.shape, dtype=getattr(torch, call["out"]))
        self.store.copy_to_pool(back, slots, places)
        codes, scale = self.store.qdata[:, slots], self.store.scale[:, slots]
        return {"codes": codes, "scale": scale, "loaded": back[:, places]}

    def op_quantize(self, call: Json) -> Any:
        """`quantize` of one state of `spec`, `shape` and `dtype`, then `dequantize` in `out`."""
        state = state_of(call["spec"], tuple(call["shape"]), getattr(torch, call["dtype"]))
        codes, scale = self.names.Int8CheckpointStore.quantize(state)
        loaded = self.names.Int8CheckpointStore.dequantize(codes, scale, getattr(torch, call["out"]))
        return {"codes": codes, "scale": scale, "loaded": loaded}

    # -------------------------------------------------------------------------------------- sizes and making, one an op

    def op_surface(self, call: Json) -> Any:
        """Every public name of the classes, and of the factory, with its parameters; null for attributes."""
        kinds = {"MambaSlotAllocator": self.slots["active"], "MambaCheckpointPool": self.pool}
        found = {"Int8CheckpointStore": public(self.store), **{name: public(each) for name, each in kinds.items()}}
        factory = self.names.maybe_init_int8_mamba_checkpoint_pool
        return {**found, "maybe_init_int8_mamba_checkpoint_pool": {"__call__": parameters(factory)}}

    def op_sizes(self, call: Json) -> Any:
        """What the pool and the stores say of themselves."""
        pool, store, arguments = self.pool, self.store, self.arguments(call["slots"])
        return {
            "estimate": self.names.MambaCheckpointPool.estimate_mem_usage_bytes(**arguments),
            "pool": [pool.num_slots, str(pool.device), pool.mem_usage_bytes(), pool.available_size()],
            "parts": [pool.temporal.num_slots, pool.allocator.size, *(list(each.shape) for each in pool.conv)],
            "store": [store.num_layers, store.num_slots, store.H, store.d_v, store.d_k, str(store.device), store.QMAX],
            "bytes": [store.mem_usage_bytes(), store.bytes_per_slot()],
            "tensors": [[str(each.dtype), list(each.shape)] for each in (store.qdata, store.scale)],
        }

    def op_make_pool(self, call: Json) -> Any:
        """A pool of `slots` with other `conv` shapes or `conv_dtype`; its bytes."""
        more: Json = {}
        if "conv" in call:
            more["conv_shapes"] = [tuple(shape) for shape in call["conv"]]
        if "conv_dtype" in call:
            more["conv_dtype"] = getattr(torch, call["conv_dtype"])
        pool = self.names.MambaCheckpointPool(**{**self.arguments(call["slots"]), **more}, device="cpu")
        return pool.mem_usage_bytes()

    def op_factory(self, call: Json) -> Any:
        """The opt-in with `settings` (null: none) beside `active` slots; with `free` bytes on a device, where given."""
        shape = SimpleNamespace(temporal=self.state_shape()[1:], conv=[tuple(each) for each in self.setup["conv"]])
        dtype = SimpleNamespace(temporal=self.dtype, conv=getattr(torch, self.setup["conv_dtype"]))
        settings = None if call["settings"] is None else SimpleNamespace(**call["settings"])
        with self.with_settings(settings), free_bytes(call.get("free")), levels() as logged:
            pool = self.names.maybe_init_int8_mamba_checkpoint_pool(
                mamba_size=call["active"],
                cache_params=SimpleNamespace(shape=shape, dtype=dtype),
                mamba_layer_ids=list(range(self.setup["layers"])),
                device="cuda" if "free" in call else "cpu",
            )
        if pool is None:
            return {"slots": None, "logged": logged}
        return {"slots": pool.num_slots, "bytes": pool.mem_usage_bytes(), "logged": logged}


def public(thing: Any) -> Json:
    """The public names of an object, and how its class is made."""
    names = [name for name in dir(thing) if not name.startswith("_")]
    found = {name: getattr(thing, name) for name in names}
    methods = {name: parameters(value) if callable(value) else None for name, value in found.items()}
    return {"__init__": parameters(type(thing)), **methods}


def parameters(function: Any) -> list[list[Any]]:
    """Name, kind and default, as text, of each parameter."""
    given = inspect.signature(function).parameters.values()
    return [[each.name, each.kind.name, None if each.default is each.empty else str(each.default)] for each in given]


@contextmanager
def levels() -> Iterator[list[str]]:
    """The levels of what is logged in a block."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.levelname)  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield found
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@contextmanager
def free_bytes(free: int | None) -> Iterator[None]:
    """A device that says that it has so many bytes free."""
    plain = torch.cuda.mem_get_info
    if free is not None:
        torch.cuda.mem_get_info = lambda *_: (free, 2 * free)
    try:
        yield
    finally:
        torch.cuda.mem_get_info = plain


def peer() -> tuple[Any, Any, Callable[[Any, Any], None]]:
    """SGLang's names, its settings, and how its free slots are put back."""
    from sglang.srt.mem_cache import mamba_checkpoint_pool as module
    from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator

    @contextmanager
    def with_settings(mamba: Any) -> Iterator[None]:
        """SUBSTITUTE for settings that a server publishes; without any, SGLang's own `get_exec` is asked."""
        plain = module.get_exec
        if mamba is not None:
            module.get_exec = lambda: SimpleNamespace(mamba=mamba)
        try:
            yield
        finally:
            module.get_exec = plain

    def reset(slots: Any, saved: tuple[torch.Tensor, Any]) -> None:
        slots.free_slots, slots._alloc_iter = saved

    kinds = ("Int8CheckpointStore", "MambaCheckpointPool", "maybe_init_int8_mamba_checkpoint_pool")
    names = SimpleNamespace(MambaSlotAllocator=MambaSlotAllocator, **{kind: getattr(module, kind) for kind in kinds})
    return names, with_settings, reset


def main() -> None:
    """Read calls, make them on the peer, write replies."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return
    file = sys.argv[1] if len(sys.argv) > 1 else "-"
    with sys.stdin if file == "-" else open(file) as source:
        runs = json.load(source)
    torch.set_num_threads(1)
    replies = [Driver(peer()[0], run["setup"], *peer()[1:]).run(run["calls"]) for run in runs["runs"]]
    versions = {name: version(name) for name in ("sglang", "torch")}
    json.dump({"versions": versions, "replies": replies}, sys.stdout)


if __name__ == "__main__":
    main()
