"""Tables with several keys, tables of containers, given fields and performed actions are proved where they are right,
and every planted fault is refuted by a step that is confirmed, saved and replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from granary_text import ESTATE, GRANARY, planted

from poolproof.proofs import tasks
from poolproof.proofs.counterexample import Counterexample, replay, save, search, state_from_plain
from poolproof.proofs.prove import Options, prove

Module = Callable[[str], Any]


@pytest.fixture
def granary(make: Module) -> Module:
    """The granary's module, from its text."""
    return make


@pytest.fixture
def estate(make: Module) -> Module:
    """The product's module from its text, over a granary without faults."""

    def made(text: str) -> Any:
        return make(text.replace("GRANARY_MODULE", make(GRANARY).__name__))

    return made


def test_what_is_right_is_proved(granary: Module, estate: Module) -> None:
    subjects = [granary(GRANARY).SUBJECT, estate(ESTATE).SUBJECT]
    report = prove(subjects, Options(use_cache=False))
    assert {r.claim: r.note for r in report.obligations if r.grade not in ("PROVED", "EXHAUSTED", "EXPLORED")} == {}
    assert [c.name for c in report.mutants if not c.broken and not c.reason] == []
    assert [c.name for c in report.twins if not set(c.expected) <= set(c.broken)] == []
    assert report.problems == []
    counted = next(r for r in report.obligations if r.claim == "granary/store/preserves/filled_places_are_counted")
    assert "store: drops `granary.filled[silo] += 1`" in counted.twins


CLEAR = '"""Everything is gone."""\n'
STORE = "granary.owner[silo, sack] = cart\n"
WHOLE_CLEAR = GRANARY[GRANARY.index(CLEAR) : GRANARY.index('@invariant("G1")')]
FETCH_ALL = "perform(fetch, estate.granary, silo, sack, cart)"


def in_clear(old: str, new: str) -> tuple[str, str]:
    """A change of the action that clears everything."""
    return WHOLE_CLEAR, planted(WHOLE_CLEAR, (old, new))


