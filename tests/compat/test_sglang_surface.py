"""`poolproof.compat.sglang` alone: random calls with the spec in lockstep, bytes against the codec, what the host knows
of ids on a device, memory, the opt-in, and what its page says.
"""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sglang_driver
import torch
from sglang_calls import SETUPS, quantizations, random_calls
from sglang_compare import Comparison, tensor_of

import poolproof as pp
from poolproof.checkpoint_errors import LifecycleError
from poolproof.compat import sglang
from poolproof.compat.handed_out import HandedOut
from poolproof.compat.sglang import Int8CheckpointStore, MambaCheckpointPool, MambaSlotAllocator
from poolproof.kernels import codec
from poolproof.kernels.layout import KernelArgumentError

Json = dict[str, Any]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "compat.md"
SIZES: Json = {"num_layers": 2, "num_heads": 2, "head_v_dim": 6, "head_k_dim": 5}
WINDOWS: Json = {"conv_shapes": [(5, 3), (4,)], "conv_dtype": torch.bfloat16}
META: Json = {"size": 6, "device": "meta"}
"""No bytes: what is known of a tensor there is known from the host alone."""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """As integers of the same width."""
    return tensor.contiguous().view(codec.bits_of(tensor.dtype))


def taken(slots: torch.Tensor | None) -> torch.Tensor:
    """Slots that were granted."""
    assert slots is not None
    return slots


def shadowed(setup: Json) -> Any:
    """The worker's driver on our names, the spec of slots in lockstep."""
    names = SimpleNamespace(
        MambaSlotAllocator=partial(MambaSlotAllocator, shadow=True),
        MambaCheckpointPool=partial(MambaCheckpointPool, shadow=True),
        Int8CheckpointStore=Int8CheckpointStore,
        maybe_init_int8_mamba_checkpoint_pool=sglang.maybe_init_int8_mamba_checkpoint_pool,
    )
    names.MambaCheckpointPool.estimate_mem_usage_bytes = MambaCheckpointPool.estimate_mem_usage_bytes
    return sglang_driver.WORKER.Driver(names, setup, sglang_driver.with_settings, None)


# --------------------------------------------------------------------------------------------------------- random calls


@pytest.fixture(scope="module", params=SETUPS, ids=lambda setup: str(setup["dtype"]))
def alone(request: pytest.FixtureRequest) -> tuple[Json, list[Json], list[Json]]:
    """A setup, random calls and our replies."""
    setup: Json = request.param
    calls = [call for call in random_calls(11, setup, rounds=50) if call["op"] != "surface"]
    driver = shadowed(setup)
    replies = driver.run(calls)
    assert driver.slots["active"].check() == driver.pool.check() == []
    return setup, calls, replies


def test_good_calls_are_done_and_bad_ones_change_nothing(alone: tuple[Json, list[Json], list[Json]]) -> None:
    for call, reply in zip(*alone[1:], strict=True):
        told = f"{call}\n{reply}"
        assert reply["error"] == call.get("ours"), told
        assert reply.get("changed", False) is False, told
        if "granted" in call:
            assert (reply["value"] is not None) == call["granted"], told


def test_ids_are_int64_of_the_pool_and_have_one_holder(alone: tuple[Json, list[Json], list[Json]]) -> None:
    setup, calls, replies = alone
    for call, reply in zip(calls, replies, strict=True):
        if call["op"] == "alloc" and reply["value"]:
            ids = tensor_of(reply["value"])
            assert (ids.dtype, len(ids)) == (torch.int64, call["n"])
            most = setup["active"] if call["on"] == "active" else setup["checkpoints"]
            assert len(set(ids.tolist()) & set(range(1, most + 1))) == len(ids)


