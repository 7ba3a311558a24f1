"""Prepared launches: what changes from launch to launch does, what was fixed is kept."""

from __future__ import annotations

import pytest
import small_kernels
import torch

from poolproof.kernels import interpreter
from poolproof.kernels.launch import Prepared, is_known

WHERE = [
    pytest.param("cpu", marks=pytest.mark.skipif(not interpreter.is_on(), reason="kernels are compiled")),
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
    ),
]


@pytest.mark.parametrize("where", WHERE)
def test_launches_follow_what_changes(where: str) -> None:
    """Numbers and lists in turn, lists of other lengths and places, counts of one and of multiples of sixteen."""
    target = torch.zeros(40, dtype=torch.int32, device=where)
    expected = torch.zeros_like(target)
    prepared = Prepared(small_kernels.add_at, (target, 100), BLOCK=16)
    base = torch.arange(40, device=where).flip(0)
    for first in (3, base[:16], 0, base[1:2], 1, 16, base[5:38], base[:1], 39, base[3:19]):
        count = 1 if isinstance(first, int) else first.numel()
        prepared.launch(count, first, count)
        expected[first] += 100 + count
        assert torch.equal(target, expected)


@pytest.mark.parametrize("where", WHERE)
def test_what_is_compiled_is_kept_by_the_kinds_of_what_changes(where: str) -> None:
    target = torch.zeros(4, dtype=torch.int32, device=where)
    prepared = Prepared(small_kernels.add_at, (target, 1), BLOCK=16)
    for first in (0, 1, torch.tensor([2], device=where), torch.tensor([3], device=where)):
        prepared.launch(1, first, 1)
    assert target.tolist() == [2, 2, 2, 2]
    kinds = set() if interpreter.is_on() else {(int, int), (torch.Tensor, int)}
    assert set(prepared._compiled) == kinds


@pytest.mark.parametrize("where", WHERE)
def test_launches_of_two_prepared_do_not_mix(where: str) -> None:
    targets = [torch.zeros(4, dtype=torch.int32, device=where) for _ in range(2)]
    prepared = [
        Prepared(small_kernels.add_at, (target, step), BLOCK=16) for target, step in zip(targets, (1, 10), strict=True)
    ]
    for _ in range(3):
        for n in range(2):
            prepared[n].launch(1, n, 1)
    assert [target.tolist() for target in targets] == [[6, 0, 0, 0], [0, 33, 0, 0]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_launches_are_on_the_current_stream() -> None:
    """A launch on a second stream waits for what that stream waits for."""
    target = torch.zeros(1, dtype=torch.int32, device="cuda")
    prepared = Prepared(small_kernels.add_at, (target, 1), BLOCK=16)
    prepared.launch(1, 0, 1)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        target.zero_()
        prepared.launch(1, 0, 1)
        found = target.clone()
    stream.synchronize()
    assert found.item() == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_launches_can_be_captured() -> None:
    """A graph replays a prepared launch, first slot and all."""
    target = torch.zeros(2, dtype=torch.int32, device="cuda")
    first = torch.tensor([0], device="cuda")
    prepared = Prepared(small_kernels.add_at, (target, 1), BLOCK=16)
    prepared.launch(1, first, 1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        prepared.launch(1, first, 1)
    target.zero_()
    graph.replay()
    first.fill_(1)
    graph.replay()
    assert target.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("version", "known"), [("3.6.0", True), ("3.6.1+git", True), ("3.7.0", False), ("3.60.0", False), ("4", False)]
)
def test_only_tried_versions_are_launched_directly(version: str, known: bool) -> None:
    assert is_known(version) == known


@pytest.mark.parametrize("where", WHERE)
def test_with_other_versions_every_launch_goes_through_triton(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton.__version__", "3.99.0")
    target = torch.zeros(4, dtype=torch.int32, device=where)
    prepared = Prepared(small_kernels.add_at, (target, 1), BLOCK=16)
    for first in (0, 1, torch.tensor([2], device=where), torch.tensor([3], device=where)):
        prepared.launch(1, first, 1)
    assert target.tolist() == [2, 2, 2, 2]
    assert not prepared._compiled
