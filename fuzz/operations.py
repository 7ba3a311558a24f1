"""The operation language: what can be done to a pool, as typed values that can be saved, cut down and drawn.

An operation names slots by *picks*: "the third slot that holder 1 has now". A pick is looked up when the operation is
run, so any part of a trace is a trace, and the same trace drives allocators that hand out different slots.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias, get_args

import msgspec


class PickKind(StrEnum):
    """How a pick names a slot. All but the first are wrong for `free`; `PENDING` is the right one for `reclaim`."""

    MINE = "mine"
    """The k-th slot of the operation's holder."""
    PENDING = "pending"
    """The k-th slot that waits for `reclaim`."""
    DUPLICATE = "duplicate"
    """The k-th slot already named in this batch, once more."""
    FREED = "freed"
    """The k-th free slot: given back before, or never handed out."""
    FOREIGN = "foreign"
    """The k-th slot of the other holders."""
    OWNED = "owned"
    """The k-th slot that anybody holds."""
    RESERVED = "reserved"
    """The k-th slot that the open group holds back."""
    SINK = "sink"
    """Slot 0."""
    NEGATIVE = "negative"
    """The id -1 - k."""
    PAST_END = "past_end"
    """The id total + k."""
    WRAPPED = "wrapped"
    """The k-th slot of the holder plus 2^32: a good id once somebody cuts it to 32 bits."""


class Pick(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One slot id, looked up when the operation is run; k counts from 0, modulo the number of candidates.

    Where there is no candidate the pick names nothing and is left out of the batch.
    """

    kind: PickKind
    k: int = 0


Picks: TypeAlias = tuple[Pick, ...]
OwnerName: TypeAlias = Literal["free", "reserved", "request", "cache", "pending", "sink"]


class Operation(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="op", gc=False):
    """Base of all operations.

    Attributes:
        pool: the sub-pool that is meant; "" where there is only one.
    """

    pool: str = ""


class Alloc(Operation, frozen=True, tag="alloc"):
    """Ask for n slots for a request; with `beyond`, for n more than there are free ones (0: just the last)."""

    n: int
    holder: int = 0
    beyond: bool = False


class TryAlloc(Operation, frozen=True, tag="try_alloc"):
    """As `Alloc`, through the call that gives nothing where `alloc` raises."""

    n: int
    holder: int = 0
    beyond: bool = False


class Free(Operation, frozen=True, tag="free"):
    """The holder gives slots back."""

    picks: Picks
    holder: int = 0


class Retire(Operation, frozen=True, tag="retire"):
    """The holder gives slots back while a step in flight may touch them; they are reclaimed when it completes.

    `step` counts the steps in flight from 0, modulo their number + 1; the last one is a new step.
    """

    picks: Picks
    holder: int = 0
    step: int = 0


class Reclaim(Operation, frozen=True, tag="reclaim"):
    """Give back pending slots out of turn. The spec of slots does not look at steps, so this is allowed."""

    picks: Picks


class Transfer(Operation, frozen=True, tag="transfer"):
    """The holder's slots pass on to an heir: a request or a cache node (other owners are for the target to refuse)."""

    picks: Picks
    holder: int = 0
    to: OwnerName = "cache"
    heir: int = 0


class OpenGroup(Operation, frozen=True, tag="open_group"):
    """Hold n free slots back; with `beyond`, n more than there are free ones."""

    n: int
    beyond: bool = False


class Take(Operation, frozen=True, tag="take"):
    """Give n slots of the open group's reserve to a request; with `beyond`, n more than it has left."""

    n: int
    holder: int = 0
    beyond: bool = False


class CloseGroup(Operation, frozen=True, tag="close_group"):
    """End the open group."""


class Clear(Operation, frozen=True, tag="clear"):
    """Back to the initial state."""


AnyOperation: TypeAlias = Alloc | TryAlloc | Free | Retire | Reclaim | Transfer | OpenGroup | Take | CloseGroup | Clear


def name_of(operation: Operation | type[Operation]) -> str:
    """The operation's name in saved traces."""
    return str(operation.__struct_config__.tag)


NAMES: tuple[str, ...] = tuple(name_of(kind) for kind in get_args(AnyOperation))
"""The names of all operations."""