def test_what_is_loaded_is_what_the_codec_says(alone: tuple[Json, list[Json], list[Json]]) -> None:
    setup, calls, replies = alone
    loads = 0
    for call, reply in zip(calls, replies, strict=True):
        if call["op"] in ("load", "get", "copy") and reply["value"]:
            codes, scale = codec.quantize(sglang_driver.states(setup, call))
            found = {key: tensor_of(reply["value"][key]) for key in ("codes", "scale", "loaded")}
            assert torch.equal(found["codes"], codes)
            assert torch.equal(bits(found["scale"]), bits(scale.unsqueeze(-2)))
            if found["loaded"].dtype == scale.dtype:
                assert torch.equal(bits(found["loaded"]), bits(codec.dequantize(codes, scale)))
            loads += 1
    assert loads > 3


def test_windows_come_back_bit_for_bit(alone: tuple[Json, list[Json], list[Json]]) -> None:
    setup, calls, replies = alone
    dtype = getattr(torch, setup["conv_dtype"])
    for call, reply in zip(calls, replies, strict=True):
        if call["op"] == "load" and reply["value"]:
            for shape, window in zip(setup["conv"], reply["value"]["conv"], strict=True):
                for n, spec in enumerate(call["specs"]):
                    plain = {**spec, "kind": "normal"}
                    expected = sglang_driver.WORKER.state_of(plain, (setup["layers"], *shape), dtype)
                    assert torch.equal(tensor_of(window)[:, n], expected)


# ------------------------------------------------------------------------------------- the comparison finds differences


def changed(reply: Json, path: list[str], nth: int, bit: int) -> Json:
    """A reply with one bit of a tensor turned."""
    other = copy.deepcopy(reply)
    tensor = other["value"]
    for name in path:
        tensor = tensor[name]
    raw = bytearray.fromhex(tensor["hex"])
    raw[nth] ^= bit
    tensor["hex"] = raw.hex()
    return other


def finds(call: Json, theirs: Json, ours: Json, setup: Json) -> bool:
    """Does the comparison refuse two replies?"""
    try:
        Comparison().reply(call, theirs, ours, partial(sglang_driver.states, setup))
    except AssertionError:
        return True
    return False


def test_equal_replies_show_no_difference_and_planted_ones_are_found() -> None:
    setup = SETUPS[2]
    calls = [call for call in quantizations(5, count=1) if call["spec"]["kind"] in ("normal", "lost")]
    for call, reply in zip(calls, sglang_driver.driver(setup).run(calls), strict=True):
        comparison = Comparison()
        comparison.reply(call, reply, reply, partial(sglang_driver.states, setup))
        assert not +comparison.found
        if call["spec"]["kind"] == "normal":
            for path, bit in ((["codes"], 4), (["scale"], 2), (["loaded"], 1)):
                assert finds(call, changed(reply, path, 0, bit), reply, setup)
                assert finds(call, reply, changed(reply, path, 0, bit), setup)


def test_planted_differences_of_slots_are_found() -> None:
    setup = SETUPS[1]
    calls = [{"op": "alloc", "on": "active", "n": 2, "as": "a"}, {"op": "look", "on": "active"}]
    alloc, look = sglang_driver.driver(setup).run(calls)
    short = {**alloc, "value": {**alloc["value"], "shape": [1], "hex": alloc["value"]["hex"][:16]}}
    assert finds(calls[0], short, alloc, setup)
    assert finds(calls[0], {**alloc, "value": None}, alloc, setup)
    assert finds(calls[0], {**alloc, "available": [6, 7]}, alloc, setup)
    assert finds(calls[0], {**alloc, "error": "RuntimeError"}, alloc, setup)
    assert finds(calls[1], {**look, "value": {**look["value"], "planned": 3}}, look, setup)
    bad = {"op": "free", "on": "active", "tag": "double free", "ours": "InvalidFree", "undo": True}
    refused = {**alloc, "value": None, "error": "InvalidFree", "changed": False}
    accepted = {**alloc, "value": None, "error": None, "changed": True}
    assert not finds(bad, accepted, refused, setup)
    assert finds(bad, accepted, accepted, setup)
    assert finds(bad, refused, refused, setup)
    assert finds(bad, accepted, {**refused, "changed": True}, setup)


# ----------------------------------------------------------------------------------------------- ids known on the host


