"""The tour of the buffer: its names are names of the specs, its tables are whole."""

from __future__ import annotations

import re
from typing import Any

from test_documents import ROOT

from poolproof.proofs import buffer as buffer_proofs
from poolproof.spec.buffer import SPEC as BUFFER
from poolproof.spec.language import Item, Specification
from poolproof.spec.schedule import SPEC as SCHEDULE

PAGE = (ROOT / "docs" / "buffer.md").read_text()
SPECS: tuple[Specification[Any], ...] = (BUFFER, SCHEDULE)
TAG_ROW = r"^\| (I\d+) \|(.*)\|(.*)\|$"


def claims(spec: Specification[Any]) -> dict[str, Item]:
    """The claims of a specification that its module states, by name."""
    own = [e for item in [*spec.actions, spec.initializer] for e in spec.ensures(item)]
    return {item.name: item for item in [*spec.invariants, *spec.theorems, *spec.steps, *own]}


def section(title: str) -> str:
    """The text below one heading."""
    return re.split(r"^## ", PAGE.split(f"## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def first_column(title: str) -> set[str]:
    """The names in the first column of the tables of a section."""
    return set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section(title), re.M))))


def test_every_action_is_in_its_table() -> None:
    assert first_column("The life of a page") == {item.name for item in BUFFER.actions}
    assert first_column("Steps in flight") == {item.name for item in SCHEDULE.actions}


def test_every_claim_named_under_a_tag_carries_it() -> None:
    rows = re.findall(TAG_ROW, section("What is proved, by tag"), re.M)
    for tag, *columns in rows:
        for spec, column in zip(SPECS, columns, strict=True):
            known = claims(spec)
            named = re.findall(r"`(\w+)`", column)
            assert [name for name in named if name not in known or tag not in known[name].tags] == []


def test_every_tag_has_a_row() -> None:
    used = {tag for spec in SPECS for item in claims(spec).values() for tag in item.tags}
    assert [row[0] for row in re.findall(TAG_ROW, PAGE, re.M)] == sorted(used, key=lambda tag: int(tag[1:]))


def test_progress_lemmas_are_about_progress() -> None:
    tags = {name: item.tags for spec in SPECS for name, item in claims(spec).items()}
    lemmas = first_column("Progress, exactly")
    assert lemmas
    assert {name for name in lemmas if not {"I4", "I11"} & set(tags.get(name, ()))} == set()


def test_every_other_name_is_one_of_the_specs() -> None:
    known = {"HOME", "CHAIN", "WINDOW", "SMALL", "SINGLE", "SubPool"}
    for spec in SPECS:
        known |= set(spec.state.__annotations__) | set(claims(spec))
        items = [*spec.actions, *spec.definitions, *spec.assumptions]
        known |= {item.name for item in items}
    prose = re.sub(r"^```.*?^```$", "", PAGE, flags=re.S | re.M)
    assert {name for name in re.findall(r"`([A-Za-z_]{3,})`", prose) if name not in known} == set()
    assert all(hasattr(buffer_proofs, name) for name in ("CHAIN", "WINDOW", "SMALL", "SINGLE"))
