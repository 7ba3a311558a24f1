"""Allocators as other people write them, right and wrong, for the tests of the fuzzer."""

from __future__ import annotations

import numpy as np


class Minimal:
    """The least target: a free list, no holders, and an assertion against double frees."""

    def __init__(self, slots: int) -> None:
        self.free_list = list(range(1, slots + 1))
        self.taken: set[int] = set()

    def alloc(self, n: int) -> list[int] | None:
        if n > len(self.free_list):
            return None
        ids, self.free_list = self.free_list[:n], self.free_list[n:]
        self.taken.update(ids)
        return ids

    def free(self, ids: list[int]) -> None:
        if len(set(ids)) != len(ids) or not self.taken.issuperset(ids):
            raise ValueError("not allocated")
        self.taken.difference_update(ids)
        self.free_list.extend(ids)


class Careless:
    """As engines often have it: frees are not checked, and the docs say so."""

    rejects_bad_frees = False

    def __init__(self, slots: int) -> None:
        self.free_slots = np.arange(1, slots + 1)

    def alloc(self, n: int) -> np.ndarray | None:
        if n > len(self.free_slots):
            return None
        ids, self.free_slots = self.free_slots[:n].copy(), self.free_slots[n:]
        return ids

    def free(self, ids: list[int]) -> None:
        self.free_slots = np.concatenate([self.free_slots, np.array(ids, dtype=np.int64)])

    def available(self) -> int:
        return len(self.free_slots)


class CarelessAndSilent(Careless):
    """As `Careless`, but its docs do not say so."""

    rejects_bad_frees = True


class Leaky(Minimal):
    """Loses a slot whenever three or more are freed at once; nothing but the capacity shows it."""

    def free(self, ids: list[int]) -> None:
        super().free(ids)
        if len(ids) >= 3:
            self.free_list.remove(ids[0])


class Crashing(Minimal):
    """Runs into a bug of its own instead of refusing."""

    refusals = (ValueError,)

    def alloc(self, n: int) -> list[int] | None:
        if n > len(self.free_list):
            raise ZeroDivisionError("a bug")
        return super().alloc(n)


class FromZero(Minimal):
    """Its first id is 0: it has no sink."""

    first_id = 0

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.free_list = list(range(slots))


class NoFree:
    """Lacks a method that every target must have."""

    def __init__(self, slots: int) -> None:
        pass

    def alloc(self, n: int) -> None:
        return None


def explodes(slots: int) -> None:
    """A factory that fails."""
    raise RuntimeError(f"no memory for {slots} slots")


not_callable = 3