FAULTS: dict[str, tuple[tuple[str, str], str, str, str]] = {
    "an entry of a table of two keys is not written": (
        (f"    {STORE}", ""),
        "store/preserves/free_places_are_listed",
        "iff(granary.free[k].has(i), granary.owner[k, i] == NOBODY)",
        "store(silo=",
    ),
    "an entry is written with another part of the key": (
        (STORE, "granary.owner[silo, Sack(0)] = cart\n"),
        "store/ensures/a_store_takes_one_place",
        "k=0, i=0: or_(and_(k == silo, i == sack), pre.owner[k, i] == post.owner[k, i])",
        "store(silo=0, sack=1",
    ),
    "a bulk update of a table of two keys reaches too far": (
        ("where=lambda k, i: granary.owner[k, i] == cart", "where=lambda k, i: i >= Sack(0)"),
        "hand_over/preserves/free_places_are_listed",
        "iff(granary.free[k].has(i)",
        "hand_over(cart=",
    ),
    "a key is outside in its second part": (
        (STORE, "granary.owner[silo, sack + 1] = cart\n"),
        "store/is_well_defined",
        "outside a table of 2 entries",
        "store(silo=",
    ),
    "a member stays on its roster": (
        ("    granary.free[silo].remove(sack)\n", ""),
        "store/preserves/free_places_are_listed",
        "iff(granary.free[k].has(i)",
        "store(silo=",
    ),
    "a member goes to another roster": (
        ("    granary.free[silo].add(sack)\n", "    granary.free[Silo(0)].add(sack)\n"),
        "fetch/is_well_defined",
        "0 is a member already",
        "fetch(silo=1",
    ),
    "all rosters are empty where they should be full": (
        in_clear("granary.free.fill(lambda k: Sack(0), lambda k: granary.sacks)", "granary.free.empty()"),
        "clear/ensures/a_clear_leaves_nothing",
        "post.free[k].size == pre.sacks",
        "clear()",
    ),
    "a roster is filled beyond its table": (
        ("lambda k: granary.sacks)", "lambda k: granary.sacks + granary.weight[k] - 1)"),
        "init/is_well_defined",
        "is outside a table of",
        "build()",
    ),
    "a pair is not added to a set of a table": (
        ("    granary.load[cart] = granary.load[cart].with_((silo, sack))\n", ""),
        "store/preserves/what_is_owned_is_loaded",
        "granary.load[granary.owner[k, i]].has((k, i))",
        "store(silo=",
    ),
    "sets of a table are not joined": (
        (".join(granary.load[cart])", ".minus(granary.load[cart])"),
        "hand_over/ensures/a_hand_over_leaves_nothing",
        "post.load[other].has((k, i))",
        "hand_over(cart=",
    ),
    "a set of a table is not emptied": (
        ("    granary.load[cart] = granary.load[cart].none()\n", ""),
        "hand_over/preserves/loads_are_owned",
        "granary.owner[k, i] == c",
        "hand_over(cart=",
    ),
    "the sets of a table are not emptied": (
        in_clear("    granary.load.empty()\n", ""),
        "clear/preserves/loads_are_owned",
        "granary.owner[k, i] == c",
        "clear()",
    ),
    "a pair stays in a set": (
        ("    granary.held = granary.held.without((silo, sack))\n", ""),
        "fetch/preserves/held_places_have_an_owner",
        "granary.owner[k, i] != NOBODY",
        "fetch(silo=",
    ),
    "a set of pairs is not emptied": (
        in_clear("granary.held.minus(granary.held)", "granary.held"),
        "clear/preserves/held_places_have_an_owner",
        "granary.owner[k, i] != NOBODY",
        "clear()",
    ),
    "one of many counts is off": (
        ("granary.filled[silo] += 1", "granary.filled[silo] += 2"),
        "store/preserves/filled_places_are_counted",
        "counts(granary.filled[k], granary.all(Sack)",
        "store(silo=",
    ),
    "another count moves": (
        ("granary.filled[silo] -= 1", "granary.filled[Silo(0)] -= 1"),
        "fetch/preserves/filled_places_are_counted",
        "counts(granary.filled[k], granary.all(Sack)",
        "fetch(silo=1",
    ),
    "no count is reset": (
        in_clear("    granary.filled.relabel(lambda k: 0)\n", ""),
        "clear/preserves/filled_places_are_counted",
        "counts(granary.filled[k], granary.all(Sack)",
        "clear()",
    ),
    "a given table is forgotten": (
        ("granary.mass[silo] += granary.weight[silo]", "granary.mass[silo] += 1"),
        "store/preserves/mass_is_weight_by_number",
        "granary.mass[k] == granary.filled[k] * granary.weight[k]",
        "store(silo=",
    ),
    "a claim about pairs reads outside": (
        ("and_(is_place(granary, k, i), lambda: granary.owner[k, i] == c)", "granary.owner[k, i] == c"),
        "invariant/loads_are_owned/is_well_defined",
        "outside a table of",
        "",
    ),
    "a theorem about a roster is false": (
        ("lambda: granary.free[silo].size > 0", "lambda: granary.free[silo].size >= 0"),
        "theorem/a_free_place_can_be_used",
        "exists(granary.all(Sack), lambda sack: enabled(store, granary, silo, sack, cart)",
        "for a_free_place_can_be_used(silo=",
    ),
}

PRODUCT_FAULTS: dict[str, tuple[tuple[str, str], str, str, str]] = {
    "nothing is performed": (
        (
            "    perform(store, estate.granary, silo, sack, cart)\n",
            "    require(is_place(estate.granary, silo, sack))\n",
        ),
        "deliver/preserves/what_is_kept_is_in_a_silo",
        "estate.granary.owner[k, i] != NOBODY",
        "deliver(farmer=",
    ),
    "something else is performed": (
        (FETCH_ALL, "perform(fetch, estate.granary, silo, Sack(0), cart)"),
        "collect/ensures/a_collection_is_over",
        "post.granary.free[silo].has(sack)",
        "collect(farmer=",
    ),
    "the product forgets what it performed": (
        ("    estate.kept[farmer] = estate.kept[farmer].without((silo, sack))\n", ""),
        "collect/preserves/what_is_kept_is_in_a_silo",
        "estate.granary.owner[k, i] != NOBODY",
        "collect(farmer=",
    ),
    "a field of the product is off": (
        ("estate.due[farmer] += estate", "estate.due[farmer] -= estate"),
        "deliver/preserves/nobody_is_owed",
        "estate.due[f] >= 0",
        "deliver(farmer=",
    ),
    "a guard of the product is missing": (
        ("    require(estate.kept[farmer].has((silo, sack)))\n", ""),
        "collect/preserves/what_is_kept_is_in_a_silo",
        "estate.granary.owner[k, i] != NOBODY",
        "collect(farmer=",
    ),
}


