"""Arguments as callers pass them, made into plain ints and int64 arrays, or refused by type with the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Final, Protocol, SupportsIndex, TypeAlias

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from poolproof.errors import InvalidHolder
from poolproof.owner import Owner
from poolproof.slot_key import MAX_HOLDER


class SupportsArray(Protocol):
    """Anything that numpy can read in place, for example a torch tensor on the CPU."""

    def __array__(self, dtype: Any = ..., /) -> Any: ...


Ids: TypeAlias = SupportsIndex | Sequence[int] | NDArray[np.integer[Any]] | SupportsArray
"""Slot or page ids: one int, a sequence of ints, or a 1-D integer array or CPU tensor."""

INT64: Final = np.dtype(np.int64)
_LEAST: Final = int(np.iinfo(np.int64).min)
_LARGEST: Final = int(np.iinfo(np.int64).max)


def as_ids(ids: Ids) -> NDArray[np.int64]:
    """Slot or page ids as a 1-D int64 array; it may share memory with the argument.

    Ints that int64 cannot hold become the nearest int64, which no pool has as an id.

    Raises:
        TypeError: the ids are not integers, or lie on a device.
        ValueError: the array has more than one dimension.
    """
    if type(ids) is ndarray and ids.dtype is INT64 and ids.ndim == 1:
        return ids  # type: ignore[return-value]  # the test of the dtype narrows nothing
    if isinstance(ids, np.ndarray):
        return _from_array(ids)
    if isinstance(ids, str | bytes | bytearray):
        raise TypeError(f"ids must be integers, got {type(ids).__name__} {ids!r}"[:200])
    if isinstance(ids, Sequence):
        return _from_sequence(ids)
    if hasattr(ids, "__array__") and not isinstance(ids, np.generic):
        return _from_array(_on_host(ids))
    return _from_sequence((as_int("ids", ids),))


def _from_array(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got an array of {array.dtype}; convert it with .astype(np.int64)")
    if array.ndim > 1:
        raise ValueError(f"ids must be 1-D, got an array of shape {array.shape}; call .reshape(-1) on it")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        array = np.minimum(array, np.uint64(_LARGEST))
    return array.astype(np.int64, copy=False).reshape(-1)


def _from_sequence(ids: Sequence[Any]) -> NDArray[np.int64]:
    if set(map(type, ids)) - {int}:
        ids = [as_int("an id", item) for item in ids]
    try:
        return np.array(ids, dtype=np.int64)
    except OverflowError:
        return np.array([min(max(item, _LEAST), _LARGEST) for item in ids], dtype=np.int64)


def _on_host(ids: Any) -> NDArray[Any]:
    device = getattr(getattr(ids, "device", None), "type", "cpu")
    if device != "cpu":
        raise TypeError(
            f"ids must be on the host, got a {type(ids).__name__} on {device}; call .cpu() on it once, outside "
            f"the hot path, or keep the array that `alloc` returned"
        )
    return np.asarray(ids)


def as_int(name: str, value: Any) -> int:
    """One integer; a bool is none.

    Raises:
        TypeError: the value is no integer.
    """
    if not isinstance(value, bool | np.bool_):
        try:
            return index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an int, got {type(value).__name__} {value!r}; convert it with int(...)")


def as_count(name: str, value: Any) -> int:
    """How many: an int, zero or more.

    Raises:
        TypeError: the value is no integer.
        ValueError: it is negative.
    """
    if type(value) is int and value >= 0:
        return value
    count = as_int(name, value)
    if count < 0:
        raise ValueError(f"{name} is {count}; it must be zero or more")
    return count


def as_holder(name: str, value: Any) -> int:
    """The number of a request or cache node.

    Raises:
        TypeError: the value is no integer.
        InvalidHolder: it is negative.
        ValueError: it is larger than a pool can note.
    """
    holder = as_int(name, value)
    if holder < 0:
        raise InvalidHolder(name, holder)
    if holder > MAX_HOLDER:
        raise ValueError(f"{name} is {holder}; a pool can note holders up to {MAX_HOLDER}")
    return holder


def as_owner(name: str, value: Any) -> int:
    """A kind of owner as its number.

    Raises:
        TypeError: the value is no `Owner`, nor its number.
    """
    try:
        return Owner(as_int(name, value)).value
    except ValueError:
        raise TypeError(f"{name} must be an Owner, got {value!r}; pass Owner.REQUEST or Owner.CACHE") from None
