"""The proofs of spec/buffer.py: instances for the controls, planted faults, and what is declared about them."""

from typing import Any

from poolproof.proofs.subject import Subject
from poolproof.proofs.twins.buffer import TWINS
from poolproof.spec.buffer import SINK, SPEC, Buffer, SubPool, Virtual

SMALL = {
    "sub_pools": 3,
    "pages": 8,
    "virtual_ids": 3,
    "total": 8,
    "page_bytes": (1, 2, 1),
    "ids": (3, 3, 2),
    "id_owner": (0, 0, 2),
    "zeroed": (True, False, True),
    "sink_bytes": 2,
    "bottom": 3,
    "top": 7,
}

SINGLE = {
    "sub_pools": 1,
    "pages": 4,
    "virtual_ids": 3,
    "total": 4,
    "page_bytes": (1,),
    "ids": (3,),
    "id_owner": (0,),
    "zeroed": (True,),
    "sink_bytes": 1,
    "bottom": 1,
    "top": 0,
}

CHAIN = {
    "sub_pools": 3,
    "pages": 5,
    "virtual_ids": 3,
    "total": 5,
    "page_bytes": (1, 1, 1),
    "ids": (3, 3, 2),
    "id_owner": (0, 1, 2),
    "zeroed": (True, False, True),
    "sink_bytes": 1,
    "bottom": 1,
    "top": 5,
}

WINDOW = {
    "sub_pools": 2,
    "pages": 6,
    "virtual_ids": 3,
    "total": 6,
    "page_bytes": (1, 2),
    "ids": (3, 3),
    "id_owner": (0, 0),
    "zeroed": (False, True),
    "sink_bytes": 2,
    "bottom": 2,
    "top": 3,
}


def canonical(pool: Buffer) -> Any:
    """The state, with virtual ids named in the order of the pages that lead to them.

    Every real field is in it, so that two states with one key differ in the names of ids only.
    """
    names: dict[tuple[SubPool, Virtual], int] = {}

    def name(k: SubPool, v: Virtual) -> int:
        """What an id is called: the sink and no id by themselves, others by when they were met, unmet ones alike."""
        return v if v <= SINK else names.get((pool.id_owner[k], v), len(pool.virtual) + 1)

    for (k, _), v in pool.virtual.items():
        if v > SINK:
            names.setdefault((pool.id_owner[k], v), len(names) + 1)
    pages = tuple(name(k, v) for (k, _), v in pool.virtual.items())
    mapped = tuple(sorted((k, name(k, v), page) for (k, v), page in pool.physical.items()))
    free = (tuple(frozenset(roster) for roster in rosters.values()) for rosters in (pool.holes, pool.pending))
    ids = tuple(tuple(sorted(name(k, v) for v in roster)) for k, roster in pool.unmapped.items())
    plain = (tuple(table.values()) for table in (pool.first, pool.last, pool.bound))
    return pages, mapped, ids, *free, *plain


SUBJECT = Subject(
    spec=SPEC,
    twins=TWINS,
    mutant_sizes=(SMALL, SINGLE),
    explore_sizes=(CHAIN, WINDOW),
    explore_limit=200_000,
    canonical=canonical,
    redundant={
        "*: `pool.first[[]k[]] = ite(page <= pool.first[[]k[]]*": "where the page is the first, both write it",
    },
    implied={
        "*/*_is_a_bijection": "a roster changes only through its own operations, each of which keeps the bijection",
        "bind_hole/the_sink_is_the_sink_of_all": "a hole is inside the extent, and page 0 is in none",
        "bind_hole/pending_pages_belong_to_nobody": "it touches no pending page; taking one is ill defined",
        "bind_hole/pages_change_only_along_the_lifecycle": "a hole may become bound; what else it takes is ill defined",
        "unbind/holes_are_free_pages": "the page was bound, so it was no hole, and holes stay as they are",
        "unbind/what_is_read_is_what_was_written": "an id less is promised something, and no byte changes",
        "reclaim/pending_pages_belong_to_nobody": "there are only fewer pending pages",
        "move/windows_bind_only_live_ids": "the id has a page before and after",
        "move/unmapped_ids_are_listed": "the id has a page before and after",
        "move/a_tenancy_lasts_as_long_as_its_mapping": "the id has a page before and after",
        "/anything_can_be_written": "its guards are the premise",
        "clear/extents_are_page_ranges": "the ends lie where the instance's maker put them",
        "clear/is_well_defined": "whole tables are relabelled, each within itself",
        "clear/windows_bind_only_live_ids": "nothing is live",
        "clear/what_is_read_is_what_was_written": "nothing is live",
        "init/is_well_defined": "whole tables are relabelled, each within itself",
        "init/what_is_read_is_what_was_written": "nothing is live",
    },
    ref="poolproof.proofs.buffer:SUBJECT",
)
