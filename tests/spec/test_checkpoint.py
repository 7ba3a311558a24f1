"""The lifecycle's spec: readings agree, scenes of donations and hits, and an abort from wherever a scene leads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from differential import compare_step
from scenes import Scene, Walk

from poolproof.proofs.arguments import allowed
from poolproof.proofs.checkpoint import CACHED, LOADED, LOCKED, RUNS, SMALL, STORES, SUBJECT
from poolproof.proofs.concrete import run
from poolproof.spec.checkpoint import NOBODY, NOTHING, NOWHERE, SPEC, Phase, Scope, Stage, Use

SEED = 7107
DONOR, READER = 0, 1


def states_of(scene: Any) -> list[Any]:
    """The states that a scene leads through."""
    states = [SPEC.initial(**SMALL)]
    for name, *arguments in scene:
        outcome = run(SPEC, SPEC.action(name), states[-1], tuple(arguments))
        assert outcome.after is not None, (name, arguments)
        states.append(outcome.after)
    return states


STATES = list({state.key(): state for scene in SUBJECT.scenes for state in states_of(scene)}.values())


def played(scene: Any) -> Scene:
    """A scene, with every claim about every step tested."""
    told = Scene(SPEC, SMALL)
    for name, *arguments in scene:
        told.do(name, *arguments)
    return told


@pytest.mark.parametrize("item", SPEC.actions, ids=lambda item: item.name)
def test_steps_agree(item: Any) -> None:
    walk, seen = Walk(SPEC, SMALL, SEED), Counter[str]()
    for state in STATES:
        good = walk.allowed(item, state)
        if good is None or seen["done"] >= 5:
            continue
        seen[compare_step(SPEC, item, state, good, f"seed {SEED}")] += 1
        bad = walk.refused(item, state, good)
        if bad is not None:
            seen[compare_step(SPEC, item, state, bad, f"seed {SEED}")] += 1
    assert seen["done"] >= 1, seen
    assert seen["refused"] >= 1 or not item.parameters, seen


@pytest.mark.parametrize("number", range(len(SUBJECT.scenes)))
def test_every_claim_holds_on_the_scenes(number: int) -> None:
    played(SUBJECT.scenes[number])


# -------------------------------------------------------------------------------------------------------------- scenes


def test_a_hit_reads_the_image_of_what_was_donated() -> None:
    scene = played(LOADED)
    state = scene.state
    moment = state.donated[1]
    assert [state.part_moment[2, p] for p in range(2)] == [moment, moment]
    assert [state.part_depth[2, p] for p in range(2)] == [1, 1]
    assert state.position[2] == state.key_length[0] == 1
    scene.do("advance", DONOR, 2)
    assert state.donated[1] == scene.state.donated[1] == moment
    assert scene.state.moment[1] != moment


def test_a_chain_of_donations_is_quantised_once_a_link() -> None:
    scene = played(LOADED)
    scene.do("start", READER)
    scene.do("advance", READER, 1)
    scene.do("begin_store", READER, 2, 2)
    for part in range(2):
        scene.do("store_part", 2, part)
    scene.do("end_store", 2)
    assert [scene.state.image_depth[2, p] for p in range(2)] == [2, 2]
    assert scene.state.length[2] == 2
    scene.do("add_node", 1, 2)
    scene.do("publish", READER, 2, 1)


def test_nothing_is_published_before_it_is_complete() -> None:
    scene = played(STORES)
    scene.do("add_node", 0, 1)
    scene.refuses("publish", DONOR, 1, 0)
    scene.do("end_store", 1)
    scene.refuses("publish", DONOR, 1, 0)
    scene.do("drop", DONOR, 1)
    assert scene.state.stage[1] == Stage.FREE


def test_a_node_takes_one_checkpoint_of_its_length() -> None:
    scene = played((*CACHED, ("add_node", 1, 2), ("begin_store", DONOR, 1, 2)))
    for part in range(2):
        scene.do("store_part", 2, part)
    scene.do("end_store", 2)
    scene.refuses("publish", DONOR, 2, 0)
    scene.refuses("publish", DONOR, 2, 1)
    scene.do("drop", DONOR, 2)
    scene.refuses("drop", DONOR, 2)


def test_a_lock_keeps_what_its_scope_says() -> None:
    scene = played((*CACHED, ("enqueue", READER), ("take_lock", READER, 0, 0, Scope.PAGES)))
    scene.refuses("hit", READER, 0, 0, 2)
    scene.do("take_lock", READER, 1, 0, Scope.STATE)
    scene.refuses("evict", 0)
    scene.refuses("release_lock", DONOR, 1)
    scene.do("release_lock", READER, 1)
    scene.refuses("release_lock", READER, 1)
    scene.do("evict", 0)
    scene.refuses("remove_node", 0)
    scene.do("release_lock", READER, 0)
    scene.do("remove_node", 0)


def test_what_is_copied_is_neither_written_nor_given_to_others() -> None:
    scene = played(STORES)
    scene.refuses("advance", DONOR, 1)
    scene.refuses("release", DONOR, 1)
    scene.do("retire_active", DONOR, 1)
    scene.do("retire_checkpoint", DONOR, 1)
    scene.refuses("reclaim_active", 1)
    scene.refuses("reclaim_checkpoint", 1)
    scene.do("leave", DONOR)
    scene.do("end_store", 1)
    scene.do("reclaim_active", 1)
    scene.do("reclaim_checkpoint", 1)
    assert (scene.state.waiting, scene.state.parked) == (0, 0)


def test_a_checkpoint_that_is_evicted_under_a_load_is_still_read() -> None:
    scene = played((*LOCKED, ("hit", READER, 0, 0, 2), ("load_part", 2, 0), ("release_lock", READER, 0)))
    moment = scene.state.donated[1]
    scene.refuses("evict", 0)
    scene.do("evict_later", 0)
    scene.refuses("reclaim_checkpoint", 1)
    scene.do("load_part", 2, 1)
    scene.do("end_load", 2)
    assert [scene.state.part_moment[2, p] for p in range(2)] == [moment, moment]
    scene.do("reclaim_checkpoint", 1)


def test_the_track_buffers_take_turns() -> None:
    scene = played((*RUNS, ("add_track", DONOR, 2), ("add_track", DONOR, 3)))
    scene.refuses("begin_store", DONOR, 2, 1)
    scene.do("track", DONOR)
    first = scene.state.latest[DONOR]
    scene.do("advance", DONOR, 3)
    scene.do("track", DONOR)
    assert {first, scene.state.latest[DONOR]} == {2, 3}
    assert [scene.state.position[scene.state.latest[DONOR]], scene.state.position[first]] == [4, 1]
    scene.do("release", DONOR, scene.state.latest[DONOR])
    assert (scene.state.latest[DONOR], scene.state.spare[DONOR]) == (first, NOWHERE)


# -------------------------------------------------------------------------------------------------------------- aborts


def give_up(scene: Scene) -> None:
    """End all copies, and give back whatever anybody holds."""
    ends = ("end_load", "end_store", "release", "drop", "release_lock", "evict", "reclaim_active", "reclaim_checkpoint")
    taken = True
    while taken:
        taken = False
        for name in (*ends, "retract", "leave", "remove_node"):
            with SPEC.active():
                choices = list(allowed(SPEC, SPEC.action(name), scene.state))
            if choices:
                scene.do(name, *choices[0])
                taken = True


@pytest.mark.parametrize("number", range(len(SUBJECT.scenes)))
def test_from_wherever_a_scene_leads_everything_can_be_given_back(number: int) -> None:
    scene, fresh = Scene(SPEC, SMALL), SPEC.initial(**SMALL)
    for state in states_of(SUBJECT.scenes[number])[::3]:
        scene.state = state.copy()
        give_up(scene)
        left = scene.state
        assert left.free_actives.size == fresh.free_actives.size
        assert left.free_checkpoints.size == fresh.free_checkpoints.size
        assert {left.phase[r] for r in range(2)} == {Phase.IDLE}
        assert {left.use[a] for a in range(1, 4)} == {Use.FREE}
        assert {left.holder[a] for a in range(4)} == {NOBODY}
        assert {left.checkpoint[n] for n in range(2)} == {NOTHING}
        assert not any(left.is_held[lock] or left.is_kept[lock] for lock in range(2))
