"""The proofs of spec/slots.py: sizes for the controls, planted faults, and what is declared about them."""

from poolproof.proofs.subject import Subject
from poolproof.proofs.twins.slots import TWINS
from poolproof.spec.slots import SPEC

_FREE_ONLY = "it only touches slots that nobody held; a roster would be ill defined otherwise"

SUBJECT = Subject(
    spec=SPEC,
    twins=TWINS,
    mutant_sizes=({"total": 3}, {"total": 1}),
    explore_sizes=({"total": 4},),
    implied={
        "*/*_is_a_bijection": "a roster changes only through its own operations, each of which keeps the bijection",
        "alloc/a_change_of_hands_ends_the_tenancy": _FREE_ONLY,
        "reserve/a_change_of_hands_ends_the_tenancy": _FREE_ONLY,
        "take/a_change_of_hands_ends_the_tenancy": _FREE_ONLY,
        "open_group/a_reserve_needs_an_open_group": "opening a group makes the premise false",
        "take/a_reserve_needs_an_open_group": "the reserve only shrinks; adding to it is ill defined",
    },
    ref="poolproof.proofs.slots:SUBJECT",
)