def test_views_of_what_was_handed_out_are_known_without_reading() -> None:
    slots = MambaSlotAllocator(**META)
    ids = taken(slots.alloc(4))
    slots.free(ids[3:])
    slots.free(ids[0].unsqueeze(0))  # as engines keep one id and give it back
    assert slots.available_size() == 4
    with pytest.raises(pp.InvalidFree):
        slots.free(ids)
    assert slots.host_ids(ids[1:3].flip(0)[:0].new_empty(0, device="cpu")).tolist() == []
    slots.free(ids[1:3:1])
    assert slots.available_size() == 6


def test_the_last_view_ends_what_is_known() -> None:
    slots = MambaSlotAllocator(**META)
    ids = taken(slots.alloc(2))
    view = ids[1]
    del ids
    assert slots.known_ids(view) is not None
    del view
    assert len(slots._handed) == 0


def test_copies_and_what_was_written_to_are_foreign() -> None:
    slots = MambaSlotAllocator(**META)
    ids = taken(slots.alloc(3))
    for foreign in (ids.clone(), ids.int(), torch.cat([ids[:1], ids[2:]]), ids.view(1, 3), torch.zeros_like(ids)):
        assert slots.known_ids(foreign) is None
    with pytest.raises(TypeError, match="hold no numbers"):
        slots.free(ids.clone())
    ids[0].fill_(7)
    assert slots.known_ids(ids) is None
    assert slots.available_size() == 3


def test_ids_of_an_inference_block_are_known() -> None:
    slots = MambaSlotAllocator(**META)
    with torch.inference_mode():
        ids = taken(slots.alloc(2))
        slots.free(ids[0].unsqueeze(0))
        ids.fill_(9)
    assert slots.known_ids(ids) is None


def test_what_is_remembered_is_found_by_any_view() -> None:
    handed = HandedOut()
    tensor = torch.tensor([5, 6, 7, 8])
    handed.remember(tensor, np.array([5, 6, 7, 8]))
    for view in (tensor, tensor[1], tensor[1:3], tensor[::2], tensor[3].expand(2), tensor.view(4, 1)[2]):
        found = handed.recall(view)
        assert found is not None
        assert found.tolist() == view.reshape(-1).tolist()
    for foreign in (tensor.view(2, 2), tensor.view(torch.int32), tensor.clone()):
        assert handed.recall(foreign) is None
    tensor += 1
    assert handed.recall(tensor) is None


def test_ids_on_the_cpu_are_read_each_time() -> None:
    slots = MambaSlotAllocator(3, "cpu")
    ids = taken(slots.alloc(2))
    numbers = ids.tolist()
    ids.fill_(numbers[1])
    with pytest.raises(pp.InvalidFree):
        slots.free(ids)
    slots.free(ids[:1])
    assert slots.free_slots.tolist()[0] == numbers[1]


def test_free_slots_are_for_any_thread() -> None:
    slots = MambaSlotAllocator(3, "cpu")
    slots.alloc(1)
    found: list[Any] = []
    thread = Thread(target=lambda: found.extend([slots.free_slots.tolist(), slots.available_size(), slots.check()]))
    thread.start()
    thread.join()
    assert found == [[2, 3], 2, []]


# ------------------------------------------------------------------------------------------------------ bytes and pools


