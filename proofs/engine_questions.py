"""The obligations of one engine: its own layout, alignment, index widths and least buffer, with its numbers put in.

Each is SMT-LIB text in which page, layer, tensor and row (or the length of a request) are symbolic and the engine's
numbers are constants. With it come the same question with a planted fault, and what a counterexample says in exact
Python integers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm

from poolproof.proofs.engine_config import BUFFER
from poolproof.proofs.solver import Model
from poolproof.spec.shapes import Buffer, PageLayout, Part, SubPool

KIND = "engine"


@dataclass(frozen=True)
class Formula:
    """Symbolic constants, what is assumed of them, and what is claimed."""

    names: tuple[str, ...]
    premise: tuple[str, ...]
    goal: str

    def script(self, goal: str | None = None) -> str:
        """SMT-LIB text that is satisfiable just where the premise holds and the goal does not."""
        lines = ["(set-logic ALL)", *(f"(declare-fun {name} () Int)" for name in self.names)]
        lines += [f"(assert {part})" for part in (*self.premise, f"(not {goal or self.goal})")]
        return "\n".join([*lines, "(check-sat)", ""])


@dataclass(frozen=True)
class Question:
    """One obligation.

    Attributes:
        formula: what is to be proved.
        fault, twin: the planted fault in words, and the same question with it.
        confirm: from a model, in exact integers, how the claim is false; "" where it is not.
        exists: what the witness needs besides the premise.
    """

    claim: str
    tags: tuple[str, ...]
    doc: str
    formula: Formula
    fault: str
    twin: Formula
    confirm: Callable[[Model], str]
    exists: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """The last part of the claim's name."""
        return self.claim.rsplit("/", 1)[1]


# --------------------------------------------------------------------------------------------------- pieces of text


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def _line(slope: int, name: str, more: int = 0) -> str:
    return f"(+ (* {_number(slope)} {name}) {_number(more)})"


def _of_part(texts: Sequence[str], part: str) -> str:
    """The text that belongs to the part that is meant."""
    chosen = texts[-1]
    for number in range(len(texts) - 2, -1, -1):
        chosen = f"(ite (= {part} {number}) {texts[number]} {chosen})"
    return chosen


def _all(parts: Sequence[str]) -> str:
    return f"(and {' '.join(parts)})" if len(parts) > 1 else (parts[0] if parts else "true")


def _within(low: str, name: str, high: str) -> str:
    """low <= name < high."""
    return f"(and (<= {low} {name}) (< {name} {high}))"


def _apart(a: tuple[str, str], b: tuple[str, str]) -> str:
    return f"(or (<= {a[1]} {b[0]}) (<= {b[1]} {a[0]}))"


class Place:
    """A symbolic row: page, layer, part and row, with an optional suffix to tell two of them apart."""

    def __init__(self, layout: PageLayout, first: int, pages: int, suffix: str = "") -> None:
        self.layout = layout
        self.pages = range(first, pages)
        self.names = tuple(f"{name}{suffix}" for name in ("page", "layer", "part", "row"))
        self.page, self.layer, self.part, self.row = self.names
        self.premise = (
            _within(str(first), self.page, str(pages)),
            _within("0", self.layer, str(layout.layers)),
            _within("0", self.part, str(len(layout.parts))),
            _within("0", self.row, _of_part([str(part.rows) for part in layout.parts], self.part)),
        )

    @property
    def start(self) -> str:
        """The byte of the buffer at which the row starts."""
        rows = [_line(part.row_bytes, self.row, part.offset) for part in self.layout.parts]
        page, layer = _line(self.layout.page_bytes, self.page), _line(self.layout.layer_bytes, self.layer)
        return f"(+ {page} {layer} {_of_part(rows, self.part)})"

    @property
    def bytes(self) -> tuple[str, str]:
        """The first byte of the row, and the first one behind it."""
        return self.start, f"(+ {self.start} {self.each(lambda part: part.row_bytes)})"

    def each(self, value: Callable[[Part], int]) -> str:
        """A number of the part."""
        return _of_part([_number(value(part)) for part in self.layout.parts], self.part)

    def read(self, model: Model) -> tuple[int, int, int, int] | None:
        """The row that a model names, where there is such a row."""
        page, layer, part, row = (model.value(name) or 0 for name in self.names)
        there = page in self.pages and layer in range(self.layout.layers) and part in range(len(self.layout.parts))
        return (page, layer, part, row) if there and row in range(self.layout.parts[part].rows) else None


