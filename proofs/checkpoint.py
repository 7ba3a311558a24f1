"""The proofs of spec/checkpoint.py: the instance for the controls, planted faults, and what is declared about them."""

from poolproof.proofs.subject import Subject
from poolproof.proofs.twins.checkpoint import TWINS
from poolproof.spec.checkpoint import SPEC, Scope

SMALL = {"actives": 4, "checkpoints": 3, "requests": 2, "nodes": 2, "locks": 2, "parts": 2}

RUNS = (("enqueue", 0), ("admit", 0, 1), ("start", 0), ("advance", 0, 1))
STORES = (*RUNS, ("begin_store", 0, 1, 1), ("store_part", 1, 0))
STORED = (*STORES, ("store_part", 1, 1), ("end_store", 1), ("add_node", 0, 1))
CACHED = (*STORED, ("publish", 0, 1, 0))
LOCKED = (*CACHED, ("enqueue", 1), ("take_lock", 1, 0, 0, Scope.STATE))
LOADS = (*LOCKED, ("hit", 1, 0, 0, 2), ("load_part", 2, 0))
LOADED = (*LOADS, ("load_part", 2, 1), ("end_load", 2))
RESUMES = (*LOADED, ("start", 1), ("release_lock", 1, 0), ("advance", 1, 1), ("begin_store", 1, 2, 2))

AN_EVICTION_UNDER_A_LOAD = (*LOADS, ("release_lock", 1, 0), ("evict_later", 0), ("end_load", 2))
A_RETIREMENT_UNDER_A_LOAD = (*LOADS, ("retire_active", 1, 2), ("end_load", 2))
A_RETIREMENT_UNDER_A_STORE = (*STORES, ("retire_active", 0, 1), ("retire_checkpoint", 0, 1), ("end_store", 1))
A_REDUNDANT_DONATION = (
    *CACHED,
    ("begin_store", 0, 1, 2),
    ("store_part", 2, 0),
    ("store_part", 2, 1),
    ("end_store", 2),
)
TWO_NODES = (
    *A_REDUNDANT_DONATION,
    ("add_node", 1, 1),
    ("publish", 0, 2, 1),
    ("enqueue", 1),
    ("take_lock", 1, 0, 0, Scope.STATE),
)
A_STORE_FAILS = (*STORES, ("end_store", 1), ("add_node", 0, 1))
A_TRACK_IS_COPIED_WHEN_ITS_TURN_COMES = (
    *RUNS,
    ("add_track", 0, 2),
    ("add_track", 0, 3),
    ("track", 0),
    ("advance", 0, 1),
    ("track", 0),
    ("begin_store", 0, 3, 1),
)
ENDS = (*CACHED, ("release", 0, 1), ("leave", 0), ("evict", 0), ("remove_node", 0))

A_HIT_BESIDE_A_LOAD = (
    *TWO_NODES,
    ("hit", 1, 0, 0, 2),
    ("release_lock", 1, 0),
    ("release", 0, 1),
    ("leave", 0),
    ("enqueue", 0),
    ("take_lock", 0, 0, 1, Scope.STATE),
)
A_NODE_OF_ANOTHER_LENGTH = (*STORES, ("store_part", 1, 1), ("end_store", 1), ("add_node", 0, 2))
TWO_LOCKS = (*LOCKED, ("take_lock", 1, 1, 0, Scope.PAGES))
NOTHING_TO_TRACK = (("enqueue", 0), ("admit", 0, 1), ("start", 0), ("add_track", 0, 2), ("add_track", 0, 3))

_FREE_ACTIVE = "it takes an active slot that is free, which no copy touches; a roster would be ill defined otherwise"
_FREE_CHECKPOINT = "it takes a checkpoint slot that is free; a roster would be ill defined otherwise"
_NOT_CACHED = "the slot is not a cached one before or after"
_LESS_CACHED = "a checkpoint less is cached, and no store fills a cached one"
_NO_MOMENT = "neither a moment nor the clock changes"
_LESS_HELD = "fewer slots are held"
_NEW_NODE = "a node that was not there has no checkpoint, pin or lock"
_END_OF_COPY = "a copy less is in flight, and nothing else changes"
_NOT_IDLE = "whoever must not be idle was not the request that was"
_NOTHING_LEFT = "nothing is cached, and no slot is a request's"

