"""The proofs of spec/schedule.py: instances for the controls, planted faults, and what is declared about them."""

from typing import Any

from poolproof.proofs.subject import Subject
from poolproof.proofs.twins.schedule import TWINS
from poolproof.spec.schedule import SPEC


def _over(buffer: dict[str, Any], steps: int, leases: int) -> dict[str, Any]:
    """An instance: a buffer, and so many steps and leases over it."""
    return {**{f"buffer.{name}": value for name, value in buffer.items()}, "steps": steps, "leases": leases}


PAIR = {
    "sub_pools": 2,
    "pages": 6,
    "virtual_ids": 3,
    "total": 6,
    "page_bytes": (1, 2),
    "ids": (3, 2),
    "id_owner": (0, 1),
    "zeroed": (False, True),
    "sink_bytes": 2,
    "bottom": 2,
    "top": 3,
}

FLOAT = {
    "sub_pools": 3,
    "pages": 7,
    "virtual_ids": 3,
    "total": 7,
    "page_bytes": (1, 2, 1),
    "ids": (3, 2, 2),
    "id_owner": (0, 1, 2),
    "zeroed": (False, True, True),
    "sink_bytes": 2,
    "bottom": 2,
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

SMALL = _over(PAIR, steps=2, leases=1)
FLOATING = _over(FLOAT, steps=2, leases=2)
THREE_STEPS = _over(SINGLE, steps=3, leases=1)

A_ZEROED_PAGE = (
    ("take_frontier", 2, 1, 6),
    ("begin", 0, 0),
    ("zero", 0, 2, 6),
    ("launch", 0),
    ("complete", 0),
    ("retire", 0),
    ("begin", 0, 0),
)
COMES_BACK = (("let_go", 2, 1), ("take_back", 2, 6), ("take_hole", 2, 1, 6))
A_PAGE_COMES_BACK_TO_ITS_READER = (*A_ZEROED_PAGE, ("read", 0, 2, 1), *COMES_BACK)
A_PAGE_COMES_BACK_TO_ITS_WRITER = (*A_ZEROED_PAGE, ("write_page", 0, 2, 1, 1), *COMES_BACK)

A_HOLE_CAN_BE_FILLED = (
    ("take_frontier", 0, 1, 2),
    ("take_frontier", 0, 2, 3),
    ("let_go", 0, 1),
    ("take_back", 0, 2),
    ("begin", 0, 0),
)
A_ZEROING_IS_NOT_AT_HOME = (("take_frontier", 2, 1, 6), ("begin", 0, 0), ("begin", 1, 1))
A_PAGE_IS_WRITTEN_FROM_AWAY = (
    ("take_frontier", 0, 1, 2),
    ("take_frontier", 0, 2, 3),
    ("let_go", 0, 1),
    ("take_back", 0, 2),
    ("begin", 0, 1),
    ("write_page", 0, 0, 2, 1),
    ("begin", 1, 0),
)

A_PAGE_IS_READ_FROM_AWAY = (
    ("take_frontier", 0, 1, 2),
    ("begin", 0, 0),
    ("write_page", 0, 0, 1, 1),
    ("launch", 0),
    ("begin", 1, 1),
    ("wait_for", 1, 0),
    ("read", 1, 0, 1),
    ("complete", 0),
    ("retire", 0),
    ("begin", 0, 0),
)

_TABLES_STAY = "no page table changes"
_LIVES_ON = "an id that is live before and after keeps its page"
_FEWER = "there are only fewer steps in flight"
_HOLE_ONLY = "only a hole comes or goes"
_FRESH = "what becomes bound was outside or a hole, which nobody outside has"
_NOTHING_READ = "it ends no step and takes nothing from any read set"

IMPLIED = {
    **{f"{name}/leased_pages_do_not_move": _TABLES_STAY for name in ("lease_page", "release_page")},
    **{f"{name}/leased_pages_do_not_move": _TABLES_STAY for name in ("close_gate", "open_gate")},
    **{f"{name}/leased_pages_do_not_move": _LIVES_ON for name in ("let_go", "let_go_later")},
    **{f"{name}/leased_pages_do_not_move": _LIVES_ON for name in ("take_frontier", "take_hole")},
    **{f"{name}/a_step_in_flight_keeps_its_promises": _NOTHING_READ for name in ("begin", "launch")},
    **{
        f"{name}/{claim}": _FRESH
        for name in ("take_frontier", "take_hole")
        for claim in ("leased_pages_are_kept", "pages_touched_from_away_are_kept")
    },
    **{
        f"{name}/the_same_id_has_the_same_tenancy": "no step has an id as the same that is not live"
        for name in ("take_frontier", "take_hole")
    },
    **{
        f"{name}/zeroed_ids_hold_zeros_or_their_own": "what is written is the buffer's own action's doing"
        for name in ("take_frontier", "take_hole", "write_page")
    },
    **{
        f"{name}/{claim}": "an id less is live"
        for name in ("let_go", "let_go_later")
        for claim in ("filled_pages_have_no_stale_byte", "zeroed_ids_hold_zeros_or_their_own")
    },
    **{
        f"retire/{claim}": "only the phase of a step changes of which nothing is in flight"
        for claim in (
            "a_step_in_flight_keeps_its_promises",
            "a_step_keeps_its_snapshot",
            "an_id_is_the_same_for_as_long_as_it_lives",
            "pages_touched_from_away_are_kept",
            "the_same_id_has_the_same_tenancy",
        )
    },
    "launch/an_id_is_the_same_for_as_long_as_it_lives": "only the phase changes",
    "complete/an_id_is_the_same_for_as_long_as_it_lives": "no id is bound or let go",
    "complete/an_event_decides_nothing": "it writes no field of the buffer",
    **{
        f"{name}/filled_pages_are_written": "no id is filled that is not live"
        for name in ("take_frontier", "take_hole")
    },
    **{
        f"relocate/{claim}": "the page is kept, pending, and so is the hole, bound; it is the same id's afterwards"
        for claim in (
            "deferred_pages_wait",
            "filled_pages_are_written",
            "leased_pages_are_kept",
            "pages_touched_from_away_are_kept",
            "read_sets_hold_pages",
            "the_same_id_has_the_same_tenancy",
            "zeroed_ids_hold_zeros_or_their_own",
        )
    },
    **{
        f"{name}/pages_that_wait_for_zeroing_are_untouched_from_away": why
        for name, why in {
            "init": "nothing is in flight",
            "launch": "a launched step was in flight before",
            "complete": "there are only fewer steps in flight",
            "retire": "only the phase of a step changes of which nothing is in flight",
            "relocate": "the step is at home",
            "clear": "nothing is in flight",
        }.items()
    },
    **{
        f"init/{claim}": "nothing is in flight, whatever the sets of accesses hold"
        for claim in (
            "pages_touched_from_away_are_kept",
            "no_writer_overtakes_a_reader",
            "no_writer_comes_between_source_and_reader",
        )
    },
    "init/is_well_defined": "whole tables are relabelled, each within itself",
    **{
        f"write_padding/{claim}": "it writes for no live id"
        for claim in ("filled_pages_are_written", "zeroed_ids_hold_zeros_or_their_own")
    },
    "zero/filled_pages_have_no_stale_byte": "there are only fewer stale bytes",
    "clear/zeroed_ids_hold_zeros_or_their_own": "nothing is live",
    **{
        f"{name}/{claim}": _HOLE_ONLY
        for name in ("widen", "give_up_high", "give_up_low")
        for claim in (
            "leased_pages_are_kept",
            "only_bound_pages_wait_for_zeroing",
            "pages_touched_from_away_are_kept",
            "zeroed_pages_have_no_stale_byte",
        )
    },
    **{
        f"complete/{claim}": _FEWER
        for claim in (
            "captured_tables_are_current_or_told_apart",
            "pages_touched_from_away_are_kept",
            "read_sets_hold_pages",
            "write_sets_hold_pages",
            "tickets_are_in_order",
            "versions_are_captured_before_they_pass",
        )
    },
    "begin/only_steps_in_flight_touch_pages": "a step that begins has touched nothing, and no set changes",
    "begin/readers_without_a_source_find_it_on_the_device": "a step that begins has read nothing",
    "begin/the_last_writer_is_in_flight": "a step that begins has written nothing",
    "complete/the_last_writer_has_the_last_word": "the writers that stay in flight leave what they would have left",
    **{
        f"{name}/{claim}": "an empty float has no page, before or after"
        for name in ("put_float", "lay_float_aside")
        for claim in (
            "leased_pages_are_kept",
            "only_bound_pages_wait_for_zeroing",
            "pages_touched_from_away_are_kept",
            "zeroed_pages_have_no_stale_byte",
        )
    },
    **{f"{name}/is_well_defined": "it only performs" for name in ("put_float", "lay_float_aside")},
    "clear/is_well_defined": "whole tables are relabelled, each within itself",
    "clear/leased_pages_do_not_move": "nothing is live afterwards",
    "clear/captured_tables_are_current_or_told_apart": "nothing is in flight",
    "clear/versions_are_captured_before_they_pass": "nothing is in flight",
    "let_go/deferred_pages_wait": "there are only more pending pages",
    "end_group/deferred_pages_wait": "no page is deferred",
    "read/read_sets_hold_pages": "a live id's page is one",
    "write_page/write_sets_hold_pages": "a live id's page is one",
    "zero/write_sets_hold_pages": "the page is looked up in a table first",
    "zero/only_bound_pages_wait_for_zeroing": "there are only fewer of them",
    "launch/a_step_keeps_its_snapshot": "only the phase changes",
    "launch/pages_touched_from_away_are_kept": "a launched step was in flight before",
    "release_page/leased_pages_are_kept": "there are only fewer pins",
    "take_back/only_bound_pages_wait_for_zeroing": "a pending page waits for no zeroing",
    "take_back/zeroed_pages_have_no_stale_byte": "a pending page is not bound, nor is a hole",
}

SUBJECT = Subject(
    spec=SPEC,
    twins=TWINS,
    mutant_sizes=(SMALL, THREE_STEPS),
    explore_sizes=(FLOATING,),
    explore_limit=80,
    scenes=(
        A_PAGE_COMES_BACK_TO_ITS_READER,
        A_PAGE_COMES_BACK_TO_ITS_WRITER,
        A_HOLE_CAN_BE_FILLED,
        A_ZEROING_IS_NOT_AT_HOME,
        A_PAGE_IS_WRITTEN_FROM_AWAY,
        A_PAGE_IS_READ_FROM_AWAY,
    ),
    redundant={
        "complete: `pool.reads[[]s[]] = pool.writes[[]s[]].none()` for `pool.reads*": "all empty sets are one",
        "complete: `pool.writes[[]s[]] = pool.reads[[]s[]].none()` for `pool.writes*": "all empty sets are one",
        "*: `pool.version[[]k[]] += 2`*": "any step forward tells two versions apart",
        "wait_for: `require(pool.ticket[[]t[]] <= pool.ticket[[]s[]])`*": "two steps in flight never have one ticket",
        "*: is_behind_readers without `is_in_flight(pool, t)`": "what is not in flight touches nothing",
        "*: is_behind_writers without `pool.stream[[]s[]] != HOME`": "two steps at home are in order anyway",
        "read: is_behind_writers without `t != s`": "what the step itself writes is kept out by another guard",
        "relocate: is_behind_writers without `t != s`": "what the step itself writes is kept out by another guard",
        "relocate: is_behind_writers without `is_in_flight(pool, t)`": "what is not in flight touches nothing",
        "relocate: is_behind_writers without `pool.stream*": "the step is at home",
        "relocate: is_behind_writers without `and_(pool.stream*": "the step is at home",
        "zero: is_behind_writers without `t != s`": "what the step itself writes is kept out by another guard",
        "zero: is_behind_writers without `pool.writes*": "nobody away from home writes a page to be zeroed",
        "read: drops `require(lies_clear_of_reads*": "a second read is promised the same: no writer comes in between",
        "clear: *pool.version[[]k[]] + 2*": "any step forward tells two versions apart",
        "take_back: is_away without `is_in_flight(pool, s)`": "what is not in flight touches nothing",
    },
    implied=IMPLIED,
    ref="poolproof.proofs.schedule:SUBJECT",
)
