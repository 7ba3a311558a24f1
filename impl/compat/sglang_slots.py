"""SGLang's allocator of state slots over `SlotPool`: ids are tensors on the device, a shortage is None."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolproof.arguments import Ids, as_count, as_ids, as_int
from poolproof.compat.handed_out import HandedOut
from poolproof.errors import Fault, InvalidIds
from poolproof.slot_faults import find_held_fault
from poolproof.slot_group import Group
from poolproof.slot_key import REQUEST, key_of
from poolproof.slot_pool import SlotPool
from poolproof.violation import Violation

HOLDER: Final = 0
"""Engines do not say for whom they ask: one holder has all slots."""

_HELD: Final = key_of(REQUEST, HOLDER)


class MambaSlotAllocator:
    """Hands out slots 1..size, each to one holder at a time; slot 0 takes the writes of padding rows.

    Nothing here waits for the device, but for one case: `free` of a tensor on the device that is neither what `alloc`
    returned nor a view of it is read back, one synchronisation a call.

    Args:
        size: slots that can be handed out.
        device: where the tensors of ids are.
        shadow: run the spec in lockstep, see `SlotPool`.

    Attributes:
        size, device: as given.

    Raises:
        TypeError, ValueError: size is no positive integer.
    """

    def __init__(self, size: int, device: str | torch.device, *, shadow: bool = False) -> None:
        self.size = size
        self.device = device
        self._where = torch.device(device)
        self._pool = SlotPool(size, shadow=shadow)
        self._group: Group | None = None
        self._handed = HandedOut()

    # ------------------------------------------------------------------------------------------------- operations

    def alloc(self, need_size: int) -> Tensor | None:
        """Take slots. Inside a group, `alloc(1)` takes what the group holds back, as long as there is any.

        Returns:
            int64 [need_size] on the device, fresh; None where fewer slots are free.

        Raises:
            TypeError, ValueError: need_size is no integer, or negative.
            WrongThread: another thread drives the allocator.
        """
        need = as_count("need_size", need_size)
        if need == 1 and self._group is not None and self._group.remaining:
            return self._hand_out(self._group.take(1, HOLDER))
        ids = self._pool.try_alloc(need, HOLDER)
        return None if ids is None else self._hand_out(ids)

    def free(self, free_index: Tensor | Ids) -> None:
        """Give slots back; they can be handed out again at once.

        Args:
            free_index: ids, integers of no or one axis, none twice: a tensor, or numbers on the host.

        Raises:
            InvalidFree: an id is not handed out now, is none of the allocator's, or is listed twice.
            TypeError, ValueError: the ids are no integers, or have more than one axis.
            WrongThread: another thread drives the allocator.
        """
        if isinstance(free_index, Tensor) and free_index.numel() == 0:
            return
        self._pool.free(self.host_ids(free_index), HOLDER)

    def clear(self) -> None:
        """All slots are free, and an open group is at an end.

        Raises:
            WrongThread: another thread drives the allocator.
        """
        self._pool.clear()
        self._group = None

    def alloc_group_begin(self, num_reqs: int) -> None:
        """Hold slots back for a batch of `alloc(1)`, all or none. A group that is open ends first.

        Raises:
            TypeError: num_reqs is no integer; a group that is open goes on.
            WrongThread: another thread drives the allocator.
        """
        count = as_int("num_reqs", num_reqs)
        self.alloc_group_end()
        if 0 < count <= self._pool.capacity():
            self._group = self._pool.open_group(count)

    def alloc_group_end(self) -> None:
        """What is left of the open group is free again. Without one nothing happens."""
        if self._group is not None:
            self._group.close()
        self._group = None

    # ---------------------------------------------------------------------------------------------------- queries

    def available_size(self) -> int:
        """How many slots an `alloc` can get now, what an open group holds back not counted."""
        return self._pool.capacity()

    def schedulable_available_size(self) -> int:
        """What a planner may count on: the same."""
        return self._pool.capacity()

    @property
    def free_slots(self) -> Tensor:
        """The free slots, next first: int64 on the device, fresh. Takes time in proportion to their number."""
        return torch.from_numpy(self._pool._stack[self._pool._head :].copy()).to(self._where, non_blocking=True)

    def check(self) -> list[Violation]:
        """Every claim of the spec's invariants, tested against the stored arrays; [] means healthy."""
        return self._pool.check()

    # ------------------------------------------------------------------------------------------------ ids on the host

    def host_ids(self, ids: Tensor | Ids) -> NDArray[np.int64]:
        """Ids as an int64 array of one axis. Of a foreign tensor on a device this waits for the device.

        Raises:
            TypeError, ValueError: the ids are no integers, or have more than one axis.
        """
        known = self.known_ids(ids)
        if known is not None:
            return known
        assert isinstance(ids, Tensor)
        if ids.is_meta:
            raise TypeError("these ids are on meta and hold no numbers: pass what `alloc` returned, or ids on the host")
        return as_ids(ids.cpu())

    def known_ids(self, ids: Tensor | Ids) -> NDArray[np.int64] | None:
        """As `host_ids`, but None where that would wait for the device."""
        if not isinstance(ids, Tensor) or ids.device.type == "cpu":
            return as_ids(ids)
        return self._handed.recall(ids)

    def check_live(self, operation: str, ids: NDArray[np.int64], *, distinct: bool = False) -> None:
        """Raises InvalidIds where an id is not handed out now or, if they must be `distinct`, is listed twice."""
        keys = self._pool._keys.take(ids, None, None, "clip")
        finding = None if (keys == _HELD).all() else find_held_fault(ids, keys, self.size + 1, HOLDER)
        if finding is None and distinct and len(ids) > 1:
            values, counts = np.unique(ids, return_counts=True)
            finding = (Fault.DUPLICATE, values[counts > 1]) if len(values) < len(ids) else None
        if finding is not None:
            raise InvalidIds(operation, finding[0], finding[1].tolist(), slots=self.size)

    def tenancies(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many tenancies of each slot have ended: the number stays the same from `alloc` to `free` or `clear`.

        The ids are those of live slots.
        """
        self._pool._check_reader()
        return self._pool._tenancies.numbers().take(ids)

    def _hand_out(self, ids: NDArray[np.int64]) -> Tensor:
        if self._where.type == "cpu":
            return torch.from_numpy(ids)
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):  # tensors of an inference block do not count writes
                return self._hand_out(ids)
        tensor = torch.from_numpy(ids).to(self._where, non_blocking=True)
        if len(ids):
            self._handed.remember(tensor, ids)
        return tensor

    def __repr__(self) -> str:
        return f"MambaSlotAllocator(size={self.size}, free={self.available_size()}, device={str(self.device)!r})"