def refuted(made: Any, claim: str) -> Counterexample:
    """The counterexample to a claim that the solver finds and a run confirms."""
    found = search(made.SUBJECT, tasks.obligations_of(made.SUBJECT)[claim])
    assert found is not None
    return found


def survives_saving(found: Counterexample, made: Any, mended: Any, folder: Path) -> None:
    """It is replayed from its file as it was, and no longer where the fault is mended; its states are states again."""
    saved = save(found, folder).with_suffix(".json")
    again = replay(saved, made.SUBJECT)
    assert again is not None
    assert again.table() == found.table()
    if (found.after or found.before) != found.before:
        assert "->" in found.table()
    assert replay(saved, mended.SUBJECT) is None
    for plain in (found.before, found.after or found.before):
        assert state_from_plain(made.SPEC.state, json.loads(json.dumps(plain))).plain() == plain


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Both modules without faults."""
    import importlib
    import sys

    folder = tmp_path_factory.mktemp("mended")
    (folder / "mended_granary.py").write_text(GRANARY)
    (folder / "mended_estate.py").write_text(ESTATE.replace("GRANARY_MODULE", "mended_granary"))
    sys.path.insert(0, str(folder))
    try:
        return {name: importlib.import_module(f"mended_{name}") for name in ("granary", "estate")}
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize(("change", "claim", "because", "step"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_a_table_is_refuted(
    granary: Module, mended: Any, tmp_path: Path, change: tuple[str, str], claim: str, because: str, step: str
) -> None:
    made = granary(planted(GRANARY, change))
    found = refuted(made, f"granary/{claim}")
    assert because in found.conjunct
    assert step in found.call
    survives_saving(found, made, mended["granary"], tmp_path / "saved")


@pytest.mark.parametrize(("change", "claim", "because", "step"), PRODUCT_FAULTS.values(), ids=PRODUCT_FAULTS)
def test_a_fault_in_a_product_is_refuted(
    estate: Module, mended: Any, tmp_path: Path, change: tuple[str, str], claim: str, because: str, step: str
) -> None:
    made = estate(planted(ESTATE, change))
    found = refuted(made, f"estate/{claim}")
    assert because in found.conjunct
    assert step in found.call
    survives_saving(found, made, mended["estate"], tmp_path / "saved")


def test_a_component_with_a_fault_is_seen_by_its_own_claims_only(make: Module) -> None:
    """The product takes the component's invariants as given; it is the component's run that refutes them."""
    faulty = make(planted(GRANARY, (f"    {STORE}", "")))
    product = make(ESTATE.replace("GRANARY_MODULE", faulty.__name__))
    claims = set(tasks.obligations_of(product.SUBJECT))
    assert not {claim for claim in claims if "free_places_are_listed" in claim or "is_a_bijection" in claim}
    assert refuted(faulty, "granary/store/preserves/free_places_are_listed").violated


def test_a_saved_state_that_does_not_fit_is_loud(mended: Any) -> None:
    from poolproof.spec.language import SpecError

    made = mended["granary"]
    plain = made.SPEC.initial(**made.SMALL).plain()
    for change in ({"weight": [1]}, {"grain": ["RYE", "BARLEY"]}, {"owner": [[0, 0], [0, 0]]}, {"free": [[0]] * 3}):
        with pytest.raises(SpecError, match=r"does not fit Granary|value\(s\) for a table of 2"):
            state_from_plain(made.Granary, plain | change)