def active_pool(slots: int, dtype: torch.dtype, conv_dtype: torch.dtype = torch.bfloat16) -> Any:
    """Random states whose slots are next to each other, layers further apart, as a strided view."""
    raw = torch.randn(slots, 2, 3, 6, 5).to(dtype)
    conv = [torch.randn(slots, 2, *shape).to(conv_dtype).transpose(0, 1) for shape in WINDOWS["conv_shapes"]]
    return SimpleNamespace(mamba_cache=SimpleNamespace(temporal=raw.transpose(0, 1)[:, :, :2], conv=conv))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_pool_stores_and_loads_strided_states(dtype: torch.dtype) -> None:
    pool = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=4, device="cpu", temporal_dtype=dtype)
    active = active_pool(5, dtype, torch.float32)
    before = [each.clone() for each in (active.mamba_cache.temporal, *active.mamba_cache.conv)]
    slots = taken(pool.alloc(2))
    pool.store_from_active(active, torch.tensor([4, 1], dtype=torch.int32), slots)
    pool.load_to_active(active, slots.flip(0), [2, 3])
    codes, scale = Int8CheckpointStore.quantize(before[0][:, [1, 4]])
    cache = active.mamba_cache
    assert torch.equal(pool.temporal.qdata[:, slots.flip(0)], codes)
    assert torch.equal(cache.temporal[:, 2:4], Int8CheckpointStore.dequantize(codes, scale, dtype))
    assert torch.equal(cache.temporal[:, [0, 1, 4]], before[0][:, [0, 1, 4]])
    for window, held, old in zip(cache.conv, pool.conv, before[1:], strict=True):
        assert torch.equal(held[:, slots.flip(0)], old[:, [1, 4]].bfloat16())
        assert torch.equal(window[:, 2:4], old[:, [1, 4]].bfloat16().float())


def test_another_active_pool_is_bound_anew() -> None:
    pool = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=2, device="cpu")
    slots = taken(pool.alloc())
    for _ in range(2):
        active = active_pool(3, torch.bfloat16)
        pool.store_from_active(active, 1, slots)
        assert torch.equal(pool.temporal.qdata[:, 1], codec.quantize(active.mamba_cache.temporal[:, 1])[0])


def test_a_slot_holds_nothing_until_it_is_stored_whoever_had_it_before() -> None:
    pool = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=1, device="cpu")
    active = active_pool(3, torch.bfloat16)
    for renew in (pool.free, lambda _: pool.clear(), pool.allocator.free, lambda _: pool.allocator.clear()):
        slots = taken(pool.alloc())
        with pytest.raises(LifecycleError, match="Nothing was changed"):
            pool.load_to_active(active, slots, 1)
        pool.store_from_active(active, 1, slots)
        pool.load_to_active(active, slots, 2)
        renew(slots)
        with pytest.raises(pp.InvalidIds, match="not owned"):
            pool.load_to_active(active, slots, 2)


def test_a_bare_store_loads_nans_until_the_first_store() -> None:
    store = Int8CheckpointStore(**SIZES, num_slots=2, device="cpu")
    assert store.load(1, torch.bfloat16).isnan().all()
    assert store.load(torch.tensor([0, 1]), torch.float32).isnan().all()


def test_an_active_pool_of_another_model_is_refused() -> None:
    pool = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=2, device="cpu")
    slots, active = taken(pool.alloc()), active_pool(3, torch.bfloat16)
    cache = active.mamba_cache
    with pytest.raises(pp.LayoutError, match="temporal_dtype"):
        pool.store_from_active(active_pool(3, torch.float32), 1, slots)
    for other in (
        SimpleNamespace(temporal=cache.temporal[..., :4], conv=cache.conv),
        SimpleNamespace(temporal=cache.temporal[:1], conv=cache.conv),
        SimpleNamespace(temporal=cache.temporal, conv=[each[:, :2] for each in cache.conv]),
        SimpleNamespace(temporal=cache.temporal, conv=cache.conv[::-1]),
        SimpleNamespace(temporal=cache.temporal, conv=cache.conv[:1]),
    ):
        with pytest.raises(KernelArgumentError):
            pool.store_from_active(SimpleNamespace(mamba_cache=other), 1, slots)
    assert pool.temporal.scale.isnan().all()


def test_meta_keeps_the_books_and_has_no_bytes() -> None:
    pool = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=3, device="meta")
    temporal = torch.empty(2, 4, 2, 6, 5, dtype=torch.bfloat16, device="meta")
    conv = [torch.empty(2, 4, *shape, dtype=torch.bfloat16, device="meta") for shape in WINDOWS["conv_shapes"]]
    active = SimpleNamespace(mamba_cache=SimpleNamespace(temporal=temporal, conv=conv))
    slots = taken(pool.alloc(2))
    pool.store_from_active(active, [1, 2], slots)
    pool.load_to_active(active, slots[1:], [3])
    pool.free(slots[:1])
    with pytest.raises(pp.InvalidIds):
        pool.load_to_active(active, slots[:1], [3])


