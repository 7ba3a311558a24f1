"""Random calls for `bench/peers/sglang_checkpoint_worker.py`: good ones, and bad ones that name what is wrong.

A bad call has `tag`, the name of the declared difference that it must show, and `ours`, the error that we raise. What
is called depends on counts alone, never on which ids an allocator chose, so the same calls are good on any allocator.
"""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]
Ref = tuple[str, int]
"""A kept tensor of ids, and a place in it."""

BOTH = ("active", "checkpoint")
KINDS = ("normal", "normal", "wide", "large", "small", "zero", "lost")

COMMON: Json = {"active": 9, "checkpoints": 7, "layers": 2, "heads": 2, "d_v": 6, "d_k": 5, "conv": [[5, 3], [4]]}
SETUPS: tuple[Json, ...] = (
    {**COMMON, "dtype": "bfloat16", "conv_dtype": "bfloat16"},
    {**COMMON, "dtype": "float16", "conv_dtype": "float16", "conv": []},
    {**COMMON, "dtype": "float32", "conv_dtype": "bfloat16"},
)


class Half:
    """What is known of one allocator: counts, who is live, and what may be freed twice."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.live: list[Ref] = []
        self.reserve = 0
        self.dead: list[Ref] = []
        """Freed, and free in every allocator, since nothing was handed out since."""

    @property
    def free(self) -> int:
        """Slots that an alloc can get."""
        return self.size - len(self.live) - self.reserve


class Calls:
    """Makes calls; `list` has them."""

    def __init__(self, seed: int, setup: Json) -> None:
        self.draw, self.setup = random.Random(seed), setup
        self.list: list[Json] = []
        self.names = 0
        self.halves = {"active": Half(setup["active"]), "checkpoint": Half(setup["checkpoints"])}
        self.filled: dict[Ref, Json] = {}
        self.stored: dict[Ref, Json] = {}

    def add(self, op: str, **members: Any) -> Json:
        """One call more."""
        self.list.append({"op": op, **members})
        return self.list[-1]

    def bad(self, tag: str, ours: str | None, op: str, **members: Any) -> None:
        """One that shows a difference and changes nothing here."""
        self.add(op, tag=tag, ours=ours, undo=True, **members)

    def spec(self, *kinds: str) -> Json:
        """Of a random state."""
        return {"seed": self.draw.randrange(10**6), "kind": self.draw.choice(kinds or KINDS)}

    def some(self, refs: list[Ref], least: int = 1, most: int = 3) -> list[Ref]:
        """A few, none twice; none at all where there are too few."""
        if len(refs) < least:
            return []
        return self.draw.sample(refs, self.draw.randint(least, min(most, len(refs))))

    # ------------------------------------------------------------------------------------------------------------ slots

    def alloc(self, on: str, n: int | None = None) -> None:
        """Slots, or None where there are too few."""
        half = self.halves[on]
        n = self.draw.choice((0, 1, 1, 1, 2, 3, half.free, half.free + 1)) if n is None else n
        is_reserved = n == 1 and half.reserve > 0
        granted = is_reserved or n <= half.free
        through = {"through": "pool"} if on == "checkpoint" and self.draw.random() < 0.5 else {}
        self.names += 1
        name = f"{on}{self.names}"
        self.add("alloc", on=on, n=n, **{"as": name}, **through, granted=granted)
        if granted and n:
            half.reserve -= is_reserved
            half.live += [(name, place) for place in range(n)]
            half.dead = []

    def free(self, on: str) -> None:
        """Some live slots, in a form that both take, or that only we do."""
        half = self.halves[on]
        refs = self.some(half.live)
        if not refs:
            return
        slots: Json = {"of": refs}
        through = {"through": "pool"} if on == "checkpoint" and self.draw.random() < 0.5 else {}
        form = self.draw.choice((None, None, "view", "int32", "host"))
        if form == "view":
            refs = refs[:1]
            slots = {"view": refs[0]}
        elif form == "int32":
            slots["form"] = form
        if form == "host":
            ours = self.draw.choice(("list", "scalar", "number"))
            refs = refs if ours == "list" else refs[:1]
            slots = {"of": refs}
            fallback = {"op": "free", "on": on, "slots": slots}
            formed = {**slots, "form": ours}
            self.add("free", on=on, slots=formed, fallback=fallback, tag="host ids and scalars", ours=None, **through)
        else:
            self.add("free", on=on, slots=slots, **through)
        self.forget(on, refs)

    def forget(self, on: str, refs: list[Ref]) -> None:
        """These were freed."""
        half = self.halves[on]
        half.live = [ref for ref in half.live if ref not in refs]
        half.dead += refs
        contents = self.filled if on == "active" else self.stored
        for ref in refs:
            contents.pop(ref, None)

    def clear(self, on: str) -> None:
        """Everything is free."""
        half = self.halves[on]
        if half.reserve == 0:
            self.add("clear", on=on, **({"through": "pool"} if on == "checkpoint" else {}))
            self.forget(on, list(half.live))
            half.dead = []

    def group(self, on: str) -> None:
        """A group, some allocs in it, its end."""
        half = self.halves[on]
        if half.reserve:
            return
        n = self.draw.choice((-1, 0, 1, 2, 3, half.free + 1))
        self.add("group_begin", on=on, n=n)
        half.reserve = n if 0 < n <= half.free else 0
        half.dead = [] if half.reserve else half.dead
        for _ in range(self.draw.randrange(5)):
            self.draw.choice((self.alloc, self.alloc, self.free))(on)
        self.add("group_end", on=on)
        half.reserve = 0

    def look(self, on: str) -> None:
        """Sizes and free slots."""
        self.add("look", on=on)

    def bad_free(self, on: str) -> None:
        """Ids that nobody may give back."""
        half = self.halves[on]
        live, size = self.some(half.live, most=2), half.size
        if half.dead:
            ref = self.draw.choice(half.dead)
            slots: Json = {"view": ref} if self.draw.random() < 0.3 else {"of": [*live, ref]}
            self.bad("double free", "InvalidFree", "free", on=on, slots=slots)
        if live:
            self.bad("listed twice", "InvalidFree", "free", on=on, slots={"of": [*live, live[0]]})
            form = self.draw.choice(("float", "bool"))
            self.bad("ids that are no integers", "TypeError", "free", on=on, slots={"of": live, "form": form})
            tag = "types of errors" if half.free else "masks and tables of slots"
            self.bad(tag, "ValueError", "free", on=on, slots={"of": live, "form": "table"})
        stray = self.draw.choice((0, -1, -2, size + 1, size + 2, 2**40))
        self.bad("stray ids", "InvalidFree", "free", on=on, slots={"raw": [stray]})

    def bad_slots(self, on: str) -> None:
        """Wrong counts, and what the peer lets callers do."""
        n, error = self.draw.choice(((-1, "ValueError"), (-2, "ValueError"), (True, "TypeError")))
        self.bad("counts", error, "alloc", on=on, n=n)
        self.bad("types of errors", "TypeError", "alloc", on=on, n=self.draw.choice(("2", None)))
        tag = "counts" if self.halves[on].free < 2 else "types of errors"
        self.bad(tag, "TypeError", "alloc", on=on, n=1.5)
        self.bad("second thread", "WrongThread", "alloc", on=on, n=1, thread=True)
        if self.halves[on].free:
            self.bad("free_slots is a copy", None, "write_free_slots", on=on)
        self.bad("empty allocator", "ValueError", "make_slots", size=0)
        self.bad("types of errors", "ValueError", "make_slots", size=-1)

    # ------------------------------------------------------------------------------------------------------------ bytes

    def fill(self) -> None:
        """Active states get numbers."""
        refs = self.some(self.halves["active"].live)
        if refs:
            specs = [self.spec() for _ in refs]
            self.add("fill", slots={"of": refs}, specs=specs)
            self.filled.update(zip(refs, specs, strict=True))

    def store(self) -> None:
        """Active states become checkpoints."""
        count = min(len(self.filled), len(self.halves["checkpoint"].live))
        if count:
            sources = self.some(list(self.filled), most=count)
            targets = self.draw.sample(self.halves["checkpoint"].live, len(sources))
            call = {"active": {"of": sources}, "checkpoint": {"of": targets}}
            if self.setup["conv"] and self.draw.random() < 0.35:
                tag, fallback = "windows of another dtype", {"op": "store", **call}
                self.add("store", windows="float32", tag=tag, ours=None, fallback=fallback, **call)
            else:
                self.add("store", **call)
            self.stored.update({b: self.filled[a] for a, b in zip(sources, targets, strict=True)})

    def load(self) -> None:
        """Checkpoints become active states; one of them may become several."""
        targets = self.some(self.halves["active"].live)
        if targets and self.stored:
            sources = self.draw.choices(list(self.stored), k=len(targets))
            specs = [self.stored[ref] for ref in sources]
            self.add("load", checkpoint={"of": sources}, active={"of": targets}, specs=specs)
            for ref in targets:
                self.filled.pop(ref, None)

    def bare_store(self) -> None:
        """The store alone: slots are the caller's."""
        n, dtype = self.draw.randint(1, 3), self.setup["dtype"]
        slots = {"raw": self.draw.sample(range(self.setup["checkpoints"] + 1), n)}
        specs = [self.spec() for _ in range(n)]
        out = self.draw.choice((dtype, dtype, "float32", "bfloat16", "float16"))
        if self.draw.random() < 0.5:
            self.add("copy", slots=slots, specs=specs, out=out)
            return
        if n == 1 and self.draw.random() < 0.5:
            form = self.draw.choice(("scalar", "number"))
            put = {"op": "put", "slots": slots, "specs": specs, "alone": True}
            formed = {**slots, "form": form}
            tag = "host ids and scalars"
            self.add("put", slots=formed, specs=specs, alone=True, fallback=put, tag=tag, ours=None)
            self.add("get", slots=formed, specs=specs, out=out, alone=True)
            return
        form = self.draw.choice((None, "list", "int32"))
        self.add("put", slots={**slots, "form": form}, specs=specs, alone=n == 1)
        self.add("get", slots=slots, specs=specs, out=out)

    def bad_store(self) -> None:
        """States and slots that do not belong together."""
        last, dtype = self.setup["checkpoints"], self.setup["dtype"]
        one, two = [self.spec()], [self.spec(), self.spec()]
        other = "float32" if dtype != "float32" else "bfloat16"
        raw = {"raw": [1, 2]}
        bad = self.bad
        bad("dtype of the scales", "LayoutError", "put", slots={"raw": [1]}, specs=one, dtype=other)
        bad("one state for several slots", "ValueError", "put", slots=raw, specs=one)
        bad("target twice", "ValueError", "put", slots={"raw": [3, 3]}, specs=two)
        bad("negative slots", "ValueError", "put", slots={"raw": [-1]}, specs=one)
        bad("negative slots", "ValueError", "get", slots={"raw": [-last]}, out=dtype)
        bad("types of errors", "ValueError", "put", slots={"raw": [1, last + 1]}, specs=two)
        bad("types of errors", "ValueError", "get", slots={"raw": [last + 3]}, out=dtype)
        bad("types of errors", "ValueError", "put", slots={"raw": [1, 2, 3]}, specs=two)
        bad("masks and tables of slots", "TypeError", "put", slots={**raw, "form": "mask"}, specs=two)
        bad("masks and tables of slots", "ValueError", "get", slots={**raw, "form": "table"}, out=dtype)
        bad("types of errors", "TypeError", "put", slots={**raw, "form": "float"}, specs=two)
        shape = [2, 4, 3]
        bad("dtypes", "TypeError", "quantize", spec=self.spec("normal"), shape=shape, dtype="float64", out="float64")
        bad("dtypes", "LayoutError", "make_pool", slots=3, conv_dtype="float64")
        bad("shapes of windows", "LayoutError", "make_pool", slots=3, conv=[[2, 3, 4]])

    def bad_copy(self) -> None:
        """Checkpoint slots that hold nothing, or are nobody's."""
        live, active = self.halves["checkpoint"].live, self.some(self.halves["active"].live, least=2)
        empty = [ref for ref in live if ref not in self.stored]
        if not active:
            return
        one, bad = {"of": active[:1]}, self.bad
        nobody: Json = {"of": self.halves["checkpoint"].dead[:1] or []} if self.draw.random() < 0.7 else {"raw": [0]}
        if nobody != {"of": []}:
            bad("slots that are not handed out", "InvalidIds", "store", active=one, checkpoint=nobody)
            bad("slots that are not handed out", "InvalidIds", "load", active=one, checkpoint=nobody)
        bad("negative slots", "InvalidIds", "load", active=one, checkpoint={"raw": [-1]})
        if empty:
            bad("loads before the first store", "LifecycleError", "load", active=one, checkpoint={"of": empty[:1]})
        if live:
            two, ref = {"of": active[:2]}, live[0]
            bad("negative slots", "ValueError", "store", active={"raw": [-1]}, checkpoint={"of": [ref]})
            bad("target twice", "InvalidIds", "store", active=two, checkpoint={"of": [ref, ref]})
            more = [*self.setup["conv"], [3, 2]]
            bad("more conv tensors", "KernelArgumentError", "store", active=one, checkpoint={"of": [ref]}, conv=more)
            if self.setup["conv"]:
                bad("types of errors", "KernelArgumentError", "store", active=one, checkpoint={"of": [ref]}, conv=[])
        if len(live) > 1:
            several = {"of": live[:2]}
            bad("one state for several slots", "ValueError", "store", active=one, checkpoint=several)
        if self.stored:
            twice = {"of": [active[0], active[0]]}
            two_of = {"of": [next(iter(self.stored))] * 2}
            bad("target twice", "ValueError", "load", active=twice, checkpoint=two_of)

    # ------------------------------------------------------------------------------------------------- sizes and making

    def sizes(self) -> None:
        """What pools say of themselves, and the opt-in."""
        self.add("surface")
        self.add("sizes", slots=self.draw.randint(0, 9))
        self.add("make_pool", slots=self.draw.randint(1, 5))
        on = {"enable_int8_mamba_checkpoint": True}
        self.add("factory", settings=None, active=3)
        self.add("factory", settings={"enable_int8_mamba_checkpoint": False, "int8_mamba_ckpt_size": 4}, active=3)
        for size in (None, 0, 5):
            self.add("factory", settings={**on, "int8_mamba_ckpt_size": size}, active=3)
        few = {"settings": {**on, "int8_mamba_ckpt_size": 5}, "active": 3, "free": 100}
        self.bad("types of errors", "CheckpointMemoryError", "factory", **few)

    def tail(self, is_begun_twice: bool) -> None:
        """What leaves the peer in another state than us comes last."""
        on = self.draw.choice(BOTH)
        half = self.halves[on]
        if is_begun_twice:
            self.add("clear", on=on)
            self.add("group_begin", on=on, n=2)
            tag = "group begun twice"
            self.add("group_begin", on=on, n=3, tag=tag, lost=2)
            self.add("group_end", on=on, tag=tag, lost=2)
        else:
            self.add("clear", on=on)
            self.add("group_begin", on=on, n=2)
            tag = "clear in a group"
            self.add("clear", on=on)
            self.add("alloc", on=on, n=1, tag=tag, lost=-1, **{"as": "one"})
            self.add("alloc", on=on, n=half.size, tag=tag, twice="one", **{"as": "all"})


