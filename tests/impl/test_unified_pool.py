"""What the methods of a unified pool do when nothing is wrong, with the spec in lockstep."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from buffers import chain_of, every_kind, extent, finish, plain, read, rows, values, with_window, write

import poolproof as pp
from poolproof import Pages, UnifiedPool

POISON = 0xFF


def test_a_new_pool_is_empty_but_for_the_sink() -> None:
    pool = plain(20, 3, 2, 4)
    assert (pool.total_bytes, pool.sink_bytes) == (20, 4)
    assert pool.buffer.shape == (20,)
    assert pool.buffer[:4].tolist() == [0] * 4
    assert [pool.capacity(name) for name in "abc"] == [4, 8, 4]
    assert [pool[name].ids for name in "abc"] == [7, 11, 6]
    assert pool.check() == []


@pytest.mark.parametrize("name", list("abc"))
def test_alloc_hands_out_distinct_ids_and_pages_up_to_the_last(name: str) -> None:
    pool = plain(30, 3, 2, 4)
    most = pool.capacity(name)
    ids = pool[name].alloc(most)
    pages = pool[name].physical(ids)
    assert ids.dtype == pages.dtype == np.int64
    assert sorted(ids.tolist()) == list(range(1, most + 1))
    assert len(set(pages.tolist())) == most
    size = pool[name].layout.page_bytes
    assert pages.min() * size >= pool.sink_bytes
    assert (pages.max() + 1) * size <= pool.total_bytes
    assert pool.capacity(name) == 0
    assert pool[name].try_alloc(1) is None
    pool[name].free(ids)
    assert pool.capacity(name) == most


def test_the_whole_buffer_can_be_had_by_either_end() -> None:
    pool = plain(12, 1, 1)
    for name in "abab":
        assert pool.capacity(name) == 11
        pool[name].free(pool[name].alloc(11))


@pytest.mark.parametrize("n", [0, np.int64(0), np.uint8(0)])
def test_none_is_an_empty_array(n: int) -> None:
    pool = plain(12, 1, 1)
    pool["a"].alloc(11)
    for ids in (pool["a"].alloc(n), pool["b"].alloc(n), pool["b"].try_alloc(n)):
        assert ids is not None
        assert (ids.shape, ids.dtype) == ((0,), np.int64)
    pool["b"].free([])
    assert pool["b"].physical([]).shape == (0,)
    assert pool.alloc({}) == {}
    assert pool.fits({})
    assert pool.alloc({"b": 0})["b"].shape == (0,)


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor, lambda ids: np.array(ids, np.uint64)])
def test_ids_come_in_any_form(form: Any) -> None:
    pool = plain(12, 1, 1)
    ids = pool["a"].alloc(3).tolist()
    pages = pool["a"].physical(form(ids))
    assert pages.tolist() == pool["a"].physical(ids).tolist()
    finish(pool.begin_step(writes={"a": form(ids)}), pool.begin_step(reads={"a": form(ids)}))
    pool.lease("a", form(ids), "test").release()
    pool["a"].free(form(ids[:2]))
    pool["a"].free(ids[2])
    assert pool.capacity("a") == 11


def test_ids_are_used_again_at_once() -> None:
    pool = plain(12, 1, 1)
    ids = pool["a"].alloc(5)
    pool["a"].free(ids[1:3])
    assert set(pool["a"].alloc(2).tolist()) == set(ids[1:3].tolist())


def test_holes_come_before_fresh_pages() -> None:
    pool = plain(12, 1, 1)
    ids = pool["a"].alloc(5)
    pages = pool["a"].physical(ids)
    pool["a"].free(ids[1:3])
    again = pool["a"].alloc(3)
    assert set(pool["a"].physical(again).tolist()) == {*pages[1:3].tolist(), 6}


def test_ends_grow_towards_each_other_and_a_float_begins_between() -> None:
    pool = plain(41, 1, 1, 1)
    given = {name: pool[name].physical(pool[name].alloc(3)).tolist() for name in "acb"}
    assert (given["a"], given["c"]) == ([1, 2, 3], [40, 39, 38])
    assert min(given["b"]) > 13
    assert max(given["b"]) < 28


def test_frontiers_retreat_when_their_pages_are_freed() -> None:
    pool = plain(20, 1, 1)
    a, b = pool["a"].alloc(5), pool["b"].alloc(5)
    pool["a"].free(a[3:])
    pool["b"].free(b[3:])
    assert (extent(pool, "a"), extent(pool, "b")) == ((1, 4), (17, 20))
    pool["a"].free(a[:3])
    pool["b"].free(b[:3])
    assert (extent(pool, "a"), extent(pool, "b")) == ((1, 1), (20, 20))


# --------------------------------------------------------------------------------------------------- several at once


def test_several_are_given_together() -> None:
    pool = plain(30, 2, 1, 3)
    given = pool.alloc({"c": 2, "a": 3, "b": 4})
    assert list(given) == ["c", "a", "b"]
    assert [len(given[name]) for name in "abc"] == [3, 4, 2]
    for name, ids in given.items():
        assert (pool[name].physical(ids) > 0).all()


def test_a_window_gets_pages_for_the_last_new_ids() -> None:
    pool = with_window()
    given = pool.alloc({"window": 2, "full": 5})
    assert given["window"].tolist() == given["full"][3:].tolist()
    assert (pool["window"].physical(given["full"]) > 0).tolist() == [False] * 3 + [True] * 2


def test_a_window_binds_and_frees_pages_of_live_ids() -> None:
    pool = with_window()
    ids = pool["full"].alloc(4)
    assert pool["window"].capacity() == 4
    pool["window"].bind(ids[1:])
    assert pool["window"].capacity() == 1
    pool["window"].free(ids[1:2])
    assert (pool["window"].physical(ids) > 0).tolist() == [False, False, True, True]
    assert (pool["full"].physical(ids) > 0).all()
    pool["full"].free(ids)
    assert (pool["window"].physical(ids) == 0).all()
    assert pool.stats().used_bytes == 0


def test_new_ids_have_no_page_of_a_window_until_one_is_bound() -> None:
    pool = with_window()
    first = pool.alloc({"full": 3, "window": 3})["full"]
    pool["full"].free(first)
    again = pool["full"].alloc(3)
    assert set(again.tolist()) == set(first.tolist())
    assert pool["window"].physical(again).tolist() == [0, 0, 0]


@pytest.mark.parametrize("seed", range(8))
def test_fits_says_what_alloc_of_several_does(seed: int) -> None:
    draw, pool, seen = random.Random(seed), plain(30, 2, 1, 3), set()
    for _ in range(60):
        demand = {name: draw.choice([0, 1, 2, 4]) for name in draw.sample("abc", draw.randint(1, 3))}
        before = pool.snapshot()
        fits = pool.fits(demand)
        assert pool.snapshot() == before
        if fits:
            given = pool.alloc(demand)
            assert {name: len(ids) for name, ids in given.items()} == demand
        else:
            with pytest.raises(pp.BufferExhausted):
                pool.alloc(demand)
            assert pool.snapshot() == before
        for name in "abc":
            live = [v for v in range(1, pool[name].ids) if pool[name].physical(v)[0]]
            pool[name].free(draw.sample(live, draw.randint(0, len(live))))
        seen.add(fits)
    assert seen == {True, False}


# ----------------------------------------------------------------------------------------------------------- extend


@pytest.mark.parametrize(("size", "old", "new"), [(1, [0, 2], [3, 2]), (4, [0, 3, 4, 5], [1, 4, 5, 12]), (2, [], [])])
def test_extend_gives_whole_pages_for_the_tokens_added(size: int, old: list[int], new: list[int]) -> None:
    pool = UnifiedPool(40, [Pages("a", bytes=2, grows="up", page_size=size)], shadow=True)
    tails = [pool["a"].alloc(1)[0] if length % size else 0 for length in old]
    ids = pool["a"].extend(tails, old, new)
    assert len(ids) == sum(-(-b // size) - -(-a // size) for a, b in zip(old, new, strict=True))
    assert len({*ids.tolist(), *tails} - {0}) == len(ids) + sum(tail > 0 for tail in tails)


def test_token_after_token_takes_a_page_every_page_size() -> None:
    pool = UnifiedPool(40, [Pages("a", bytes=2, grows="up", page_size=3)], shadow=True)
    tail, pages = 0, []
    for length in range(10):
        given = pool["a"].extend([tail], [length], [length + 1]).tolist()
        pages += given
        tail = given[-1] if given else tail
    assert len(pages) == 4
    pool["a"].free(pages)
    assert pool.stats().used_bytes == 0


# -------------------------------------------------------------------------------------------------------- translation


def scrambled(page_size: int = 1) -> tuple[UnifiedPool, np.ndarray]:
    """A pool whose ids and pages differ, and its live ids of "b"."""
    sub_pools = [
        Pages("a", bytes=2, grows="up", zero="never"),
        Pages("b", bytes=3, grows="float", zero="never", page_size=page_size),
        Pages("c", bytes=2, grows="down", zero="never"),
    ]
    pool = UnifiedPool(60, sub_pools, shadow=True)
    ids = pool["b"].alloc(6)
    pool["b"].free(ids[:2])
    pool["a"].alloc(20)
    live = ids[2:]
    assert not set(pool["b"].physical(live).tolist()) & set(live.tolist())
    return pool, live


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_tokens_are_translated_page_by_page(size: int, dtype: torch.dtype) -> None:
    pool, live = scrambled(size)
    tokens = torch.tensor([[v * size + o for o in range(size)] for v in live.tolist()], dtype=dtype)
    found = pool["b"].translate(tokens)
    assert found.dtype == dtype
    pages = pool["b"].physical(live)
    assert found.tolist() == [[p * size + o for o in range(size)] for p in pages.tolist()]


def test_padding_and_dead_ids_lead_to_the_sink() -> None:
    pool, live = scrambled(2)
    dead = next(v for v in range(1, pool["b"].ids) if v not in live)
    tokens = torch.tensor([-1, -2, -(2**60), 0, 1, dead * 2, dead * 2 + 1, pool["b"].ids * 2, 2**60])
    assert pool["b"].translate(tokens).tolist() == [0, 0, 0, 0, 1, 0, 1, 0, 0]
    ids = [-1, 0, dead, pool["b"].ids, 2**62, -(2**62)]
    assert pool["b"].physical(ids).tolist() == [0] * len(ids)


def test_translate_writes_to_out() -> None:
    pool, live = scrambled()
    tokens = torch.tensor(live)
    out = torch.full_like(tokens, 99)
    assert pool["b"].translate(tokens, out=out) is out
    assert out.tolist() == pool["b"].physical(live).tolist()
    assert pool["b"].translate(tokens, out=tokens).tolist() == out.tolist()
    assert pool["b"].translate(tokens[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.bool])
def test_token_ids_of_another_dtype_are_refused(dtype: torch.dtype) -> None:
    pool, _ = scrambled()
    with pytest.raises(TypeError, match="int64 or int32"):
        pool["b"].translate(torch.zeros(1, dtype=dtype))


def test_page_sizes_agree_on_the_bytes_of_a_token() -> None:
    """Four tokens of 2 bytes: as one page of four, or as four pages of one, they fill the same number of bytes."""
    for size in (1, 2, 4):
        sub_pools = [
            pp.KVPages("full", layers=1, kv_heads=1, head_dim=1, dtype="uint8", page_size=size),
            pp.WindowPages("window", layers=1, kv_heads=1, head_dim=1, dtype="uint8"),
        ]
        pool = UnifiedPool(64, sub_pools, shadow=True)
        ids = pool.alloc({"full": 4 // size, "window": 4 // size})["full"]
        tokens = torch.tensor([v * size + o for v in ids.tolist() for o in range(size)])
        for name in ("full", "window"):
            views, found = pool.views(name), pool[name].translate(tokens)
            pool.buffer[:] = 0
            for n, at in enumerate(found.tolist()):
                views.k[0][at // size, at % size] = n + 1
                views.v[0][at // size, at % size] = n + 101
            written = rows(pool, name)[pool[name].physical(ids)].reshape(-1, 2 * size)
            keys = [n + 1 for n in range(4)]
            assert written[:, :size].reshape(-1).tolist() == keys
            assert written[:, size:].reshape(-1).tolist() == [100 + key for key in keys]
            assert int((pool.buffer != 0).sum()) == 8


# -------------------------------------------------------------------------------------------------------------- bytes


def test_what_is_written_through_views_survives_every_move() -> None:
    pool = plain(48, 2, 3, 4)
    ids = {name: pool[name].alloc(4) for name in "abc"}
    views = {name: pool.views(name).pages for name in "abc"}
    for n, name in enumerate("abc"):
        step = pool.begin_step(writes={name: ids[name]})
        pages = torch.tensor(step.writes[name])
        views[name][pages] = torch.arange(1 + 10 * n, 5 + 10 * n, dtype=torch.uint8)[:, None]
        finish(step)
    before = {name: pool[name].physical(ids[name]).tolist() for name in "abc"}
    kept = {name: ids[name][1:] for name in "abc"}
    for name in "abc":
        pool[name].free(ids[name][:1])
    pool.compact(urgent=True)
    more = pool["a"].alloc(pool.capacity("a"))
    pool["a"].free(more)
    more = pool["c"].alloc(pool.capacity("c"))
    after = {name: pool[name].physical(kept[name]).tolist() for name in "abc"}
    for n, name in enumerate("abc"):
        assert after[name] != before[name][1:]
        assert values(pool, name, kept[name]) == [2 + 10 * n, 3 + 10 * n, 4 + 10 * n]
        pages = torch.tensor(pool[name].physical(kept[name]))
        assert views[name][pages][:, 0].tolist() == [2 + 10 * n, 3 + 10 * n, 4 + 10 * n]


def test_views_never_move() -> None:
    pool = every_kind()
    before = {layout.name: tensors(pool.views(layout.name)) for layout in pool.layouts}
    pool.alloc({"full": 4, "latent": 2, "window": 3, "state": 2, "bytes": 3})
    pool["full"].free([2])
    pool.compact(urgent=True)
    for name, old in before.items():
        for was, now in zip(old, tensors(pool.views(name)), strict=True):
            assert (was.data_ptr(), was.shape, was.stride()) == (now.data_ptr(), now.shape, now.stride())
            assert was.untyped_storage().data_ptr() == pool.buffer.untyped_storage().data_ptr()


def tensors(views: Any) -> list[torch.Tensor]:
    """All tensors of one sub-pool's views."""
    found = []
    for value in vars(views).values():
        found += [value] if isinstance(value, torch.Tensor) else list(value)
    return found