def _said(layout: PageLayout, place: tuple[int, int, int, int]) -> str:
    page, layer, part, row = place
    return f"page {page} layer {layer} {layout.parts[part].name} row {row}"


def _span(layout: PageLayout, place: tuple[int, int, int, int]) -> tuple[int, int]:
    start = layout.row_start(*place)
    return start, start + layout.parts[place[2]].row_bytes


# ------------------------------------------------------------------------------------------------------- questions


def questions(engine: Buffer) -> Iterator[Question]:
    """All obligations of an engine, sub-pool by sub-pool."""
    for sub_pool in engine.sub_pools:
        yield from SubPoolQuestions(engine, sub_pool).all()
    yield one_request_fits(engine)
    if engine.max_requests > 1:
        yield every_request_can_start(engine)


class SubPoolQuestions:
    """The obligations about one sub-pool."""

    def __init__(self, engine: Buffer, sub_pool: SubPool) -> None:
        self.engine = engine
        self.sub_pool = sub_pool
        self.layout = sub_pool.layout
        self.first, self.pages = engine.first_page(sub_pool), engine.pages(sub_pool)

    def all(self) -> Iterator[Question]:
        """Each of them."""
        yield self.a_page_fits()
        yield self.pages_are_inside_the_buffer()
        yield self.pages_are_clear_of_the_sink()
        yield self.rows_are_inside_the_page()
        yield self.rows_are_disjoint()
        if len(self.engine.sub_pools) > 1:
            yield self.no_page_overlaps_another_sub_pool()
        if self.engine.alignment > 1:
            yield self.pages_are_aligned()
        if max(self._moduli()) > 1:
            yield self.rows_are_aligned()
        yield self.no_index_wraps()

    def _claim(self, name: str) -> str:
        return f"{KIND}/{self.engine.name}/{self.sub_pool.name}/{name}"

    def _place(self, layout: PageLayout | None = None) -> Place:
        return Place(layout or self.layout, self.first, self.pages)

    def a_page_fits(self) -> Question:
        """The buffer has a page of this sub-pool besides the sink."""
        size, sink = self.sub_pool.page_bytes, self.engine.sink_bytes
        least = (self.first + 1) * size

        def _formula(total: int) -> Formula:
            first = f"(and (<= {sink} {_line(size, 'first')}) (< {_line(size, 'first', -size)} {sink}))"
            pages = f"(and (<= {_line(size, 'pages')} {total}) (< {total} {_line(size, 'pages', size)}))"
            return Formula(("first", "pages"), (first, pages), "(< first pages)")

        def _confirm(model: Model) -> str:
            if self.first < self.pages:
                return ""
            return (
                f"{self.engine.total_bytes} bytes have no page of {size} bytes above the sink of {sink} bytes; "
                f"the first such page ends at byte {least}: set total_bytes to at least {least}"
            )

        return Question(
            self._claim("a_page_fits"),
            ("I11",),
            "The buffer has at least one page of this sub-pool above the sink.",
            _formula(self.engine.total_bytes),
            f"the buffer is {least - 1} bytes, one too few",
            _formula(least - 1),
            _confirm,
        )

    def pages_are_inside_the_buffer(self) -> Question:
        """Every page id that may be handed out lies inside the buffer."""
        size, total = self.sub_pool.page_bytes, self.engine.total_bytes

        def _formula(pages: int) -> Formula:
            return Formula(("page",), (_within("0", "page", str(pages)),), f"(<= {_line(size, 'page', size)} {total})")

        def _confirm(model: Model) -> str:
            page = model.value("page") or 0
            if page >= self.pages or (page + 1) * size <= total:
                return ""
            return f"page {page} ends at byte {(page + 1) * size} of {total}"

        return Question(
            self._claim("pages_are_inside_the_buffer"),
            ("I16",),
            "Each of the buffer's whole pages ends inside the buffer.",
            _formula(self.pages),
            f"page id {self.pages} counts as valid too",
            _formula(self.pages + 1),
            _confirm,
        )

    def pages_are_clear_of_the_sink(self) -> Question:
        """No page that is handed out has a byte of the sink."""
        size, sink = self.sub_pool.page_bytes, self.engine.sink_bytes

        def _formula(first: int) -> Formula:
            premise = (_within(str(first), "page", str(self.pages)),)
            return Formula(("page",), premise, f"(<= {sink} {_line(size, 'page')})")

        def _confirm(model: Model) -> str:
            page = model.value("page") or 0
            if not self.first <= page < self.pages or page * size >= sink:
                return ""
            return f"page {page} starts at byte {page * size}, the sink ends at {sink}"

        return Question(
            self._claim("pages_are_clear_of_the_sink"),
            ("I14", "I22"),
            "Every page that is handed out starts behind the sink, the largest page of all sub-pools.",
            _formula(self.first),
            f"page ids are handed out from {self.first - 1} on, inside the sink",
            _formula(self.first - 1),
            _confirm,
        )

    def rows_are_inside_the_page(self) -> Question:
        """Every row lies inside its page."""

        def _formula(layout: PageLayout) -> Formula:
            place = self._place(layout)
            start, end = place.bytes
            size = layout.page_bytes
            inside = f"(and (<= {_line(size, place.page)} {start}) (<= {end} {_line(size, place.page, size)}))"
            return Formula(place.names, place.premise, inside)

        def _confirm(model: Model) -> str:
            found = self._place().read(model)
            if found is None:
                return ""
            start, end = _span(self.layout, found)
            low = found[0] * self.layout.page_bytes
            if low <= start and end <= low + self.layout.page_bytes:
                return ""
            return (
                f"{_said(self.layout, found)} is bytes [{start}, {end}) but its page is [{low}, "
                f"{low + self.layout.page_bytes}): {self.layout.layers} layers use {self.layout.used} bytes of a page "
                f"of {self.layout.page_bytes}; set page_bytes to at least {self.layout.used}, or leave it out"
            )

        return Question(
            self._claim("rows_are_inside_the_page"),
            ("I14", "I16"),
            "Every row of every tensor and layer lies inside its own page.",
            _formula(self.layout),
            f"a page of {self.layout.used - 1} bytes, one less than its rows use",
            _formula(replace(self.layout, page_bytes=self.layout.used - 1)),
            _confirm,
        )

    def rows_are_disjoint(self) -> Question:
        """No two rows of the sub-pool share a byte, whatever their pages."""
        last = max(self.layout.parts, key=lambda part: part.end).row_bytes

        def _formula(layout: PageLayout) -> Formula:
            a, b = (Place(layout, 0, self.pages, suffix) for suffix in (".a", ".b"))
            before = "false"
            for mine, other in reversed(list(zip(a.names, b.names, strict=True))):
                before = f"(or (< {mine} {other}) (and (= {mine} {other}) {before}))"
            return Formula((*a.names, *b.names), (*a.premise, *b.premise, before), _apart(a.bytes, b.bytes))

        def _confirm(model: Model) -> str:
            a, b = (Place(self.layout, 0, self.pages, suffix).read(model) for suffix in (".a", ".b"))
            if a is None or b is None or a == b:
                return ""
            mine, other = _span(self.layout, a), _span(self.layout, b)
            if mine[1] <= other[0] or other[1] <= mine[0]:
                return ""
            return (
                f"{_said(self.layout, a)} is bytes [{mine[0]}, {mine[1]}) and {_said(self.layout, b)} is "
                f"[{other[0]}, {other[1]}): a layer uses {self.layout.layer_used} bytes of layer_bytes "
                f"{self.layout.layer_bytes}, a page {self.layout.used} of page_bytes {self.layout.page_bytes}"
            )

        short = self.layout.used - last
        return Question(
            self._claim("rows_are_disjoint"),
            ("I14",),
            "No two rows of this sub-pool, of any pages, layers and tensors, share a byte.",
            _formula(self.layout),
            f"pages {short} bytes apart, one row too few",
            _formula(replace(self.layout, page_bytes=short)),
            _confirm,
            exists=(f"(<= {self.first} page.b)",),
        )

    def no_page_overlaps_another_sub_pool(self) -> Question:
        """Where extents follow one another by their bytes, pages of different sub-pools share none."""
        pools = self.engine.sub_pools
        me = pools.index(self.sub_pool)
        joint = min(me, len(pools) - 2)

        def _formula(slack: int) -> Formula:
            names, premise, held = [], [], []
            for number, pool in enumerate(pools):
                low, high, page = f"low.{pool.name}", f"high.{pool.name}", f"page.{pool.name}"
                names += [low, high, page]
                first, pages = self.engine.first_page(pool), self.engine.pages(pool)
                premise += [f"(<= {first} {low})", f"(<= {low} {high})", f"(<= {high} {pages})"]
                if pool.grows != "float":
                    premise.append(f"(= {low} {first})" if pool.grows == "up" else f"(= {high} {pages})")
                held.append(_within(low, page, high))
                if number:
                    below = pools[number - 1]
                    gap = -slack * below.page_bytes if number - 1 == joint else 0
                    end = _line(below.page_bytes, f"high.{below.name}", gap)
                    premise.append(f"(<= {end} {_line(pool.page_bytes, low)})")
            spans = [
                (_line(p.page_bytes, f"page.{p.name}"), _line(p.page_bytes, f"page.{p.name}", p.page_bytes))
                for p in pools
            ]
            goal = [f"(=> {held[n]} {_apart(spans[me], spans[n])})" for n in range(len(pools)) if n != me]
            return Formula(tuple(names), (*premise, held[me]), _all(goal))

        def _confirm(model: Model) -> str:
            spans, at = {}, self.engine.sink_bytes
            for pool in pools:
                low, high, page = (model.value(f"{name}.{pool.name}") or 0 for name in ("low", "high", "page"))
                if low * pool.page_bytes < at or not low <= high <= self.engine.pages(pool):
                    return ""
                at = high * pool.page_bytes
                if low <= page < high:
                    spans[pool.name] = (page, page * pool.page_bytes, (page + 1) * pool.page_bytes)
            page, start, end = spans.get(self.sub_pool.name, (0, 0, 0))
            for name, (other, low, high) in spans.items():
                if name != self.sub_pool.name and start < high and low < end:
                    return f"page {page} is bytes [{start}, {end}), page {other} of {name} is [{low}, {high})"
            return ""

        return Question(
            self._claim("no_page_overlaps_another_sub_pool"),
            ("I14",),
            "Where the extents follow one another in the chain by their bytes, no page of this sub-pool shares a byte "
            "with a page of another, whatever the extents.",
            _formula(0),
            f"the extent of {pools[joint].name} may reach one page into that of {pools[joint + 1].name}",
            _formula(1),
            _confirm,
            exists=tuple(_within(f"low.{p.name}", f"page.{p.name}", f"high.{p.name}") for p in pools),
        )

    def pages_are_aligned(self) -> Question:
        """Every page starts at a multiple of the alignment."""
        size, unit = self.sub_pool.page_bytes, self.engine.alignment
        premise = (_within(str(self.first), "page", str(self.pages)),)

        def _formula(base: int) -> Formula:
            return Formula(("page",), premise, f"(= (mod {_line(size, 'page', base)} {unit}) 0)")

        def _confirm(model: Model) -> str:
            bad = next((n for n in range(self.first, self.pages) if n * size % unit), None)
            if bad is None:
                return ""
            return (
                f"page {bad} is the first bad one: it starts at byte {bad * size}, which is {bad * size % unit} more "
                f"than a multiple of {unit}; pad pages of {size} bytes to {-(-size // unit) * unit} with page_bytes"
            )

        return Question(
            self._claim("pages_are_aligned"),
            ("I16",),
            f"Every page starts at a multiple of {unit} bytes, counted from the start of the buffer.",
            _formula(0),
            "every page starts one byte further on",
            _formula(1),
            _confirm,
        )

    def _moduli(self) -> list[int]:
        return [lcm(self.engine.alignment, part.item_bytes) for part in self.layout.parts]

    def rows_are_aligned(self) -> Question:
        """Every row starts at a multiple of the alignment and of its element."""
        moduli = self._moduli()

        def _formula(layout: PageLayout) -> Formula:
            place = self._place(layout)
            aligned = [f"(= (mod {place.start} {unit}) 0)" for unit in moduli]
            return Formula(place.names, place.premise, _of_part(aligned, place.part))

        def _confirm(model: Model) -> str:
            found = self._place().read(model)
            if found is None:
                return ""
            start, unit = self.layout.row_start(*found), moduli[found[2]]
            if start % unit == 0:
                return ""
            return (
                f"{_said(self.layout, found)} starts at byte {start}, which is {start % unit} more than a multiple of "
                f"{unit}; its rows are {self.layout.parts[found[2]].row_bytes} bytes, "
                f"layers {self.layout.layer_bytes} apart; set pad_to, page_bytes or a smaller alignment"
            )

        unit = max(moduli)
        shifted = tuple(replace(part, offset=part.offset + 1) for part in self.layout.parts)
        return Question(
            self._claim("rows_are_aligned"),
            ("I16",),
            f"Every row starts at a multiple of {unit} bytes (the alignment, and whole elements).",
            _formula(self.layout),
            "every row starts one byte further on",
            _formula(replace(self.layout, parts=shifted)),
            _confirm,
        )

    def no_index_wraps(self) -> Question:
        """The integer that the kernels index with holds every index of every page."""
        index, layout = self.sub_pool.index, self.layout
        place, scale = Place(layout, 0, self.pages), [index.scale(layout, n) for n in range(len(layout.parts))]
        counts = [str(part.row_bytes // size) for part, size in zip(layout.parts, scale, strict=True)]
        steps = _of_part([_line(size, "item") for size in scale], place.part)
        start = place.start
        if index.base == "view":
            rows = [_line(part.row_bytes, place.row) for part in layout.parts]
            start = f"(+ {_line(layout.page_bytes, place.page)} {_of_part(rows, place.part)})"
        premise = (*place.premise, _within("0", "item", _of_part(counts, place.part)))

        def _formula(limit: int) -> Formula:
            bound = _of_part([str((limit + 1) * size) for size in scale], place.part)
            return Formula((*place.names, "item"), premise, f"(< (+ {start} {steps}) {bound})")

        top = max(index.largest(layout, max(self.pages, 1) - 1, n) for n in range(len(layout.parts)))
        needed = top.bit_length() + index.signed
        fewer = replace(index, bits=max(needed - 1, 1))
        kind = f"{'signed' if index.signed else 'unsigned'} {index.bits}-bit index in {index.unit}"
        return Question(
            self._claim("no_index_wraps"),
            ("I16",),
            f"No {kind} of any element of any page wraps; the largest is {top}, which takes {needed} bits.",
            _formula(index.limit),
            f"an index of {fewer.bits} bits, one fewer than are needed",
            _formula(fewer.limit),
            lambda model: self._first_wrap(),
        )

    def _first_wrap(self) -> str:
        """The first page id whose index wraps, in exact integers; "" where all are fine."""
        index, layout = self.sub_pool.index, self.layout
        bad = index.first_bad_page(layout)
        if bad >= self.pages:
            return ""
        parts = range(len(layout.parts))
        worst = max(parts, key=lambda n: index.largest(layout, bad, n))
        at = index.largest(layout, bad, worst)
        needed = max(index.largest(layout, self.pages - 1, n) for n in parts).bit_length() + index.signed
        before = max((index.largest(layout, bad - 1, n) for n in parts), default=0) if bad else 0
        if index.wrapped(at) == at or index.wrapped(before) != before:
            return ""
        return (
            f"page {bad} is the first bad one of {self.pages}: {index.unit[:-1]} index {at} of its "
            f"{layout.parts[worst].name} wraps to {index.wrapped(at)} in {index.bits} bits; use an index of at least "
            f"{needed} bits, or keep total_bytes below {(bad + 1) * layout.page_bytes}"
        )


# ------------------------------------------------------------------------------------------------------ feasibility


def _fits(engine: Buffer, total: int, unknown: str, most: int, demand: Sequence[str]) -> Formula:
    """What depends on an unknown fits: each sub-pool's pages lie on its own grid, one above the other from the sink."""
    declared, told, at = [unknown], [f"(and (<= 1 {unknown}) (<= {unknown} {most}))"], str(engine.sink_bytes)
    for pool, pages in zip(engine.sub_pools, demand, strict=True):
        need, low = f"need.{pool.name}", f"low.{pool.name}"
        declared += [need, low]
        told.append(f"(= {need} {pages})")
        told.append(f"(= {low} (div (+ {at} {pool.page_bytes - 1}) {pool.page_bytes}))")
        at = f"(* {pool.page_bytes} (+ {low} {need}))"
    top = engine.sub_pools[-1]
    goal = f"(<= {at} {total})"
    if top.grows == "down":
        goal = f"(<= (+ low.{top.name} need.{top.name}) (div {total} {top.page_bytes}))"
    return Formula(tuple(declared), tuple(told), goal)


def _pages_text(pool: SubPool, engine: Buffer, tokens: str) -> str:
    if not pool.page_size:
        return str(pool.per_request)
    whole = f"(div (+ {tokens} {pool.page_size - 1}) {pool.page_size})"
    if not pool.window:
        return whole
    live = pool.window_pages(engine.step_tokens)
    return f"(ite (<= {whole} {live}) {whole} {live})"


def _shown(engine: Buffer, demand: Sequence[int]) -> str:
    words = {pool.name: "page" if pool.page_size or pool.kind == "pages" else "slot" for pool in engine.sub_pools}
    parts = [
        f"{pages} {words[pool.name]}{'' if pages == 1 else 's'} of {pool.name} ({pages * pool.page_bytes} bytes)"
        for pool, pages in zip(engine.sub_pools, demand, strict=True)
    ]
    return f"{', '.join(parts)} beside the sink ({engine.sink_bytes} bytes)"


def one_request_fits(engine: Buffer) -> Question:
    """The buffer can hold one request of any length up to the longest."""
    worst = engine.demand(engine.max_context)
    least = engine.smallest_total(worst)

    def _formula(total: int) -> Formula:
        demand = [_pages_text(pool, engine, "tokens") for pool in engine.sub_pools]
        return _fits(engine, total, "tokens", engine.max_context, demand)

    def _confirm(model: Model) -> str:
        if engine.smallest_total(engine.demand(model.value("tokens") or 0)) <= engine.total_bytes:
            return ""
        longest = longest_context(engine)
        remedy = f"or max_context to at most {longest}" if longest else "even one token does not fit"
        return (
            f"one request of {engine.max_context} tokens needs {_shown(engine, worst)}: the smallest total_bytes that "
            f"fits is {least}, there are {engine.total_bytes}; set total_bytes to it, {remedy}"
        )

    return Question(
        f"{KIND}/{engine.name}/{BUFFER}/one_request_fits",
        ("I11",),
        f"One request of any length up to {engine.max_context} tokens fits beside the sink; the longest takes a buffer "
        f"of {least} bytes.",
        _formula(engine.total_bytes),
        f"a buffer of {least - 1} bytes, one too few",
        _formula(least - 1),
        _confirm,
    )


def longest_context(engine: Buffer) -> int:
    """The longest request that the buffer can hold, in tokens; 0 where it holds none."""
    lengths = range(1, engine.max_context + 1)
    return bisect_right(
        lengths, False, key=lambda tokens: engine.smallest_total(engine.demand(tokens)) > engine.total_bytes
    )


def every_request_can_start(engine: Buffer) -> Question:
    """The buffer can hold the first token of as many requests as may run at once."""
    most = engine.max_requests
    each, worst = engine.starting_demand(1), engine.starting_demand(most)
    least = engine.smallest_total(worst)

    def _formula(total: int) -> Formula:
        return _fits(engine, total, "requests", most, [f"(* {pages} requests)" for pages in each])

    def _holds(requests: int) -> bool:
        return engine.smallest_total(engine.starting_demand(requests)) <= engine.total_bytes

    def _confirm(model: Model) -> str:
        if _holds(model.value("requests") or 0):
            return ""
        possible = bisect_right(range(1, most + 1), False, key=lambda requests: not _holds(requests))
        remedy = f"or max_requests to at most {possible}" if possible else "even one request cannot start"
        return (
            f"{most} requests of one token need {_shown(engine, worst)}: the smallest total_bytes that fits is "
            f"{least}, there are {engine.total_bytes}; set total_bytes to it, {remedy}"
        )

    return Question(
        f"{KIND}/{engine.name}/{BUFFER}/every_request_can_start",
        ("I11",),
        f"Up to {most} requests can hold their slots and their first pages at once; all of them take a buffer of "
        f"{least} bytes.",
        _formula(engine.total_bytes),
        f"a buffer of {least - 1} bytes, one too few",
        _formula(least - 1),
        _confirm,
    )
