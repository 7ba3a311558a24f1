"""Loads and second stores of the codec, case by case: the arrays are the definition's, and every fault is found."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from poolproof.proofs import codec_cases
from poolproof.proofs.codec_cases import CODES, LOAD_FAULTS, MOVES, SECOND_FAULTS, codes, loaded
from poolproof.proofs.results import EXHAUSTED, REFUTED
from poolproof.spec.codec import BFLOAT16, FLOAT16, Channel, Format, load, store

for_both = pytest.mark.parametrize("storage", codec_cases.FORMATS, ids=lambda storage: storage.name)


def cast(storage: Format, values: np.ndarray) -> np.ndarray:
    """What numpy and ml-dtypes make of float64 numbers; bfloat16 by way of float32, in which the products are exact."""
    with np.errstate(over="ignore"):
        if storage is FLOAT16:
            return values.astype(np.float16).astype(np.float64)
        return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


@for_both
def test_every_load_is_the_cast_cut_to_the_range(storage: Format) -> None:
    scale, largest = codec_cases.scales(storage)[:, np.newaxis], float(storage.largest)
    for part in np.array_split(scale, 100):
        expected = np.clip(cast(storage, CODES * part), -largest, largest)
        assert np.array_equal(loaded(storage, CODES, part), expected)


@for_both
def test_the_scales_are_those_that_occur(storage: Format) -> None:
    """Of every maximum the first number whose 127-fold is not below it, from the least scale on."""
    amax, stated = codec_cases.maxima(storage)
    bits = np.arange({"bfloat16": 0x7F80, "float16": 0x7C00}[storage.name], dtype=np.uint16)
    assert np.array_equal(amax, bits.view(ml_dtypes.bfloat16 if storage is BFLOAT16 else np.float16).astype(float))
    least = np.maximum(amax[np.searchsorted(127 * amax, amax)], float(storage.least_scale))
    assert np.array_equal(stated, least)
    assert np.array_equal(codec_cases.scales(storage), sorted(set(least.tolist())))


def test_loads_by_hand() -> None:
    """In bfloat16 numbers from 64 to 128 are halves: 127.992 is loaded as 128, 96.75, a tie, as 97, which is even."""
    of = np.array([129 / 128])
    assert loaded(BFLOAT16, np.array([127.0, 96.0, 64.0, 0.0]), of).tolist() == [128, 97, 64.5, 0]
    tie = (BFLOAT16, np.array([96.0, -96.0]), np.array([131 / 128]))  # 98.25
    assert loaded(*tie).tolist() == [98, -98]
    assert codec_cases.half_away(*tie).tolist() == [98.5, -98.5]
    assert codec_cases.cut_off(BFLOAT16, np.array([127.0, -127.0, 1.0]), of).tolist() == [127.5, -127.5, 129 / 128]
    assert loaded(FLOAT16, np.array([127.0, -127.0]), np.array([516.0])).tolist() == [65504, -65504]


@pytest.mark.parametrize(("storage", "spacings"), [(BFLOAT16, 0.984375), (FLOAT16, 0.875)])
def test_one_product_passes_the_largest_number(storage: Format, spacings: float) -> None:
    product, largest = codec_cases.scales(storage) * 127, float(storage.largest)
    assert np.flatnonzero(product > largest).tolist() == [product.size - 1]
    assert (product[-1] - largest) / float(storage.spacing(storage.largest)) == spacings
    assert product[-1] * 126 / 127 < largest


def test_spacing_is_the_definitions() -> None:
    for storage in codec_cases.FORMATS:
        least = float(storage.least)
        for value in (0.0, least, 129 * least, 1.0, -1.75, 127.9921875, float(storage.largest) * 1.004):
            assert codec_cases.spacing(storage, np.array([value]))[0] == storage.spacing(Fraction(value))


REASONS = {
    "cut_off": "not the nearest",
    "half_away": "not the nearest",
    "unsaturated": "not finite",
    "not_a_number": "not finite",
    "negative_zero": "no +0",
    "unsigned": "not odd",
    "out_of_order": "out of order",
}


@for_both
@pytest.mark.parametrize("fault", LOAD_FAULTS, ids=lambda fault: fault.__name__)
def test_every_fault_of_loading_is_found_for_its_reason(storage: Format, fault: codec_cases.Load) -> None:
    bad = codec_cases.bad_loads(storage, fault, codec_cases.SAMPLE)
    assert any(REASONS[fault.__name__] in line for line in bad)
    assert codec_cases.bad_loads(storage, loaded, codec_cases.SAMPLE) == []


@for_both
@pytest.mark.parametrize("name", ["cut_off", "half_away", "unsaturated", "unsigned", "out_of_order"])
def test_the_sample_on_fractions_finds_faults_too(storage: Format, name: str) -> None:
    """The largest scale is in it."""
    assert codec_cases.loads_unlike_the_spec(storage, loaded, 4999) == []
    assert codec_cases.loads_unlike_the_spec(storage, getattr(codec_cases, name), 4999)


@for_both
def test_every_code_is_in_the_sample(storage: Format) -> None:
    at = np.arange(codec_cases.scales(storage).size * CODES.size)[:: -codec_cases.SAMPLE]
    assert set((at % CODES.size).tolist()) == set(range(255))


def row(storage: Format, amax: float) -> list[float]:
    """Scale, code, loaded, second scale of one maximum."""
    stores = codec_cases.second_stores(storage, loaded, codes)
    (at,) = np.flatnonzero(stores[0] == amax)
    return stores[1:, at].tolist()


def test_second_stores_by_hand() -> None:
    """127.5 is loaded as 128, which takes the next scale; with that, 65 codes of the first are 64.49."""
    assert row(BFLOAT16, 127.5) == [129 / 128, 127, 128, 130 / 128]
    back = load(BFLOAT16, Channel((127, 65), Fraction(129, 128)))
    assert back == [128, 65.5]
    assert store(BFLOAT16, back) == Channel((126, 64), Fraction(130, 128))


def test_the_farthest_move_by_hand() -> None:
    """In least numbers: 890 needs the scale 8 and comes back as 888, for which 7 will do: 109 * 8 / 7 is 124.57."""
    least = float(FLOAT16.least)
    assert row(FLOAT16, 890 * least) == [8 * least, 111, 888 * least, 7 * least]
    back = load(FLOAT16, Channel((111, 109), 8 * FLOAT16.least))
    assert store(FLOAT16, back) == Channel((127, 125), 7 * FLOAT16.least)


@for_both
@pytest.mark.parametrize("name", SECOND_FAULTS)
def test_every_fault_of_a_second_store_is_found(storage: Format, name: str) -> None:
    assert codec_cases.bad_second_stores(storage, *SECOND_FAULTS[name], codec_cases.SOME)


@for_both
def test_faults_are_found_by_scales_by_codes_and_by_the_sample(storage: Format) -> None:
    some = codec_cases.SOME
    stores = codec_cases.second_stores(storage, codec_cases.of_128_codes, codes, some)
    assert codec_cases.bad_second_scales(storage, stores)
    stores = codec_cases.second_stores(storage, loaded, codes, some)
    assert codec_cases.bad_second_scales(storage, stores) == []
    assert codec_cases.bad_second_codes(storage, stores, loaded, codec_cases.truncated)
    for fault in SECOND_FAULTS.values():
        assert codec_cases.second_stores_unlike_the_spec(storage, *fault, some)


@pytest.mark.parametrize(
    ("storage", "less"), [(BFLOAT16, (0, 0)), (FLOAT16, (0, 15))], ids=lambda value: getattr(value, "name", None)
)
def test_codes_do_move_as_far_as_is_said(
    storage: Format, less: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = codec_cases.second_stores(storage, loaded, codes)
    assert codec_cases.bad_second_codes(storage, stores, loaded, codes) == []
    monkeypatch.setitem(MOVES, storage, less)
    assert codec_cases.bad_second_codes(storage, stores, loaded, codes)


@for_both
def test_second_scales_go_both_ways(storage: Format) -> None:
    _, scale, _, _, second = codec_cases.second_stores(storage, loaded, codes)
    assert (second > scale).any()
    assert (second < scale).any()


@for_both
def test_the_results_count_their_cases(storage: Format) -> None:
    of_loads, of_stores = codec_cases.every_load(storage, 0.0), codec_cases.every_second_store(storage, 0.0)
    assert [r.claim for r in (of_loads, of_stores)] == [
        f"codec/{storage.name}/every_load",
        f"codec/{storage.name}/every_second_store",
    ]
    assert [(r.grade, r.note) for r in (of_loads, of_stores)] == [(EXHAUSTED, "")] * 2
    amax, stated = codec_cases.maxima(storage)
    assert of_loads.witness == f"{255 * len(set(stated.tolist()))} cases"
    _, scale, q, _, second = codec_cases.second_stores(storage, loaded, codes)
    channels = set(zip(scale.tolist(), q.tolist(), second.tolist(), strict=True))
    assert of_stores.witness == f"{len(amax) + sum(int(largest) + 1 for _, largest, _ in channels)} cases"
    assert [len(r.twins) for r in (of_loads, of_stores)] == [len(LOAD_FAULTS), len(SECOND_FAULTS)]


def test_a_fault_that_is_not_found_withholds_the_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_cases, "LOAD_FAULTS", (loaded,))
    monkeypatch.setattr(codec_cases, "SECOND_FAULTS", {"none": (loaded, codes)})
    for result in (codec_cases.every_load(FLOAT16, 0.0), codec_cases.every_second_store(FLOAT16, 0.0)):
        assert (result.grade, result.twins) == (REFUTED, [])
        assert "was not found" in result.note


def test_a_faulty_load_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def coarse(storage: Format, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Every other number of the format."""
        step = 2 * codec_cases.spacing(storage, q * scale)
        return np.rint(q * scale / step) * step

    few = codec_cases.scales(FLOAT16)[-1000:]
    monkeypatch.setattr(codec_cases, "scales", lambda storage: few)
    monkeypatch.setattr(codec_cases, "loaded", coarse)
    for result in (codec_cases.every_load(FLOAT16, 0.0), codec_cases.every_second_store(FLOAT16, 0.0)):
        assert result.grade == REFUTED
        assert result.note


def test_the_claims_are_named() -> None:
    assert codec_cases.claims() == [
        f"codec/{name}/every_{what}"
        for name in ("bfloat16", "float16")
        for what in ("maximum", "threshold", "load", "second_store")
    ]
