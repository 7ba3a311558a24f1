"""The obligations of an engine: verdicts against going through every byte, controls, and what a refutation says."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from poolproof.proofs import engine as engine_module
from poolproof.proofs.engine import EngineOptions, decide, prove_engine
from poolproof.proofs.engine_config import engine_of
from poolproof.proofs.engine_questions import longest_context, questions
from poolproof.proofs.results import PROVED, REFUTED, UNKNOWN, Report, Result
from poolproof.proofs.solver import Answer
from poolproof.proofs.subject import SubjectError
from poolproof.spec.models import MODELS
from poolproof.spec.shapes import Buffer, Index, PageLayout, Part, SubPool

WIDE = {"bits": 64, "signed": True, "unit": "elements"}


def described(total: int | str, *sub_pools: dict[str, Any], **head: Any) -> Buffer:
    """An engine as a file would describe it."""
    given = {"name": "e", "total_bytes": total, "max_context": 64, "alignment": 1, "index": WIDE, **head}
    return engine_of({"engine": given, "sub_pool": list(sub_pools)})


def kv(**more: Any) -> dict[str, Any]:
    """A sub-pool whose packed page is 2 layers x 4 tokens x 2 heads x (4 + 4) x 2 bytes = 256 bytes."""
    plain = {"name": "full", "kind": "kv", "grows": "up", "layers": 2, "kv_heads": 2, "head_dim": 4}
    return {**plain, "dtype": "bfloat16", "page_size": 4, **more}


def state(**more: Any) -> dict[str, Any]:
    """A sub-pool whose packed slot is 3 layers x (2 x 4 x 4 x 4 + 8 x 3 x 2) bytes = 3 x 176 = 528 bytes."""
    plain = {"name": "state", "kind": "state", "grows": "down", "layers": 3, "conv_shapes": [[8, 3]]}
    return {**plain, "temporal_shape": [2, 4, 4], "conv_dtype": "bfloat16", "temporal_dtype": "float32", **more}


def grades(report: Report) -> dict[str, str]:
    """Grade by sub-pool and claim."""
    return {r.claim.split("/", 2)[2]: r.grade for r in report.obligations}


def found(engine: Buffer, claim: str) -> Result:
    """The result of one claim."""
    (result,) = prove_engine(engine, EngineOptions(only=[f"engine/e/{claim}"])).obligations
    return result


# -------------------------------------------------------------------------------------------------- byte by byte


def rows(engine: Buffer, pool: SubPool, first: int) -> list[tuple[int, int, int, int]]:
    """(page, start, end, alignment) of each row of each page."""
    listed = []
    for page in range(first, engine.total_bytes // pool.page_bytes):
        for layer in range(pool.layout.layers):
            for part in pool.layout.parts:
                for row in range(part.rows):
                    start = (
                        page * pool.page_bytes + layer * pool.layout.layer_bytes + part.offset + row * part.row_bytes
                    )
                    unit = engine.alignment
                    while unit % part.item_bytes:
                        unit += engine.alignment
                    listed.append((page, start, start + part.row_bytes, unit))
    return listed


def truth(engine: Buffer, pool: SubPool) -> dict[str, bool]:
    """Each claim about a sub-pool, by going through its pages, rows and bytes."""
    sink = max(p.page_bytes for p in engine.sub_pools)
    usable = [n for n in range(engine.total_bytes // pool.page_bytes) if n * pool.page_bytes >= sink]
    first = usable[0] if usable else 0
    size, handed, everything = pool.page_bytes, rows(engine, pool, first), rows(engine, pool, 0)
    taken: set[int] = set()
    apart = True
    for _, start, end, _ in everything:
        apart = apart and taken.isdisjoint(range(start, end))
        taken.update(range(start, end))
    return {
        "a_page_fits": bool(usable),
        "rows_are_inside_the_page": all(p * size <= a and b <= (p + 1) * size for p, a, b, _ in handed),
        "rows_are_disjoint": apart,
        "pages_are_aligned": all(n * size % engine.alignment == 0 for n in usable),
        "rows_are_aligned": all(start % unit == 0 for _, start, _, unit in handed),
    }


def drawn(draw: random.Random) -> Buffer:
    """A small engine, often with a layout that is wrong."""

    def layout() -> PageLayout:
        parts, at = [], 0
        for number in range(draw.randint(1, 3)):
            part = Part(f"t{number}", at, draw.randint(1, 3), draw.randint(1, 4), draw.choice([1, 2, 4]))
            parts.append(part)
            at = part.end + draw.choice([0, 0, 0, 1, 2])
        layers, stride = draw.randint(1, 3), at + draw.choice([0, 0, 0, 4, -1])
        page = layers * max(stride, 1) + draw.choice([0, 0, 0, 8, -1])
        return PageLayout(layers, max(stride, 1), max(page, 1), tuple(parts))

    index = Index(draw.choice([8, 16]), draw.random() < 0.5, draw.choice(["elements", "bytes"]), "buffer")
    chain = draw.choice([("up",), ("up", "down"), ("up", "float", "down")])
    pools = tuple(SubPool(f"p{n}", "pages", grows, layout(), index, per_request=1) for n, grows in enumerate(chain))
    return Buffer("e", draw.randint(20, 400), draw.choice([1, 2, 4]), 8, 8, 1, pools)


@pytest.mark.parametrize("seed", range(30))
def test_verdicts_are_those_of_going_through_every_byte(seed: int) -> None:
    engine = drawn(random.Random(seed))
    report = prove_engine(engine)
    checked = 0
    for pool in engine.sub_pools:
        expected = truth(engine, pool)
        for claim, holds in expected.items():
            result = next((r for r in report.obligations if r.claim == f"engine/e/{pool.name}/{claim}"), None)
            if result is None:  # nothing is to be aligned
                assert claim.endswith("aligned")
                assert holds
                continue
            if expected["a_page_fits"] or claim == "a_page_fits":
                assert result.grade == (PROVED if holds else REFUTED), (result, pool)
            elif claim != "rows_are_disjoint":
                assert result.grade == UNKNOWN  # no page is left to speak of
            checked += 1
    assert checked


@pytest.mark.parametrize("seed", range(20))
def test_the_first_page_that_wraps(seed: int) -> None:
    engine = drawn(random.Random(1000 + seed))
    for pool in engine.sub_pools:
        index, result = pool.index, found(engine, f"{pool.name}/no_index_wraps")
        items = {part.item_bytes for part in pool.layout.parts}
        if index.unit == "elements" and len(items) > 1:
            continue  # told in tests/spec/test_shapes.py
        last = 1 if index.unit == "bytes" else max(items)
        bad = [page for page, _, end, _ in rows(engine, pool, 0) if (end - last) // last > index.limit]
        if not engine.pages(pool):
            assert result.grade == UNKNOWN
        elif bad:
            assert result.grade == REFUTED
            assert f"page {min(bad)} is the first bad one of {engine.pages(pool)}" in result.note
        else:
            assert result.grade == PROVED


# -------------------------------------------------------------------------------------------------------- verdicts


def test_a_sound_engine_is_proved_with_witnesses_and_twins() -> None:
    report = prove_engine(described(8192, kv(), state(), alignment=16, max_requests=3))
    assert report.passed
    assert set(grades(report).values()) == {PROVED}
    assert len(report.obligations) == 2 * 9 + 2
    assert all(r.witness and r.twins for r in report.obligations)
    assert {tag for r in report.obligations for tag in r.tags} == {"I11", "I14", "I16", "I22"}


def test_a_twin_that_is_not_refuted_fails_the_claim() -> None:
    for question in questions(described(8192, kv(), state(), alignment=16)):
        assert decide(question, "e").grade == PROVED
        harmless = replace(question, twin=question.formula)
        assert decide(harmless, "e").grade == UNKNOWN, question.claim


def test_a_premise_that_nothing_meets_fails_the_claim() -> None:
    for question in questions(described(8192, kv(), state(), alignment=16)):
        never = replace(question, exists=("false",))
        assert decide(never, "e").grade == UNKNOWN, question.claim


def test_a_counterexample_that_is_none_is_no_refutation() -> None:
    for question in questions(described(8192, kv(), state(), alignment=16)):
        claimed = replace(question, formula=question.twin)  # the solver's `sat` speaks of other numbers
        assert decide(claimed, "e").grade == UNKNOWN, question.claim


def test_a_solver_that_gives_up_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "solve", lambda text, limit: Answer("unknown", "gave up"))
    report = prove_engine(described(8192, kv()))
    assert set(grades(report).values()) == {UNKNOWN}
    assert not report.passed


def test_stated_strides_that_are_too_small_are_refuted_with_the_bytes() -> None:
    engine = described(8192, kv(page_bytes=240))
    assert found(engine, "full/rows_are_disjoint").grade == REFUTED
    inside = found(engine, "full/rows_are_inside_the_page")
    assert inside.grade == REFUTED
    assert "2 layers use 256 bytes of a page of 240; set page_bytes to at least 256" in inside.note
    # the layers overlap although the page is large enough
    layers = found(described(8192, kv(layer_bytes=96, page_bytes=256)), "full/rows_are_disjoint")
    assert layers.grade == REFUTED
    assert "a layer uses 128 bytes of layer_bytes 96" in layers.note


def test_misaligned_pages_and_rows_are_refuted_with_the_remedy() -> None:
    engine = described("1 MiB", kv(), state(), alignment=32)
    assert found(engine, "full/pages_are_aligned").grade == PROVED
    pages = found(engine, "state/pages_are_aligned")  # 528 = 16 * 33
    assert pages.grade == REFUTED
    assert "page 1 is the first bad one: it starts at byte 528, which is 16 more than a multiple of 32" in pages.note
    assert "to 544 with page_bytes" in pages.note
    padded = described("1 MiB", kv(), state(pad_to=32), alignment=32)
    assert found(padded, "state/pages_are_aligned").grade == PROVED
    assert found(padded, "state/rows_are_aligned").grade == PROVED
    # rows of 16 bytes cannot all start at multiples of 32
    assert found(described("1 MiB", kv(), alignment=32), "full/rows_are_aligned").grade == REFUTED


def test_the_index_is_the_first_that_wraps() -> None:
    narrow = {"bits": 32, "signed": True, "unit": "elements"}
    # 1 MiB pages of bf16: 2**31 elements are 4096 pages
    pool = kv(layers=1, kv_heads=1, head_dim=65536, page_size=4, index=narrow)
    assert found(described("4 GiB", pool), "full/no_index_wraps").grade == PROVED
    over = found(described(4097 << 20, pool), "full/no_index_wraps")
    assert over.grade == REFUTED
    assert "page 4096 is the first bad one of 4097: element index 2148007935 of its v wraps to -2146959361" in over.note
    assert "at least 33 bits" in over.note
    unsigned = {**pool, "index": {**narrow, "signed": False}}
    assert found(described("8 GiB", unsigned), "full/no_index_wraps").grade == PROVED
    assert "page 8192" in found(described(8193 << 20, unsigned), "full/no_index_wraps").note
    in_bytes = {**pool, "index": {**narrow, "unit": "bytes"}}
    assert "page 2048" in found(described("4 GiB", in_bytes), "full/no_index_wraps").note


def test_a_view_reaches_further_than_the_buffer() -> None:
    pool = state(layers=100, index={"bits": 16, "signed": False, "unit": "bytes"})  # slots of 17,600 bytes
    assert "page 3 " in found(described("1 MiB", pool), "state/no_index_wraps").note  # 4 * 17,600 > 65,536
    pool["index"]["base"] = "view"
    # the last conv window of slot 3 ends at 3 * 17,600 + 48 in its view; slot 4 is beyond
    assert "page 4 " in found(described("1 MiB", pool), "state/no_index_wraps").note


def test_a_request_that_does_not_fit_is_told_with_the_smallest_buffer() -> None:
    # sink 528; 16 pages of 256 from byte 768 to 4864; one slot from 10 * 528 = 5280 to 5808
    engine = described(5807, kv(), state())
    result = found(engine, "buffer/one_request_fits")
    assert result.grade == REFUTED
    assert "16 pages of full (4096 bytes), 1 slot of state (528 bytes) beside the sink (528 bytes)" in result.note
    assert "smallest total_bytes that fits is 5808, there are 5807" in result.note
    assert "max_context to at most 60" in result.note  # 15 pages end at 4608, a slot at 9 * 528 = 4752 to 5280
    assert longest_context(engine) == 60
    assert found(described(5808, kv(), state()), "buffer/one_request_fits").grade == PROVED


def test_track_buffers_and_checkpoints_are_part_of_a_request() -> None:
    checkpoint = {"name": "saved", "kind": "checkpoint", "of": "state", "grows": "float", "scale_dtype": "float32"}
    # a checkpoint is 3 x (32 + 2 x 4 x 4 + 48) = 336 bytes; from 4864: page 15 (5040) to 5376; 3 slots from 11 x 528
    for total, grade in ((14 * 528, PROVED), (14 * 528 - 1, REFUTED)):
        engine = described(total, kv(), state(slots_per_request=3), checkpoint)
        assert found(engine, "buffer/one_request_fits").grade == grade


def test_as_many_requests_as_are_promised_must_start() -> None:
    # a page and a slot each: 5 pages of 256 from 768 end at 2048, 5 slots from 4 * 528 end at 9 * 528 = 4752
    def started(total: int) -> Result:
        return found(described(total, kv(), state(), max_requests=5, max_context=1), "buffer/every_request_can_start")

    assert started(4752).grade == PROVED
    assert "set total_bytes to it, or max_requests to at most 4" in started(4751).note


def test_a_page_larger_than_the_buffer() -> None:
    engine = described(500, kv(), state())
    result = found(engine, "state/a_page_fits")
    assert result.grade == REFUTED
    assert "500 bytes have no page of 528 bytes above the sink of 528 bytes" in result.note
    assert "set total_bytes to at least 1056" in result.note
    assert found(engine, "state/rows_are_inside_the_page").grade == UNKNOWN
    assert found(engine, "buffer/one_request_fits").grade == REFUTED


def test_a_window_that_slides_needs_fewer_pages_than_a_whole_prompt() -> None:
    window = kv(name="window", kind="window", grows="down", window=8, ids_of="full")
    # a window of 8 and a step of 4: 12 tokens touch 4 pages; sink 256, 16 + 4 pages of 256 behind it
    assert found(described(21 * 256, kv(), window, max_step_tokens=4), "buffer/one_request_fits").grade == PROVED
    assert found(described(21 * 256 - 1, kv(), window, max_step_tokens=4), "buffer/one_request_fits").grade == REFUTED
    whole = found(described(21 * 256, kv(), window), "buffer/one_request_fits")
    assert whole.grade == REFUTED
    assert f"fits is {33 * 256}" in whole.note


def test_patterns_choose_claims_and_idle_ones_are_loud() -> None:
    engine = described(8192, kv(), state(), alignment=16)
    for only, number in (
        (["engine/e/full/*"], 9),
        (["rows_are_disjoint"], 2),
        (["I22"], 2),
        (["I22", "engine/e/buffer/*"], 3),
    ):
        assert len(prove_engine(engine, EngineOptions(only=only)).obligations) == number
    with pytest.raises(SubjectError, match=r"'slots/\*' matches no claim of this engine; .* I11, I14, I16, I22"):
        prove_engine(engine, EngineOptions(only=["I22", "slots/*"]))


def test_a_second_solver_agrees() -> None:
    report = prove_engine(described(8192, kv(), state(), alignment=16), EngineOptions(second="cvc5"))
    assert {r.second for r in report.obligations} == {"unsat"}


@pytest.mark.parametrize("name", MODELS)
def test_every_shipped_model_is_proved_with_wide_indices(name: str) -> None:
    head = {"name": "e", "total_bytes": "160 GiB", "model": name, "page_size": 16, "index": WIDE}
    more = {"checkpoints": True} if MODELS[name].linear else {}
    report = prove_engine(engine_of({"engine": {**head, **more}}))
    assert report.failures == []
