"""Token ids through a page table: what a loop in Python, one token at a time, makes of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import OnTheDevice
from torch import Tensor

from poolproof.kernels import interpreter
from poolproof.kernels.layout import KernelArgumentError
from poolproof.kernels.translate_tokens import (
    BLOCK,
    TranslateTokens,
    check_share,
    check_tokens,
    translate_reference,
)

DTYPES = [torch.int64, torch.int32]
PAGE_SIZES = [1, 3, 16, 64]
SHARES = [(ranks, rank) for ranks in (1, 2, 3) for rank in (None, *range(ranks))]
TABLE = [0, 7, 3, 0, 12, 1, 30, 0, 5]
OTHER = [0, 5, 0, 30, 1, 12, 0, 3, 7]
"""Id 0 is the sink's own, whose page is 0 in every table."""

PAGES = 31
FILL = -99


def place(token: int, table: list[int], page_size: int, ranks: int, rank: int | None) -> int:
    """Where one token lies."""
    if token < 0 or (rank is not None and token % ranks != rank):
        return 0
    number, offset = divmod(token // ranks, page_size)
    return (table[number] if number < len(table) else 0) * page_size + offset


def places(tokens: Tensor, table: list[int], page_size: int, ranks: int = 1, rank: int | None = None) -> Tensor:
    """Where tokens of any shape lie, on the CPU."""
    found = [place(token, table, page_size, ranks, rank) for token in tokens.reshape(-1).tolist()]
    return torch.tensor(found, dtype=tokens.dtype).reshape(tokens.shape)


def bound(
    device: torch.device,
    page_size: int = 16,
    ranks: int = 1,
    rank: int | None = None,
    table: list[int] = TABLE,
    pages: int = PAGES,
) -> TranslateTokens:
    """A translation by a table that starts at an entry of a longer one, whose other entries are 2**30."""
    longer = torch.full((len(table) + 3,), 2**30, dtype=torch.int32, device=device)
    longer[1 : 1 + len(table)] = torch.tensor(table, dtype=torch.int32)
    return TranslateTokens(longer[1 : 1 + len(table)], page_size, pages, ranks, rank)


def some_tokens(page_size: int, ranks: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Every token that the table has an id for, those of the next ids, and others far off."""
    info = torch.iinfo(dtype)
    far = [info.max, info.max - 1, info.min, info.min + 1, 2**30, 2**31 - 1, -(2**31), *range(-7, 0)]
    return torch.tensor([*far, *range((len(TABLE) + 2) * page_size * ranks)], dtype=dtype, device=device)


def check(translate: TranslateTokens, tokens: Tensor, out: Tensor | None = None) -> None:
    """Translate; the numbers are as expected, the table and, where nothing else was asked for, the tokens stay."""
    table, before = translate.table.tolist(), tokens.clone()
    expected = places(before, table, translate.page_size, translate.ranks, translate.rank)
    found = translate(tokens, out)
    assert out is None or found is out
    assert (found.dtype, found.shape, found.device) == (tokens.dtype, tokens.shape, tokens.device)
    assert torch.equal(found.cpu(), expected)
    assert translate.table.tolist() == table
    assert out is tokens or torch.equal(tokens, before)


# -------------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("ranks", "rank"), SHARES, ids=str)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_tokens_of_every_kind(
    page_size: int, ranks: int, rank: int | None, dtype: torch.dtype, device: torch.device
) -> None:
    """Of ids with a page and without one, beyond the table, negative, and of other ranks."""
    translate, tokens = bound(device, page_size, ranks, rank), some_tokens(page_size, ranks, dtype, device)
    check(translate, tokens)
    check(translate, tokens, torch.full_like(tokens, FILL))
    check(translate, tokens, tokens)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Any, ...]:
    """A table, a share and tokens, in a slice that starts anywhere, and where their places go."""
    page_size, dtype = draw(st.sampled_from(PAGE_SIZES)), draw(st.sampled_from(DTYPES))
    ranks, rank = draw(st.sampled_from(SHARES))
    table = [0, *draw(st.lists(st.one_of(st.just(0), st.integers(0, PAGES - 1)), max_size=30))]
    info = torch.iinfo(dtype)
    near = st.integers(-3, (len(table) + 1) * page_size * ranks)
    tokens = draw(st.lists(st.one_of(near, st.integers(info.min, info.max)), max_size=40))
    starts = st.tuples(st.integers(0, 4), st.integers(0, 4))
    return page_size, dtype, ranks, rank, table, tokens, draw(starts), draw(st.sampled_from(["new", "other", "same"]))


@given(task=tasks())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_translated_is_where_a_loop_finds_it(task: tuple[Any, ...], device: torch.device) -> None:
    page_size, dtype, ranks, rank, table, numbers, (start, to), into = task
    translate = bound(device, page_size, ranks, rank, table)
    tokens = sliced(numbers, dtype, start, device)
    if into == "new":
        check(translate, tokens)
    else:
        check_around(translate, tokens, tokens if into == "same" else sliced([FILL] * len(numbers), dtype, to, device))


def test_the_largest_pages(device: torch.device) -> None:
    """Places of int32 up to its largest number, and of int64 beyond it."""
    table = [0, 2**25 - 1, 1]
    translate = bound(device, 64, table=table, pages=2**25)
    for dtype in DTYPES:
        tokens = torch.tensor([64, 65, 127, 128, 191, 192, 0, 63], dtype=dtype, device=device)
        check(translate, tokens)
        assert int(translate(tokens)[2]) == 2**31 - 1
    translate = bound(device, 4096, 3, 2, table=[0, 2**31 - 1, 1], pages=2**31)
    id_1 = 4096 * 3
    tokens = torch.tensor([2, id_1 + 2, id_1 + 5, 2 * id_1 - 1, 2 * id_1 + 2, 2**62 + 1, 2**63 - 1], device=device)
    check(translate, tokens)
    assert int(translate(tokens)[3]) == 2**43 - 1


def test_tokens_beyond_2_to_the_31(device: torch.device) -> None:
    """The last entries of a table whose tokens go beyond 2**32."""
    table = torch.arange(2**20 + 7, dtype=torch.int32, device=device).flip(0)
    table[0] = 0
    translate = TranslateTokens(table, 4096, 2**20 + 7)
    tokens = torch.tensor([2**32 - 1, 2**32, 2**31, 2**31 - 1, 4096 * (2**20 + 7) - 1, 4096 * (2**20 + 7)]).to(device)
    expected = [4096 * (2**20 + 6 - token // 4096) + token % 4096 for token in tokens.tolist()[:5]]
    assert translate(tokens).tolist() == [*expected, 0]


def test_the_table_is_read_at_each_call(device: torch.device) -> None:
    translate, tokens = bound(device), torch.arange(200, device=device)
    check(translate, tokens)
    translate.table.copy_(torch.tensor(OTHER, dtype=torch.int32))
    check(translate, tokens)


# --------------------------------------------------------------------------------------------------- shapes and strides


def sliced(numbers: list[int], dtype: torch.dtype, start: int, device: torch.device) -> Tensor:
    """Numbers that start at an element of a longer tensor."""
    longer = torch.full((start + len(numbers) + 3,), FILL, dtype=dtype, device=device)
    found = longer[start : start + len(numbers)]
    return found.copy_(torch.tensor(numbers, dtype=dtype))


def around(tensor: Tensor) -> Tensor:
    """All elements of the tensor's allocation."""
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())


def check_around(translate: TranslateTokens, tokens: Tensor, out: Tensor) -> None:
    """Translate into `out`, which lies among others that stay as they were."""
    whole = around(out)
    expected = whole.cpu().clone()
    inside = expected.as_strided(out.shape, out.stride(), out.storage_offset())
    inside.copy_(places(tokens, translate.table.tolist(), translate.page_size, translate.ranks, translate.rank))
    check(translate, tokens, out)
    assert torch.equal(whole.cpu(), expected)


SHAPES = [(), (1,), (5,), (3, 4), (2, 1, 7), (1, 1, 1, 1), (31, 33), (0,), (3, 0, 2), (0, 0)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
    count = int(np.prod(shape))
    tokens = (torch.arange(count) * 7 % 190 - 3).to(dtype).reshape(shape).to(device)
    translate = bound(device, 3, 2, 1)
    check(translate, tokens)
    check_around(translate, tokens, torch.full_like(tokens, FILL))
    check_around(translate, tokens, tokens)


@pytest.mark.parametrize("shape", [(0,), (3, 0)], ids=str)
def test_no_tokens_are_no_work(shape: tuple[int, ...], device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled or launched."""
    translate = bound(device)
    monkeypatch.setattr(translate, "prepared", None)
    empty = torch.empty(shape, dtype=torch.int64, device=device)
    assert translate(empty).shape == shape
    assert translate(empty, empty) is empty
    if device.type == "cuda" or interpreter.is_on():
        with pytest.raises(TypeError, match="not callable"):
            translate(torch.zeros(1, dtype=torch.int64, device=device))


@pytest.mark.parametrize("count", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_any_number_of_tokens(count: int, device: torch.device) -> None:
    """Of one program, and of several, the last of them not full."""
    tokens = torch.randperm(count, generator=torch.Generator().manual_seed(count)).to(device)
    check_around(bound(device, table=[0, 3, 0, 9] * 15), tokens, sliced([FILL] * count, torch.int64, 0, device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices_at_any_address(dtype: torch.dtype, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both start at any element, in turns for one binding: both at a multiple of 16 bytes or not."""
    translate, asked = bound(device, 16, table=[0, 4, 30] * 30), []
    prepared = translate.prepared
    monkeypatch.setattr(translate, "prepared", lambda *kind: asked.append(kind) or prepared(*kind))
    numbers = [n * 5 % 1500 - 4 for n in range(BLOCK + 9)]
    for start, to in product((0, 1, 2, 4), (0, 4, 3)):
        tokens, out = sliced(numbers, dtype, start, device), sliced([FILL] * len(numbers), dtype, to, device)
        check_around(translate, tokens, out)
        check_around(translate, tokens[start:], out[: len(numbers) - start])
        check_around(translate, tokens, tokens)
        starts = [(start, to), (2 * start, to), (start, start)]
        aligned = [(dtype, all(n * dtype.itemsize % 16 == 0 for n in both)) for both in starts]
        assert asked == (aligned if device.type == "cuda" or interpreter.is_on() else [])
        asked.clear()


LAYOUTS = ["plain", "transposed", "every other", "rows apart"]


def laid_out(tokens: Tensor, layout: str) -> Tensor:
    """The same (rows, columns) with other strides; whatever is between them is FILL."""
    if layout == "plain":
        return tokens.clone()
    if layout == "transposed":
        return tokens.t().contiguous().t()
    rows, columns = tokens.shape
    step = 2 if layout == "every other" else 1
    wide = tokens.new_full((rows + 1, step * columns + 3), FILL)
    return wide[1:, 1 : 1 + step * columns : step].copy_(tokens)


@pytest.mark.parametrize("to", [*LAYOUTS, None])
@pytest.mark.parametrize("of", LAYOUTS)
def test_any_strides(of: str, to: str | None, device: torch.device) -> None:
    plain = (torch.arange(7 * 11) * 13 % 170 - 5).reshape(7, 11).to(device)
    translate = bound(device, 3, 2)
    for dtype in DTYPES:
        tokens = laid_out(plain.to(dtype), of)
        assert tokens.is_contiguous() == (of == "plain")
        if to is None:
            check(translate, tokens)
            check_around(translate, tokens, tokens)
        else:
            check_around(translate, tokens, laid_out(torch.full_like(plain, FILL).to(dtype), to))


def test_one_token_for_all_places(device: torch.device) -> None:
    """Tokens that all lie in one place."""
    one = torch.tensor([[37]], device=device).expand(3, 5)
    check(bound(device), one)
    check_around(bound(device), one, torch.full((3, 5), FILL, device=device))


# -------------------------------------------------------------------------------------------------------- the reference


@pytest.mark.parametrize(("ranks", "rank"), SHARES, ids=str)
def test_the_reference_on_any_device(ranks: int, rank: int | None, device: torch.device) -> None:
    """Of tables with negative pages for none, too."""
    table = torch.tensor([-1, 7, 3, -(2**31), 12, 0], dtype=torch.int32, device=device)
    tokens = torch.arange(-9, 8 * 3 * ranks, device=device)
    expected = places(tokens, table.clamp(min=0).tolist(), 3, ranks, rank)
    assert torch.equal(translate_reference(tokens, table, 3, ranks, rank).cpu(), expected)
    out = torch.full_like(tokens, FILL)
    assert translate_reference(tokens, table, 3, ranks, rank, out) is out
    assert torch.equal(out.cpu(), expected)
    assert translate_reference(tokens, table, 3, ranks, rank, tokens) is tokens
    assert torch.equal(tokens.cpu(), expected)


# ------------------------------------------------------------------------------------------------------------- refusals

TOKENS = torch.arange(6)
BAD_TOKENS: list[tuple[Any, Any, type[Exception], str]] = [
    ([1, 2], None, TypeError, "token ids are a torch tensor, not list; torch.from_numpy makes one of an array"),
    (np.arange(3), None, TypeError, "token ids are a torch tensor, not ndarray; torch.from_numpy makes one"),
    (3, None, TypeError, "token ids are a torch tensor, not int"),
    (None, None, TypeError, "token ids are a torch tensor, not NoneType"),
    (TOKENS.float(), None, TypeError, "token ids are int64 or int32, not torch.float32"),
    (TOKENS.to(torch.int16), None, TypeError, "token ids are int64 or int32, not torch.int16"),
    (TOKENS.to(torch.uint8), None, TypeError, "token ids are int64 or int32, not torch.uint8"),
    (TOKENS > 2, None, TypeError, "token ids are int64 or int32, not torch.bool"),
    (TOKENS, [0] * 6, TypeError, "out is a torch tensor, not list"),
    (TOKENS, np.zeros(6, int), TypeError, "out is a torch tensor, not ndarray"),
    (TOKENS, TOKENS[:5].clone(), ValueError, "out is (5,) of torch.int64 on cpu, the tokens are (6,) of torch.int64"),
    (TOKENS, TOKENS.clone().view(2, 3), ValueError, "out is (2, 3) of torch.int64 on cpu, the tokens are (6,) of"),
    (TOKENS, TOKENS.int(), ValueError, "out is (6,) of torch.int32 on cpu, the tokens are (6,) of torch.int64 on cpu"),
    (TOKENS.int(), TOKENS.clone(), ValueError, "out is (6,) of torch.int64 on cpu, the tokens are (6,) of torch.int32"),
    (TOKENS, TOKENS.to("meta"), ValueError, "out is (6,) of torch.int64 on meta, the tokens are (6,) of torch.int64"),
]


@pytest.mark.parametrize(("tokens", "out", "error", "text"), BAD_TOKENS, ids=range(len(BAD_TOKENS)))
def test_what_are_no_tokens_are_refused(
    tokens: Any, out: Any, error: type[Exception], text: str, device: torch.device
) -> None:
    """By the check, and by a call of a translation of the CPU."""
    calls = [lambda: check_tokens(tokens, out, 100)]
    if device.type == "cpu":
        calls.append(lambda: bound(device)(tokens, out))
    before = out.clone() if isinstance(out, Tensor) and out.device.type == "cpu" else None
    for call in calls:
        with pytest.raises(error) as refusal:
            call()
        assert str(refusal.value).startswith(text)
    assert before is None or torch.equal(out, before)


def test_tokens_that_int32_does_not_hold_are_refused(device: torch.device) -> None:
    """Pages of the buffer, and ids of the table, of all ranks; the last token may be the largest int32."""
    tokens = torch.arange(6, dtype=torch.int32, device=device)
    for page_size, ranks, pages, last in ((64, 1, 2**25 + 1, 2**31 + 63), (16, 3, 2**27, 3 * 2**31 - 1)):
        with pytest.raises(TypeError, match=f"tokens go up to {last}, which int32 does not hold; pass int64"):
            bound(device, page_size, ranks, pages=pages)(tokens)
        check(bound(device, page_size, ranks, pages=pages), tokens.long())
    with pytest.raises(TypeError, match=f"tokens go up to {9 * 2**28 - 1}, which int32 does not hold; pass int64"):
        bound(device, 2**28, pages=2)(tokens, tokens)
    assert tokens.tolist() == [0, 1, 2, 3, 4, 5]
    check(bound(device, 64, pages=2**25), tokens)
    check_tokens(tokens, tokens, 2**31)
    with pytest.raises(TypeError, match="tokens go up to 2147483648, which"):
        check_tokens(tokens, tokens, 2**31 + 1)


def test_tokens_elsewhere_are_refused(device: torch.device) -> None:
    translate = bound(device)
    where = translate.table.device
    with pytest.raises(ValueError, match=f"the tokens are on meta, the table on {where}: move them first"):
        translate(TOKENS.to("meta"))
    with pytest.raises(ValueError, match=f"out is .* on meta, the tokens are .* on {where}"):
        translate(TOKENS.to(device), TOKENS.to("meta"))
    if device.type == "cuda":
        with pytest.raises(ValueError, match=f"the tokens are on cpu, the table on {where}: move them first"):
            translate(TOKENS)


NO_RANKS: list[tuple[Any, Any]] = [
    *((0, None), (-1, None), (True, None), (2.0, None), ("2", 0), (None, None), (np.int64(2), None)),
    *((1, 1), (2, 2), (2, -1), (2, True), (2, 0.0), (2, "1"), (3, np.int64(1))),
]


@pytest.mark.parametrize(("ranks", "rank"), NO_RANKS, ids=repr)
def test_ranks_that_are_none_are_refused(ranks: Any, rank: Any) -> None:
    for call in (check_share, lambda ranks, rank: bound(torch.device("cpu"), 16, ranks, rank)):
        with pytest.raises(ValueError) as refusal:
            call(ranks, rank)
        assert str(refusal.value) == (
            f"rank {rank!r} of {ranks!r} ranks: ranks are 1 or more, the rank 0 to ranks - 1, or None"
        )


@pytest.mark.parametrize(("ranks", "rank"), [*SHARES, (1000, 999)], ids=str)
def test_every_rank_is_taken(ranks: int, rank: int | None) -> None:
    check_share(ranks, rank)
    translate = bound(torch.device("cpu"), 16, ranks, rank)
    assert (translate.ranks, translate.rank, translate.last) == (ranks, rank, PAGES * 16 * ranks)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (torch.zeros(8), "a table is one contiguous row of int32, not torch.float32 (8,)"),
        (torch.zeros(8, dtype=torch.int64), "a table is one contiguous row of int32, not torch.int64 (8,)"),
        (torch.zeros((2, 4), dtype=torch.int32), "a table is one contiguous row of int32, not torch.int32 (2, 4)"),
        (torch.zeros(8, dtype=torch.int32)[::2], "a table is one contiguous row of int32, not torch.int32 (4,)"),
        (torch.zeros(0, dtype=torch.int32), "a table is one contiguous row of int32, not torch.int32 (0,)"),
    ],
)
def test_tables_of_another_kind_are_refused(table: Tensor, text: str) -> None:
    with pytest.raises(KernelArgumentError) as refusal:
        TranslateTokens(table, 16, PAGES)
    assert str(refusal.value) == text


def test_meta_tokens_are_checked_and_nothing_more() -> None:
    translate = TranslateTokens(torch.zeros(9, dtype=torch.int32, device="meta"), 16, PAGES)
    tokens = torch.empty((3, 4), dtype=torch.int32, device="meta")
    found, out = translate(tokens), torch.empty_like(tokens)
    assert (found.shape, found.dtype, found.device.type) == ((3, 4), torch.int32, "meta")
    assert translate(tokens, out) is out
    with pytest.raises(TypeError, match="token ids are int64 or int32"):
        translate(tokens.float())


# -------------------------------------------------------------------------------------------------------- on the device


class TestOnTheDevice(OnTheDevice):
    """What only a CUDA device can tell."""

    @pytest.mark.parametrize("start", [0, 1])
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_graphs_replay_with_other_tokens_and_another_table(self, dtype: torch.dtype, start: int) -> None:
        """Captured once, into another tensor and in place; replayed with other tokens, then with another table too."""
        translate = bound(self.device, 3, 2, 1)
        numbers = [n * 7 % 70 - 5 for n in range(BLOCK + 9)]
        tokens, out = (sliced(numbers, dtype, start, self.device) for _ in range(2))
        itself = tokens.clone()
        translate(tokens, out)
        translate(itself, itself)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            translate(tokens, out)
            translate(itself, itself)
        for step, table in ((11, TABLE), (13, OTHER), (5, [0] * 9), (3, [*range(9)])):
            translate.table.copy_(torch.tensor(table, dtype=torch.int32))
            tokens.copy_(torch.tensor([n * step % 80 - 9 for n in range(BLOCK + 9)], dtype=dtype))
            itself.copy_(tokens)
            expected = places(tokens, table, 3, 2, 1)
            graph.replay()
            assert torch.equal(out.cpu(), expected)
            assert torch.equal(itself.cpu(), expected)

    def test_nothing_waits_and_nothing_is_allocated(self) -> None:
        translate = bound(self.device)
        tokens = torch.arange(-5, 3000, device=self.device)
        out, apart = torch.empty_like(tokens), torch.empty((3005, 2), dtype=torch.int64, device=self.device)[:, 0]
        torch.cuda.set_sync_debug_mode("error")
        try:
            for dtype in DTYPES:
                given_tokens, into = tokens.to(dtype), out.to(dtype)
                translate(given_tokens, into)
                translate(given_tokens[1:], into[:-1])
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.max_memory_allocated()
                translate(given_tokens, into)
                translate(given_tokens[1:], into[:-1])
                translate(given_tokens[:7], given_tokens[:7])
                assert torch.cuda.max_memory_allocated() == before
            translate(tokens, apart)
            found = translate(tokens[::2])
        finally:
            torch.cuda.set_sync_debug_mode("default")
        expected = places(tokens, TABLE, 16)
        assert torch.equal(apart.cpu(), expected)
        assert torch.equal(found.cpu(), expected[::2])

    @pytest.mark.parametrize(("page_size", "ranks", "rank"), [(4096, 1, None), (3, 3, None), (4096, 3, 2)], ids=str)
    def test_many_tokens_of_a_large_table(self, page_size: int, ranks: int, rank: int | None) -> None:
        """More than 2**20 entries, and more programs than a second or third grid axis could have."""
        rng = np.random.default_rng(page_size)
        entries = rng.integers(0, 2**24, 2**20 + 77, np.int32)
        entries[0] = 0
        translate = TranslateTokens(torch.from_numpy(entries).to(self.device), page_size, 2**24, ranks, rank)
        tokens = rng.integers(-9, (2**20 + 79) * page_size * ranks, 66_000 * BLOCK + 5)
        tokens[:3] = (2**20 + 77) * page_size * ranks - np.arange(3)
        number, offset = np.divmod(tokens // ranks, page_size)
        page = np.where(number < len(entries), entries[np.clip(number, 0, len(entries) - 1)].astype(np.int64), 0)
        own = (tokens >= 0) & (True if rank is None else tokens % ranks == rank)
        expected = np.where(own, page * page_size + offset, 0)
        found = translate(torch.from_numpy(tokens).to(self.device))
        assert np.array_equal(found.cpu().numpy(), expected)

    @pytest.mark.parametrize("first", [5, 2**31 + 9], ids=["few first", "many first"])
    def test_more_than_2_to_the_31_tokens(self, first: int) -> None:
        """In place; one binding takes few and many, whichever come first."""
        translate = bound(self.device, 16, table=TABLE)
        tokens = torch.full((2**31 + 9,), 17, dtype=torch.int32, device=self.device)
        places_of_17 = place(17, TABLE, 16, 1, None)
        for count in (first, 2**31 + 14 - first):
            translate(tokens.fill_(17)[:count], tokens[:count])
            assert int((tokens == places_of_17).sum()) == count
            assert tokens[[0, count - 1]].tolist() == [places_of_17] * 2
            assert int((tokens == 17).sum()) == tokens.numel() - count