# ------------------------------------------------------------------------------------------------ memory and the opt-in


def test_memory_is_checked_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolproof.compat.sglang_pool.free_memory", lambda device: 1000)
    made = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=3, device="cpu")
    assert made.mem_usage_bytes() < 1000
    with pytest.raises(
        sglang.CheckpointMemoryError, match=r"lower num_slots \(--int8-mamba-ckpt-size\) to 3"
    ) as caught:
        MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=4, device="cpu")
    assert isinstance(caught.value, pp.LayoutError)
    assert isinstance(caught.value, RuntimeError)  # which engines may catch


def test_the_estimate_is_what_is_allocated() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        more = {**SIZES, **WINDOWS, "num_slots": 4, "temporal_dtype": dtype}
        pool = MambaCheckpointPool(**more, device="cpu")
        estimate = MambaCheckpointPool.estimate_mem_usage_bytes(**more)
        assert estimate["total"] == pool.mem_usage_bytes() == estimate["qdata"] + estimate["scale"] + estimate["conv"]
        assert estimate["qdata"] == pool.temporal.qdata.nbytes
        assert estimate["conv"] == sum(each.nbytes for each in pool.conv)


@pytest.mark.parametrize(
    ("settings", "slots"),
    [(None, None), ((False, 5), None), ((True, None), 8), ((True, 0), 8), ((True, 3), 3)],
)
def test_the_opt_in_asks_an_engine_that_is_loaded(settings: tuple[bool, int | None] | None, slots: int | None) -> None:
    shape = SimpleNamespace(temporal=(2, 6, 5), conv=WINDOWS["conv_shapes"])
    dtype = SimpleNamespace(temporal=torch.float32, conv=torch.bfloat16)
    arguments: Json = {
        "mamba_size": 4,
        "cache_params": SimpleNamespace(shape=shape, dtype=dtype),
        "mamba_layer_ids": [0, 3],
        "device": "cpu",
    }
    given = None
    if settings is not None:
        given = SimpleNamespace(enable_int8_mamba_checkpoint=settings[0], int8_mamba_ckpt_size=settings[1])
    with sglang_driver.with_settings(given):
        asked = sglang.maybe_init_int8_mamba_checkpoint_pool(**arguments)
    told = sglang.maybe_init_int8_mamba_checkpoint_pool(**arguments, settings=given)
    for pool in (asked, told):
        assert (pool and pool.num_slots) == slots
        assert pool is None or pool.temporal.scale.dtype == torch.float32


def test_importing_the_package_loads_no_torch() -> None:
    program = "import sys, poolproof.compat\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


# -------------------------------------------------------------------------------------------------------- on a device


