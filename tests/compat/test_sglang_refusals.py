"""`poolproof.compat.sglang` refuses what does not fit by a typed error, and leaves every byte and slot as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import poolproof as pp
from poolproof.compat import sglang
from poolproof.compat.sglang import Int8CheckpointStore, MambaCheckpointPool, MambaSlotAllocator
from poolproof.kernels.layout import KernelArgumentError

Json = dict[str, Any]
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
SIZES: Json = {"num_layers": 2, "num_heads": 1, "head_v_dim": 16, "head_k_dim": 8}
POOL: Json = {**SIZES, "num_slots": 8, "conv_shapes": [(32, 3)], "conv_dtype": BF16, "device": "cpu"}
OTHER_SHAPES = [(2, 6, 2, 16, 8), (3, 6, 1, 16, 8), (4, 6, 1, 16, 8), (2, 6, 1, 16, 1), (2, 6, 1, 1, 8), (2, 6, 16, 8)]
"""Of active states; to some of them torch would broadcast a checkpoint."""


def active_pool(dtype: torch.dtype, shape: tuple[int, ...] = (2, 6, 1, 16, 8)) -> Any:
    """Random states and windows of six slots."""
    conv = [torch.randn(2, 6, 32, 3).bfloat16()]
    return SimpleNamespace(mamba_cache=SimpleNamespace(temporal=torch.randn(shape).to(dtype), conv=conv))


def stored(count: int = 1) -> tuple[MambaCheckpointPool, torch.Tensor]:
    """A pool of bfloat16 states, and checkpoint slots that hold some."""
    torch.manual_seed(3)
    pool = MambaCheckpointPool(**POOL)
    slots = pool.alloc(count)
    assert slots is not None
    pool.store_from_active(active_pool(BF16), list(range(1, 1 + count)), slots)
    return pool, slots


def raw(tensor: torch.Tensor) -> bytes:
    """All bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def everything(pool: MambaCheckpointPool, active: Any) -> list[Any]:
    """All bytes of both pools and the free slots."""
    cache = getattr(active, "mamba_cache", None)
    conv = getattr(cache, "conv", None) or []
    tensors = [pool.temporal.qdata, pool.temporal.scale, *pool.conv, getattr(cache, "temporal", None), *conv]
    return [*(raw(each) for each in tensors if isinstance(each, torch.Tensor)), pool.allocator.free_slots.tolist()]


@contextmanager
def refused(pool: MambaCheckpointPool, active: Any, error: Any, match: str | None = None) -> Iterator[None]:
    """A block is refused, and changes nothing."""
    before = everything(pool, active)
    with pytest.raises(error, match=match):
        yield
    assert everything(pool, active) == before
    assert pool.check() == []


# -------------------------------------------------------------------------------------------- shapes, of whatever dtype


@pytest.mark.parametrize("dtype", [BF16, F16, F32, torch.float64])
@pytest.mark.parametrize("shape", OTHER_SHAPES)
def test_states_of_another_shape_are_refused_in_every_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    pool, slots = stored()
    active = active_pool(dtype, shape)
    with refused(pool, active, KernelArgumentError):
        pool.load_to_active(active, slots, [3])
    with refused(pool, active, KernelArgumentError):
        pool.temporal.copy_to_pool(active.mamba_cache.temporal, slots, [3])


@pytest.mark.parametrize("dtype", [F16, F32])
def test_a_cast_refuses_what_the_kernel_refuses(dtype: torch.dtype) -> None:
    pool, slots = stored()
    shape = (2, 6, 1, 16, 8)
    for bad in (
        torch.zeros(shape, dtype=dtype, device="meta"),
        torch.zeros((1, 1, 1, 1, 1), dtype=dtype).expand(shape),
        torch.zeros(shape, dtype=dtype, requires_grad=True),
    ):
        with pytest.raises(KernelArgumentError):
            pool.temporal.copy_to_pool(bad, slots, [3])
    for other in (torch.int8, torch.complex64, torch.bool):
        with pytest.raises(TypeError, match="floating-point"):
            pool.temporal.copy_to_pool(torch.zeros(shape, dtype=other), slots, [3])


def test_windows_of_another_shape_leave_the_states_alone() -> None:
    pool, slots = stored()
    for dtype in (BF16, F32):
        active = active_pool(dtype)
        for conv in ([torch.zeros(2, 6, 32, 2)], [torch.zeros(2, 5, 32, 3)], [torch.zeros(6)], [], [torch.zeros(())]):
            active.mamba_cache.conv = conv
            with refused(pool, active, KernelArgumentError):
                pool.load_to_active(active, slots, [3])


