"""Sorts of the spec language: integers, truth values, id newtypes, enumerations, and the marks on annotations."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar, get_args, get_origin, overload

K = TypeVar("K")
T = TypeVar("T")

Bool = bool
Int = int


class Id(int):
    """Base of id newtypes. Concrete values are plain integers; symbolic ones may only meet their own kind."""

    __slots__ = ()

    if TYPE_CHECKING:  # a step away from an id is an id of its kind; between two ids lies a number of steps

        def __add__(self, other: int) -> Self: ...

        @overload
        def __sub__(self, other: Self) -> int: ...  # type: ignore[overload-overlap]

        @overload
        def __sub__(self, other: int) -> Self: ...

        def __sub__(self, other: int) -> int: ...


class Enumeration(enum.IntEnum):
    """Base of finite sorts, for example the kinds of owner."""


class Size(int, Generic[K]):
    """Annotation of a state's parameter: how many ids of kind K there are; they run 0 <= id < size."""


class _Mark:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


CHOSEN = _Mark("chosen")
GHOST = _Mark("ghost")
GIVEN = _Mark("given")

Chosen = Annotated[T, CHOSEN]
"""A parameter that is the implementation's choice: the guard says whether the choice is allowed."""

Ghost = Annotated[T, GHOST]
"""A field that only proofs look at: no guard and no write to a real field may depend on it."""


Given = Annotated[T, GIVEN]
"""A field that an instance is made with, like its sizes: no action changes it; @assumption says which values fit."""


def unwrap(annotation: Any) -> tuple[Any, frozenset[str]]:
    """The bare annotation and the names of its marks."""
    if get_origin(annotation) is Annotated:
        bare, *marks = get_args(annotation)
        return bare, frozenset(mark.name for mark in marks if isinstance(mark, _Mark))
    return annotation, frozenset()


def is_id(sort: Any) -> bool:
    """Is this sort an id newtype?"""
    return isinstance(sort, type) and issubclass(sort, Id)


def is_enumeration(sort: Any) -> bool:
    """Is this sort a finite enumeration?"""
    return isinstance(sort, type) and issubclass(sort, Enumeration)


def is_integer(sort: Any) -> bool:
    """Is this sort carried by integers (plain integers, sizes and ids)?"""
    return sort is int or is_id(sort)
