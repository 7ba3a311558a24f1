"""The table of public faults: whole, with no fault both planted and excused, and with claims that exist."""

from __future__ import annotations

import re

import pytest

from poolproof.proofs.faults import FAULTS, GROUPS, NOT_EXPRESSED, WHOLE, table, tags_of
from poolproof.proofs.subject import SHIPPED, Twin, load
from poolproof.proofs.twins import buffer, schedule
from poolproof.spec.language.source import parse

SUBJECTS = {name: load(ref) for name, ref in SHIPPED.items()}
TWINS = [(name, twin) for name, subject in SUBJECTS.items() for twin in subject.twins]
PLANTED = {twin.fault for _, twin in TWINS}
NAMED = [fault for faults in FAULTS.values() for fault in faults]


def test_every_fault_is_in_one_group() -> None:
    assert FAULTS.keys() == GROUPS.keys()
    assert len(NAMED) == len(set(NAMED))


def test_no_fault_is_both_expressed_and_not_expressed() -> None:
    assert NOT_EXPRESSED.keys() & PLANTED == set()
    assert buffer.NOT_EXPRESSED.keys() & schedule.NOT_EXPRESSED.keys() == set()


def test_the_table_is_whole() -> None:
    assert {fault for group in WHOLE for fault in FAULTS[group]} <= PLANTED | NOT_EXPRESSED.keys()
    assert set(NAMED) == PLANTED | NOT_EXPRESSED.keys()
    assert all(len(reason) > 20 for reason in NOT_EXPRESSED.values())


def test_every_twin_has_a_row() -> None:
    rows = [(row.subject, row.twin) for row in table() if row.twin]
    assert sorted(rows) == sorted((name, twin.name) for name, twin in TWINS)
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize(("name", "twin"), TWINS, ids=lambda value: getattr(value, "name", value))
def test_what_a_twin_refutes_is_a_claim_about_its_action(name: str, twin: Twin) -> None:
    assert twin.refutes
    assert set(twin.refutes) <= tags_of(SUBJECTS[name], twin.action).keys()
    body = parse(twin.function)
    assert body.name == twin.name
    item = SUBJECTS[name].spec.action(twin.action) if twin.action else SUBJECTS[name].spec.initializer
    assert [arg.arg for arg in body.args.args[1:]] == [p.name for p in item.parameters]


@pytest.mark.parametrize("fault", sorted({twin.fault for name, twin in TWINS if name != "slots"}))
def test_a_claim_of_a_theorem_that_broke_refutes_the_fault(fault: str) -> None:
    broke = next(faults[fault] for faults in FAULTS.values() if fault in faults)
    tags: set[str] = set()
    for name, twin in TWINS:
        if twin.fault == fault:
            tags.update(*(tags_of(SUBJECTS[name], twin.action)[claim] for claim in twin.refutes))
    assert all(re.fullmatch(r"I\d+", tag) for tag in {*tags, *broke})
    assert tags & set(broke), f"{fault} broke {broke}, but is refuted by claims about {sorted(tags)}"
