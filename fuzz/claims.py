"""Which claim of the spec a difference between a target and the spec violates."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from poolproof.spec import slots as spec
from poolproof.spec.language import item_of


class Claim(NamedTuple):
    """A claim: the number of the invariant in the fault catalogue, and the claim's name."""

    theorem: str
    name: str


def claim_of(function: Any) -> Claim:
    """The claim that a spec function states."""
    item = item_of(function)
    return Claim(item.tags[0], item.name)


NOTHING_CHANGED: Final = Claim("I4", "a_refused_operation_changes_nothing")
REPEATED: Final = Claim("I2", "a_repeated_item_is_refused")
VALUES: Final = Claim("I3", "handles_are_values")
CRASHED: Final = Claim("I4", "an_operation_is_done_or_refused")
HEALTHY: Final = Claim("meta", "the_targets_own_checker_is_content")
ONE_PLACE: Final = claim_of(spec.every_slot_is_in_exactly_one_place)
NO_SINK: Final = claim_of(spec.the_sink_is_never_handed_out)
CAPACITY: Final = claim_of(spec.slots_are_conserved)

WRONGLY_DONE: Final = {
    "alloc": claim_of(spec.exactly_the_owned_slots_have_a_holder),
    "take": claim_of(spec.exactly_the_owned_slots_have_a_holder),
    "free": claim_of(spec.only_a_live_handle_can_be_given_back),
    "retire": claim_of(spec.only_a_live_handle_can_be_given_back),
    "reclaim": claim_of(spec.only_a_pending_slot_can_be_reclaimed),
    "transfer": claim_of(spec.only_a_live_handle_can_be_passed_on),
    "open_group": claim_of(spec.opening_a_group_changes_no_slot),
    "close_group": claim_of(spec.closing_a_group_frees_just_its_reserve),
}
"""By action: the target did what the spec refuses."""

WRONGLY_REFUSED: Final = {
    "alloc": claim_of(spec.capacity_n_means_that_n_allocs_succeed),
    "open_group": claim_of(spec.capacity_n_means_that_n_reservations_succeed),
    "take": claim_of(spec.a_reserve_of_n_means_that_n_takes_succeed),
    "free": claim_of(spec.a_live_handle_can_always_be_given_back),
    "retire": claim_of(spec.a_live_handle_can_always_be_given_back),
    "reclaim": claim_of(spec.a_reclaim_frees_a_pending_slot),
    "transfer": claim_of(spec.a_live_handle_can_always_be_passed_on),
    "close_group": claim_of(spec.closing_a_group_frees_just_its_reserve),
    "clear": claim_of(spec.a_clear_restores_the_initial_state),
}
"""By action: the target refused what the spec allows."""

RESULT: Final = {
    "alloc": claim_of(spec.an_alloc_gives_the_slot_to_the_request),
    "free": claim_of(spec.a_free_ends_the_handle),
    "retire": claim_of(spec.a_retire_ends_the_handle_but_not_the_wait),
    "reclaim": claim_of(spec.a_reclaim_frees_a_pending_slot),
    "transfer": claim_of(spec.a_transfer_ends_the_old_handle),
    "reserve": claim_of(spec.a_reserve_holds_a_free_slot_back),
    "take": claim_of(spec.a_take_gives_a_reserved_slot_to_the_request),
    "close_group": claim_of(spec.closing_a_group_frees_just_its_reserve),
    "clear": claim_of(spec.a_clear_restores_the_initial_state),
}
"""By action: it was done, but the states after it differ."""

COUNTS: Final = {
    "in_requests": claim_of(spec.requests_are_counted),
    "in_cache": claim_of(spec.cached_slots_are_counted),
    "in_pending": claim_of(spec.pending_slots_are_counted),
    "available": CAPACITY,
}
"""By field: a count that differs."""
