"""The proofs of spec/schedule.py: instances for the controls, planted faults, and what is declared about them."""

from typing import Any

from poolproof.proofs.buffer import canonical as canonical_buffer
from poolproof.proofs.subject import Subject
from poolproof.proofs.twins.schedule import TWINS
from poolproof.spec.schedule import SPEC, Schedule


def _over(buffer: dict[str, Any], steps: int, leases: int) -> dict[str, Any]:
    """An instance: a buffer, and so many steps and leases over it."""
    return {**{f"buffer.{name}": value for name, value in buffer.items()}, "steps": steps, "leases": leases}


PAIR = {
    "sub_pools": 2,
    "pages": 5,
    "virtual_ids": 3,
    "total": 5,
    "page_bytes": (1, 2),
    "ids": (3, 2),
    "id_owner": (0, 1),
    "zeroed": (True, False),
    "sink_bytes": 2,
    "bottom": 2,
    "top": 2,
}

SMALL = _over(PAIR, steps=2, leases=1)

SUBJECT = Subject(
    spec=SPEC,
    twins=TWINS,
    mutant_sizes=(SMALL,),
    explore_sizes=(SMALL,),
    explore_limit=4_000,
    ref="poolproof.proofs.schedule:SUBJECT",
)