def test_a_sub_pool_without_layers_keeps_ids_and_pages() -> None:
    pool = every_kind()
    views = pool.views("absent")
    assert (views.k, views.v) == ((), ())
    ids = pool["absent"].alloc(3)
    finish(pool.begin_step(writes={"absent": ids}), pool.begin_step(reads={"absent": ids}))
    pool["absent"].free(ids)
    assert pool.check() == []


def test_on_meta_there_is_all_but_bytes() -> None:
    """The tables of a pool without bytes are those of one with them."""
    pools = [plain(40, 2, 3, 4, zero="on_handout", device=device) for device in ("cpu", "meta")]
    draws = [random.Random(5), random.Random(5)]
    for pool, draw in zip(pools, draws, strict=True):
        for _ in range(60):
            step_at_random(pool, draw)
    assert pools[0].snapshot() == pools[1].snapshot()
    assert pools[1].buffer.device.type == "meta"
    assert pools[1].views("a").pages.device.type == "meta"


def step_at_random(pool: UnifiedPool, draw: random.Random) -> None:
    name = draw.choice("abc")
    live = [v for v in range(1, pool[name].ids) if pool[name].physical(v)[0]]
    what = draw.randrange(4)
    if what == 0:
        pool[name].alloc(draw.randint(0, pool.capacity(name)))
    elif what == 1:
        pool[name].free(draw.sample(live, draw.randint(0, len(live))))
    elif what == 2:
        pool.compact(moves=draw.randint(0, 3))
    else:
        finish(pool.begin_step(writes={name: live}))


