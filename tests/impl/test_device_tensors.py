"""Ids that lie on a device: refused with the remedy, and nothing has changed."""

from __future__ import annotations

import importlib.util

import pytest

import poolproof as pp


def has_cuda() -> bool:
    """Is there a device, and a torch that sees it?"""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.mark.gpu
@pytest.mark.skipif(not has_cuda(), reason="needs torch and a CUDA device")
def test_ids_on_a_device_are_refused_without_a_sync() -> None:
    import torch

    pool = pp.SlotPool(8, shadow=True)
    ids = pool.alloc(4)
    before = pool.snapshot()
    on_device = torch.tensor(ids, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for method in (pool.free, pool.retire, pool.reclaim, pool.tenancy):
            with pytest.raises(TypeError, match=r"\.cpu\(\)"):
                method(on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert pool.snapshot() == before
    pool.free(on_device.cpu())
    assert pool.capacity() == 8