@pytest.fixture
def on_cuda() -> Any:
    """A pool on a CUDA device beside an active one; every kernel that it needs is compiled."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    pool = MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=5, device="cuda")
    states = active_pool(6, torch.bfloat16).mamba_cache
    cache = SimpleNamespace(temporal=states.temporal.cuda(), conv=[each.cuda() for each in states.conv])
    active = SimpleNamespace(mamba_cache=cache)
    one, two = taken(pool.alloc()), taken(pool.alloc(2))
    for slots in (one, two):
        pool.store_from_active(active, torch.arange(1, 1 + len(slots), device="cuda"), slots)
        pool.load_to_active(active, slots, torch.arange(1, 1 + len(slots), device="cuda"))
    pool.clear()
    return pool, active


@pytest.mark.gpu
def test_nothing_waits_for_the_device_but_a_foreign_free(on_cuda: Any) -> None:
    pool, active = on_cuda
    places = torch.arange(1, 4, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        slots = taken(pool.alloc(3))
        pool.store_from_active(active, places, slots)
        pool.load_to_active(active, slots, places)
        pool.free(slots[0].unsqueeze(0))
        pool.allocator.alloc_group_begin(2)
        more = taken(pool.alloc())
        pool.allocator.alloc_group_end()
        pool.load_to_active(active, torch.stack((slots[1], slots[2])), places[:2])  # foreign: not looked up
        foreign = torch.cat((slots[1:], more))
        with pytest.raises(RuntimeError):
            pool.free(foreign)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    pool.free(foreign)
    assert pool.available_size() == 5
    with pytest.raises(pp.InvalidFree):
        pool.free(foreign)
    assert pool.check() == []


@pytest.mark.gpu
def test_a_device_gives_the_bytes_of_the_cpu_and_leaves_padding_out(on_cuda: Any) -> None:
    pool, active = on_cuda
    cache = active.mamba_cache
    before = cache.temporal.clone()
    slots = taken(pool.alloc(2))
    pool.store_from_active(active, torch.tensor([4, 2], device="cuda"), slots)
    padded = torch.cat((slots, torch.tensor([-1, 99], device="cuda")))
    pool.load_to_active(active, padded, torch.tensor([1, 3, 4, 5], device="cuda"))
    codes, scale = codec.quantize(before[:, [4, 2]].cpu())
    assert torch.equal(cache.temporal[:, [1, 3]].cpu(), codec.dequantize(codes, scale))
    assert torch.equal(cache.temporal[:, [0, 2, 4, 5]], before[:, [0, 2, 4, 5]])
    assert slots.tolist() == pool.allocator.host_ids(slots.clone()).tolist()


@pytest.mark.gpu
def test_a_device_refuses_what_is_known_to_be_wrong(on_cuda: Any) -> None:
    pool, active = on_cuda
    slots = taken(pool.alloc(2))
    with pytest.raises(LifecycleError):
        pool.load_to_active(active, slots, torch.tensor([1, 2], device="cuda"))
    with pytest.raises(pp.InvalidIds):
        pool.store_from_active(active, torch.tensor([1, 2], device="cuda"), slots[:1].expand(2))
    with pytest.raises(sglang.CheckpointMemoryError):
        MambaCheckpointPool(**SIZES, **WINDOWS, num_slots=10**10, device="cuda")


# ------------------------------------------------------------------------------------------------------------- its page


def rows(heading: str) -> list[tuple[str, ...]]:
    """The rows of a table of the page that comes after a line."""
    _, _, rest = PAGE.read_text().partition(heading)
    (table,) = re.findall(r"\A.*?^\|---[^\n]*\n((?:\|[^\n]*\n)+)", rest, re.S | re.M)
    cells = [re.split(r" (?<!\\)\| ", line.strip("| \n")) for line in table.splitlines()]
    return [tuple(cell.replace("\\|", "|") for cell in line) for line in cells]


def test_the_page_lists_exactly_the_differences() -> None:
    assert rows("## Every difference") == [tuple(each) for each in sglang.DIFFERENCES]
    assert rows("cannot show these") == [tuple(each) for each in sglang.ON_A_DEVICE]


def test_differences_have_names_of_their_own() -> None:
    names = [each.name for each in (*sglang.DIFFERENCES, *sglang.ON_A_DEVICE)]
    assert len({*names}) == len(names)


def test_the_example_of_the_page_runs() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# (.*)$", program, re.M) == done.stdout.splitlines()


def test_the_page_names_what_there_is() -> None:
    table = {cells[0].strip("`"): cells[1] for cells in rows("## What is supported")}
    for kind in (MambaSlotAllocator, Int8CheckpointStore, MambaCheckpointPool):
        made = MambaSlotAllocator(1, "cpu") if kind is MambaSlotAllocator else None
        made = made or kind(**SIZES, num_slots=1, device="cpu", **(WINDOWS if kind is MambaCheckpointPool else {}))
        for name in re.findall(r"`(\w+)(?:\(\))?`", table[kind.__name__]):
            assert hasattr(made, name), name