_CLAIMS = {
    ("enqueue", _NOT_IDLE): ("a_lock_is_somebodys_on_something", "exactly_donations_have_a_donor"),
    ("admit", _FREE_ACTIVE): (
        "a_running_state_is_whole",
        "a_slot_keeps_its_bytes_while_a_copy_reads_it",
        "only_own_states_are_loaded",
        "what_is_being_loaded_stays",
        "what_is_being_stored_stays",
    ),
    ("hit", _FREE_ACTIVE): (
        "a_slot_keeps_its_bytes_while_a_copy_reads_it",
        "an_unused_slot_holds_no_part",
        "the_parts_of_a_state_belong_together",
        "what_is_being_stored_stays",
    ),
    ("load_part", "a part more is there"): ("a_running_state_is_whole",),
    ("load_part", "no store is from a slot that a load fills"): ("what_is_being_stored_stays",),
    ("end_load", _END_OF_COPY): (
        "a_state_is_of_a_moment_before_now",
        "a_running_state_is_whole",
        "a_slot_keeps_its_bytes_while_a_copy_reads_it",
        "only_own_states_are_loaded",
        "what_is_being_loaded_stays",
        "what_is_being_stored_stays",
    ),
    ("add_track", _FREE_ACTIVE): (
        "an_unused_slot_holds_no_part",
        "only_own_states_are_loaded",
        "the_parts_of_a_state_belong_together",
        "what_is_being_loaded_stays",
        "what_is_being_stored_stays",
    ),
    ("track", "a track buffer neither runs nor is loaded, and its request runs"): (
        "a_running_state_is_whole",
        "an_idle_request_holds_no_slot",
        "what_is_being_loaded_stays",
    ),
    ("release", _LESS_HELD): ("an_idle_request_holds_no_slot",),
    ("retire_active", _LESS_HELD): ("an_idle_request_holds_no_slot",),
    ("reclaim_active", "neither a pending slot nor a free one is a request's"): ("a_slot_is_where_its_request_says",),
    ("begin_store", _FREE_CHECKPOINT): (
        "a_checkpoint_is_as_long_as_its_key",
        "a_node_names_only_its_checkpoint",
        "a_slot_keeps_its_bytes_while_a_copy_reads_it",
        "cached_bytes_never_change",
        "the_parts_of_a_checkpoint_are_images_of_one_state",
        "what_is_being_loaded_stays",
    ),
    ("store_part", "a part more is there"): ("a_cached_checkpoint_is_complete",),
    ("store_part", "no load is from a slot that a store fills"): ("what_is_being_loaded_stays",),
    ("end_store", _END_OF_COPY): (
        "a_cached_checkpoint_is_complete",
        "a_free_checkpoint_holds_no_part",
        "a_slot_keeps_its_bytes_while_a_copy_reads_it",
        "what_is_being_loaded_stays",
        "what_is_being_stored_stays",
    ),
    ("publish", "what becomes cached is whole"): ("what_is_being_loaded_stays",),
    **{
        (name, _NO_MOMENT): ("a_state_is_of_a_moment_before_now",)
        for name in ("publish", "drop", "retire_checkpoint", "reclaim_checkpoint", "evict", "evict_later")
    },
    ("drop", _NOT_CACHED): ("a_checkpoint_is_as_long_as_its_key",),
    ("retire_checkpoint", _NOT_CACHED): (
        "a_checkpoint_is_as_long_as_its_key",
        "a_node_names_only_its_checkpoint",
        "cached_bytes_never_change",
        "what_is_being_loaded_stays",
    ),
    ("reclaim_checkpoint", _NOT_CACHED): ("a_checkpoint_is_as_long_as_its_key", "cached_bytes_never_change"),
    ("add_node", _NEW_NODE): (
        "a_lock_is_somebodys_on_something",
        "a_node_names_only_its_checkpoint",
        "a_node_that_is_not_there_has_no_pins",
    ),
    ("release_lock", "a lock less is held"): ("a_lock_is_somebodys_on_something",),
    ("evict", _LESS_CACHED): (
        "a_checkpoint_is_as_long_as_its_key",
        "the_parts_of_a_checkpoint_are_images_of_one_state",
        "what_is_being_stored_stays",
    ),
    ("evict_later", _LESS_CACHED): (
        "a_cached_checkpoint_is_complete",
        "a_checkpoint_is_as_long_as_its_key",
        "what_is_being_stored_stays",
    ),
    ("clear", _NOTHING_LEFT): ("a_checkpoint_is_as_long_as_its_key", "a_slot_is_where_its_request_says"),
    ("clear", "whole tables are relabelled, each within itself"): ("is_well_defined",),
    ("init", _NOTHING_LEFT): ("a_checkpoint_is_as_long_as_its_key", "a_slot_is_where_its_request_says"),
    ("init", "whole tables are relabelled, each within itself"): ("is_well_defined",),
}
"""For each action, with the reason, the claims that no change of it can break."""

IMPLIED = {f"{action}/{claim}": reason for (action, reason), claims in _CLAIMS.items() for claim in claims}
IMPLIED["*/*_is_a_bijection"] = "a roster changes only through its own operations, each of which keeps the bijection"

SUBJECT = Subject(
    spec=SPEC,
    twins=TWINS,
    mutant_sizes=(SMALL,),
    explore_sizes=(SMALL,),
    explore_limit=300,
    scenes=(
        RESUMES,
        AN_EVICTION_UNDER_A_LOAD,
        A_RETIREMENT_UNDER_A_LOAD,
        A_RETIREMENT_UNDER_A_STORE,
        TWO_NODES,
        A_STORE_FAILS,
        A_TRACK_IS_COPIED_WHEN_ITS_TURN_COMES,
        ENDS,
        TWO_LOCKS,
        A_HIT_BESIDE_A_LOAD,
        A_NODE_OF_ANOTHER_LENGTH,
        NOTHING_TO_TRACK,
    ),
    redundant={
        "*: `pool.clock += 2`*": "any step forward tells two moments apart",
        "hit: drops `require(pool.all(Node).has(n))`": "a held lock is on a node that is there",
        "evict_later: drops `require(pool.checkpoint[[]n[]] != NOTHING)`": "no copy reads what is not there",
    },
    implied=IMPLIED,
    ref="poolproof.proofs.checkpoint:SUBJECT",
)