# ------------------------------------------------------------------------------------------------------------ the slots


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
@pytest.mark.parametrize(
    ("targets", "error"),
    [([4, 4], ValueError), ([4], ValueError), ([1, 6], ValueError), ([-1, 1], ValueError), ([1.0, 2.0], TypeError)],
)
def test_bad_targets_change_neither_states_nor_windows(dtype: torch.dtype, targets: Any, error: Any) -> None:
    pool, slots = stored(2)
    active = active_pool(dtype)
    with refused(pool, active, error):
        pool.load_to_active(active, slots, targets)
    with refused(pool, active, error):
        pool.load_to_active(active, slots, torch.tensor(targets))
    with refused(pool, active, error):
        pool.temporal.copy_to_pool(active.mamba_cache.temporal, slots, targets)


def test_a_bare_store_refuses_a_target_twice() -> None:
    store = Int8CheckpointStore(num_layers=2, num_slots=3, num_heads=1, head_v_dim=4, head_k_dim=4, device="cpu")
    store.store([0, 1], torch.randn(2, 2, 1, 4, 4).bfloat16())
    target = torch.zeros(2, 4, 1, 4, 4)
    for sources, targets in (([0, 1], [1, 1]), ([0, 3], [1, 2]), ([0], [1, 2])):
        with pytest.raises(ValueError):
            store.copy_to_pool(target, sources, targets)
    assert not target.any()


def test_windows_that_lie_over_what_is_read_leave_the_states_alone() -> None:
    pool, slots = stored(2)
    first, second = slots.tolist()
    for dtype in (BF16, F32):
        cache = SimpleNamespace(temporal=torch.randn(2, 9, 1, 16, 8).to(dtype), conv=pool.conv)
        active = SimpleNamespace(mamba_cache=cache)
        with refused(pool, active, ValueError, "same call reads"):
            pool.load_to_active(active, slots, [second, 5])
        with refused(pool, active, ValueError):
            pool.store_from_active(active, [second, first], slots)


@pytest.mark.parametrize("dtype", [F16, F32, torch.float64])
def test_a_good_cast_loads_what_the_codec_says(dtype: torch.dtype) -> None:
    pool, slots = stored(2)
    active = active_pool(dtype)
    before = active.mamba_cache.temporal.clone()
    pool.load_to_active(active, slots, [4, 2])
    pool.load_to_active(active, int(slots[0]), 5)
    loaded, temporal = pool.temporal.load(slots, dtype), active.mamba_cache.temporal
    assert torch.equal(temporal[:, [4, 2]], loaded)
    assert torch.equal(temporal[:, 5], loaded[:, 0])
    assert torch.equal(temporal[:, [0, 1, 3]], before[:, [0, 1, 3]])
    assert torch.equal(active.mamba_cache.conv[0][:, [4, 2]], pool.conv[0][:, slots])
    pool.load_to_active(active, slots[:0], [])


# ------------------------------------------------------------------------------------------- what is no pool, no number


@pytest.mark.parametrize(
    "active",
    [
        None,
        3,
        SimpleNamespace(),
        SimpleNamespace(mamba_cache=None),
        SimpleNamespace(mamba_cache=SimpleNamespace(temporal=None, conv=[])),
        SimpleNamespace(mamba_cache=SimpleNamespace(temporal=torch.zeros(2, 6, 1, 16, 8), conv=None)),
        SimpleNamespace(mamba_cache=SimpleNamespace(temporal=torch.zeros(2, 6, 1, 16, 8), conv=[None])),
    ],
)
def test_what_is_no_active_pool_is_a_type_error(active: Any) -> None:
    pool, slots = stored()
    with refused(pool, active, TypeError, "mamba_cache.temporal .* Nothing was changed"):
        pool.load_to_active(active, slots, [1])
    with refused(pool, active, TypeError, "mamba_cache.temporal .* Nothing was changed"):
        pool.store_from_active(active, [1], slots)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.load([0], None),
        lambda store: store.load([0], "float32"),
        lambda store: store.load([0], torch.int8),
        lambda store: store.load(None, BF16),
        lambda store: store.store([0], None),
        lambda store: store.store_from_pool(None, [0], [0]),
        lambda store: store.copy_to_pool(None, [0], [0]),
        lambda store: store.quantize(None),
        lambda store: store.dequantize(store.qdata, store.scale, None),
    ],
)
def test_what_is_no_tensor_or_dtype_is_a_type_error(call: Callable[[Int8CheckpointStore], Any]) -> None:
    pool, _ = stored()
    with refused(pool, None, TypeError, "must be|not"):
        call(pool.temporal)