def test_clear_makes_a_new_pool_and_touches_no_byte() -> None:
    pool = plain(40, 2, 3, 4, zero="on_handout")
    for name in "abc":
        write(pool, name, pool[name].alloc(2), 7)
    pool["b"].free([1])
    bytes_before, capacities = pool.buffer.clone(), [plain(40, 2, 3, 4).capacity(name) for name in "abc"]
    pool.clear()
    assert torch.equal(pool.buffer, bytes_before)
    assert [pool.capacity(name) for name in "abc"] == capacities
    assert pool.check() == []
    ids = pool["a"].alloc(3)
    assert (read(pool, "a", ids) == 0).all()


# ---------------------------------------------------------------------------------------- ids, pages and other values


def test_what_is_returned_is_a_value() -> None:
    """Whoever changes a returned array, or one that he gave, changes no pool."""
    pool = plain(40, 2, 3, 4)
    ids = pool["a"].alloc(4)
    kept, given = ids.copy(), ids[:2].copy()
    pool["a"].free(given)
    given[:] = 99
    pages = pool["a"].physical(ids)
    again = pool["a"].alloc(3)
    before = pool.snapshot()
    for array in (ids, pages, again, pool["a"].physical(kept)):
        array[:] = 99
    assert pool.snapshot() == before
    assert pool.check() == []


