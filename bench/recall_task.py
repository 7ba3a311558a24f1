"""Associative recall: pairs are written along a sequence, overwritten, and asked for much later.

Tokens are fillers, a question mark, keys and values. A *write* is a key and a value, a *question* the mark and a key:
the model is to say the key's last value next. A segment has writes and questions in random order among fillers, and
ends with at least `gap` fillers; so a question in the next segment is about what lies further back than an attention
window of `gap` tokens. A *probe* is questions alone, put behind any number of segments.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NOTHING = -100
"""The target where nothing is asked, as torch's cross entropy has it."""


@dataclass(frozen=True)
class Task:
    """Sizes of the task.

    Attributes:
        keys, values, fillers: how many tokens of each.
        segment: tokens of a segment.
        writes, questions: how many of each in a segment; questions of a first segment come after its first write.
        gap: fillers at the end of a segment, at least.
        probe: questions of a probe.
    """

    keys: int = 48
    values: int = 32
    fillers: int = 8
    segment: int = 64
    writes: int = 12
    questions: int = 10
    gap: int = 16
    probe: int = 12

    @property
    def vocabulary(self) -> int:
        """Tokens: fillers, the mark, keys, values."""
        return self.fillers + 1 + self.keys + self.values

    @property
    def mark(self) -> int:
        """The token that makes a question of the key behind it."""
        return self.fillers

    @property
    def first_value(self) -> int:
        """The values are this token and those above it."""
        return self.fillers + 1 + self.keys


class Writer:
    """Makes one sequence after another; everything follows from the generator."""

    def __init__(self, task: Task, generator: torch.Generator) -> None:
        self.task, self._generator = task, generator
        self.known: dict[int, int] = {}

    def _number(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self._generator))

    def _order(self, n: int) -> list[int]:
        return torch.randperm(n, generator=self._generator).tolist()

    def segment(self) -> tuple[list[int], list[int]]:
        """The next segment of the sequence: its tokens, and what is to be said after each."""
        task = self.task
        free = task.segment - task.gap - 2 * (task.writes + task.questions)
        kinds = "w" * task.writes + "q" * task.questions + "f" * free
        kinds = "".join(kinds[n] for n in self._order(len(kinds)))
        if not self.known:  # nothing can be asked yet
            first = kinds.index("w")
            kinds = "w" + kinds[:first] + kinds[first + 1 :]
        tokens: list[int] = []
        targets: list[int] = []
        for kind in kinds + "f" * task.gap:
            some, wanted = self._unit(kind)
            tokens += some
            targets += wanted
        return tokens, targets

    def _unit(self, kind: str) -> tuple[list[int], list[int]]:
        task = self.task
        if kind == "f":
            return [self._number(task.fillers)], [NOTHING]
        if kind == "w":
            key, value = task.mark + 1 + self._number(task.keys), task.first_value + self._number(task.values)
            self.known[key] = value
            return [key, value], [NOTHING, NOTHING]
        key = list(self.known)[self._number(len(self.known))]
        return [task.mark, key], [NOTHING, self.known[key]]

    def probe(self) -> tuple[list[int], list[int]]:
        """Questions about what is known, none twice while there are enough keys."""
        known = list(self.known.items())
        chosen: list[tuple[int, int]] = []
        while len(chosen) < self.task.probe:
            chosen += [known[n] for n in self._order(len(known))]
        tokens = [token for key, _ in chosen[: self.task.probe] for token in (self.task.mark, key)]
        return tokens, [target for _, value in chosen[: self.task.probe] for target in (NOTHING, value)]


@dataclass(frozen=True)
class Chain:
    """A sequence of segments, and a probe behind each of them.

    Attributes:
        segments: tokens of each.
        probes: tokens and targets of each probe, about what all segments up to its own say.
    """

    segments: list[list[int]]
    probes: list[tuple[list[int], list[int]]]


def chains(task: Task, count: int, length: int, seed: int) -> list[Chain]:
    """Sequences to serve."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        writer = Writer(task, generator)
        chain = Chain([], [])
        for _ in range(length):
            chain.segments.append(writer.segment()[0])
            chain.probes.append(writer.probe())
        made.append(chain)
    return made


def batch(task: Task, count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences to train on: tokens and targets, [count, length * segment + 2 * probe], int64."""
    rows = []
    for _ in range(count):
        writer = Writer(task, generator)
        parts = [writer.segment() for _ in range(length)] + [writer.probe()]
        rows.append([[token for part in parts for token in part[n]] for n in range(2)])
    return torch.tensor([row[0] for row in rows]), torch.tensor([row[1] for row in rows])