@pytest.mark.parametrize("count", [None, "2", 1.5, True])
def test_a_group_of_no_number_leaves_the_open_group_alone(count: Any) -> None:
    slots = MambaSlotAllocator(6, "cpu", shadow=True)
    slots.alloc_group_begin(2)
    with pytest.raises(TypeError, match="num_reqs must be an int"):
        slots.alloc_group_begin(count)
    assert slots.available_size() == 4
    assert slots.alloc(1) is not None
    assert slots.available_size() == 4
    slots.alloc_group_end()
    assert slots.available_size() == 5
    assert slots.check() == []


@pytest.mark.parametrize(
    ("argument", "error", "match"),
    [
        ({"num_slots": "8"}, TypeError, "num_slots must be an int, got str '8'"),
        ({"num_slots": None}, TypeError, "num_slots must be an int"),
        ({"num_slots": 0}, ValueError, "num_slots is 0"),
        ({"num_slots": -1}, ValueError, "num_slots is -1"),
        ({"num_heads": 0}, ValueError, "num_heads is 0; it must be one or more"),
        ({"head_v_dim": 0}, ValueError, "head_v_dim is 0"),
        ({"head_k_dim": 0}, ValueError, "head_k_dim is 0"),
        ({"head_k_dim": 1.5}, TypeError, "head_k_dim must be an int"),
        ({"num_layers": -1}, ValueError, "num_layers is -1"),
        ({"conv_shapes": None}, TypeError, "conv_shapes is None: pass"),
        ({"conv_shapes": [3]}, TypeError, r"conv_shapes\[0\] is 3: pass"),
        ({"conv_shapes": (32, 3)}, TypeError, r"conv_shapes\[0\] is 32: pass"),
        ({"conv_shapes": [(4,), (-1, 2)]}, ValueError, r"a size in conv_shapes\[1\] is -1"),
        ({"conv_shapes": [("4", 2)]}, TypeError, r"a size in conv_shapes\[0\] must be an int"),
        ({"conv_shapes": [(2, 3, 4)]}, pp.LayoutError, r"\(channels, width\) or \(channels,\), not \(2, 3, 4\)"),
        ({"conv_shapes": [()]}, pp.LayoutError, "not "),
        ({"conv_dtype": None}, pp.LayoutError, "not None"),
        ({"conv_dtype": torch.int8}, pp.LayoutError, "int8"),
        ({"temporal_dtype": "bfloat16"}, TypeError, "temporal_dtype must be a torch.dtype"),
        ({"temporal_dtype": torch.float64}, TypeError, "float64"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_allocated(
    argument: Json, error: Any, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise AssertionError("allocated")

    for name in ("zeros", "full", "empty"):
        monkeypatch.setattr(torch, name, none)
    with pytest.raises(error, match=match):
        MambaCheckpointPool(**{**POOL, **argument})


@pytest.mark.parametrize(
    "argument",
    [{"num_slots": "8"}, {"num_heads": 0}, {"conv_shapes": None}, {"conv_dtype": None}, {"temporal_dtype": None}],
)
def test_an_estimate_of_bad_arguments_is_refused(argument: Json) -> None:
    given = {key: value for key, value in POOL.items() if key != "device"}
    with pytest.raises((TypeError, ValueError), match=r"must be|pass"):
        MambaCheckpointPool.estimate_mem_usage_bytes(**{**given, "temporal_dtype": BF16, **argument})


@pytest.mark.parametrize("size", [{"num_heads": 0}, {"head_v_dim": 0}, {"head_k_dim": 0}, {"num_slots": "8"}])
def test_a_bare_store_of_bad_sizes_is_refused(size: Json) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(size))):
        Int8CheckpointStore(**{**SIZES, "num_slots": 4, "device": "cpu", **size})


@pytest.mark.parametrize(("active", "size"), [(None, None), ("4", 0), (4, "8"), (4, -8)])
def test_the_opt_in_refuses_sizes_that_are_none(active: Any, size: Any) -> None:
    shape = SimpleNamespace(temporal=(1, 16, 8), conv=[(32, 3)])
    with pytest.raises((TypeError, ValueError), match=r"mamba_size|num_slots"):
        sglang.maybe_init_int8_mamba_checkpoint_pool(
            mamba_size=active,
            cache_params=SimpleNamespace(shape=shape, dtype=SimpleNamespace(temporal=BF16, conv=BF16)),
            mamba_layer_ids=[0],
            device="cpu",
            settings=SimpleNamespace(enable_int8_mamba_checkpoint=True, int8_mamba_ckpt_size=size),
        )