def test_an_array_of_ids_may_change_after_a_step_began() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(3)
    given = ids.copy()
    step = pool.begin_step(writes={"a": given}, stream=1)
    given[:] = 99
    assert step.writes["a"].tolist() == pool["a"].physical(ids).tolist()
    finish(step)
    assert pool.check() == []


def test_pages_of_steps_and_leases_cannot_be_written() -> None:
    pool = plain(20, 1, 1)
    ids = pool["a"].alloc(3)
    lease, step = pool.lease("a", ids, "test"), pool.begin_step(writes={"a": ids})
    finish(step)
    again = pool.begin_step(reads={"a": ids})
    for array in (lease.physical, step.writes["a"], again.reads["a"]):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 9


# ------------------------------------------------------------------------------------------- what was there beforehand


@pytest.mark.parametrize("seed", range(4))
def test_a_poisoned_buffer_reads_as_a_zeroed_one(seed: int) -> None:
    """Over every kind of sub-pool: nobody sees what was in the buffer, or what others left there."""
    pools = [every_kind(), every_kind()]
    for pool, byte in zip(pools, (0, POISON), strict=True):
        pool.buffer[:] = byte
        pool.alloc({**{layout.name: 1 for layout in pool.layouts}, "full": 2})
    users = [User(pool, seed) for pool in pools]
    for _ in range(40):
        for user in users:
            user.step()
        assert users[0].seen == users[1].seen
    for user in users:
        user.fill_all()
    assert users[0].seen == users[1].seen
    assert pools[0].snapshot() == pools[1].snapshot()
    assert users[0].kinds == {"kv", "mla", "window", "state", "checkpoint", "pages"}