def random_calls(seed: int, setup: Json, rounds: int = 100) -> list[Json]:
    """A list of calls, the same for the same arguments."""
    calls = Calls(seed, setup)
    for on in BOTH:
        calls.alloc(on, 2)
    slots = (
        calls.alloc,
        calls.alloc,
        calls.alloc,
        calls.free,
        calls.group,
        calls.look,
        calls.bad_free,
        calls.bad_slots,
    )
    bytes_ = (calls.fill, calls.fill, calls.store, calls.store, calls.load, calls.bare_store, calls.bad_store)
    for _ in range(rounds):
        if calls.draw.random() < 0.5:
            calls.draw.choice(slots)(calls.draw.choice(BOTH))
        else:
            calls.draw.choice((*bytes_, calls.bad_copy))()
        if calls.draw.random() < 0.03:
            calls.clear(calls.draw.choice(BOTH))
    calls.sizes()
    calls.tail(is_begun_twice=seed % 2 == 0)
    return calls.list


def quantizations(seed: int, count: int = 8) -> list[Json]:
    """Larger states of every kind and dtype, quantised and loaded: for how often the codecs differ, and how far."""
    calls = Calls(seed, SETUPS[0])
    for dtype in ("bfloat16", "float16", "float32"):
        for kind in sorted({*KINDS}):
            for _ in range(count if kind == "normal" else 1):
                calls.add("quantize", spec=calls.spec(kind), shape=[8, 64, 32], dtype=dtype, out=dtype)
    return calls.list