class User:
    """Random operations on one pool; what its reads have found."""

    def __init__(self, pool: UnifiedPool, seed: int) -> None:
        self.pool, self.draw = pool, random.Random(seed)
        self.written: dict[str, set[int]] = {layout.name: set() for layout in pool.layouts}
        self.seen: list[bytes] = []
        self.kinds = set[str]()

    def step(self) -> None:
        """One operation, and a read of some pages that hold something."""
        layout = self.draw.choice(self.pool.layouts)
        name, what = layout.name, self.draw.randrange(7)
        live = [v for v in range(1, self.pool[name].ids) if self.is_live(name, v)]
        if what <= 1:
            self.take(name, layout.ids_of)
        elif what == 2:
            self.let_go(name, self.draw.sample(live, len(live) // 2))
        elif what == 3:
            self.pool.compact(moves=self.draw.randint(0, 6))
        else:
            self.write(name, self.draw.sample(live, min(len(live), 3)))
        self.look(self.draw.choice(self.pool.layouts).name)

    def fill_all(self) -> None:
        """A page of every sub-pool is written, and all are read."""
        for layout in self.pool.layouts:
            self.write(layout.name, [v for v in range(1, self.pool[layout.name].ids) if self.is_live(layout.name, v)])
            self.look(layout.name)

    def is_live(self, name: str, v: int) -> bool:
        return bool(self.pool[name].physical(v)[0])

    def take(self, name: str, owner: str | None) -> None:
        n = min(self.pool.capacity(name), self.draw.choice([1, 2, 3]))
        if owner is None:
            self.pool[name].alloc(n)
            return
        ids = range(1, self.pool[owner].ids)
        self.pool[name].bind([v for v in ids if self.is_live(owner, v) and not self.is_live(name, v)][:n])

    def let_go(self, name: str, ids: list[int]) -> None:
        self.pool[name].free(ids)
        for other in self.pool.layouts:
            if name in (other.name, other.ids_of):
                self.written[other.name] -= set(ids)

    def write(self, name: str, ids: list[int]) -> None:
        """Fill pages; of those that are zeroed when handed out, a part is enough."""
        layout = self.pool[name].layout
        step = self.pool.begin_step(writes={name: ids})
        size = self.draw.randint(1, layout.page_bytes) if layout.zeroed else layout.page_bytes
        for page in step.writes[name].tolist():
            rows(self.pool, name)[page, :size] = self.draw.randint(1, 120)
        finish(step)
        self.written[name] |= set(ids)

    def look(self, name: str) -> None:
        """A step reads everything that may be read of one sub-pool."""
        layout = self.pool[name].layout
        live = [v for v in range(1, self.pool[name].ids) if self.is_live(name, v)]
        ids = live if layout.zeroed else [v for v in live if v in self.written[name]]
        found = read(self.pool, name, ids)
        assert (found != POISON).all()
        self.seen.append(found.tobytes())
        if len(ids):
            self.kinds.add(layout.kind)


@pytest.mark.parametrize("name", ["full", "latent", "window", "bytes"])
def test_a_page_handed_out_shows_nothing_of_its_former_owner(name: str) -> None:
    """Every kind that is zeroed, after every other kind has had its bytes."""
    pool = every_kind()
    pool.buffer[:] = POISON
    for other in ("state", "opaque", "full", "bytes", "latent"):
        ids = pool[other].alloc(pool.capacity(other))
        write(pool, other, ids, 0xEE)
        pool[other].free(ids)
        ids = pool["full"].alloc(3) if name == "window" else pool[name].alloc(min(pool.capacity(name), 60))
        if name == "window":
            pool["window"].bind(ids)
        assert (read(pool, name, ids) == 0).all()
        pool["full" if name == "window" else name].free(ids)


def test_a_page_taken_again_within_a_step_is_zeroed_again() -> None:
    pool = plain(20, 2, 2, zero="on_handout")
    ids = pool["a"].alloc(2)
    write(pool, "a", ids, 9)
    pool["a"].free(ids)
    again = pool["a"].alloc(2)
    pool["a"].free(again)
    again = pool["a"].alloc(2)
    assert (read(pool, "a", again) == 0).all()


# ------------------------------------------------------------------------------------------------- the least of buffers


@pytest.mark.parametrize("sizes", [(1,), (3,), (1, 1), (2, 3), (3, 2, 4), (1, 4, 2, 3), (3, 1, 2)])
def test_the_least_buffer_has_a_page_of_each(sizes: tuple[int, ...]) -> None:
    with pytest.raises(pp.LayoutError) as raised:
        plain(max(sizes), *sizes)
    need = int(str(raised.value).split("need ")[1].split(";")[0])
    with pytest.raises(pp.LayoutError):
        plain(need - 1, *sizes)
    pool = plain(need, *sizes)
    names = [layout.name for layout in pool.layouts]
    pool.alloc(dict.fromkeys(names, 1))
    assert pool.check() == []
    pool.clear()
    for name in names:
        pool[name].alloc(1)
    assert pool.check() == []


def test_a_pool_names_its_sub_pools() -> None:
    pool = plain(20, 1, 2)
    assert pool["a"].layout.page_bytes == 1
    assert "'a'" in repr(pool["a"])
    with pytest.raises(KeyError, match="'a', 'b'"):
        pool["x"]
    assert len(chain_of(1, 2, 3)) == 3
