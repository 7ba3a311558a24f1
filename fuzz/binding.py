"""One target, called in one way whatever it offers: refusals told from crashes, ids as plain ints from 1 up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poolproof.fuzz.handles import Handles, plain_ids
from poolproof.fuzz.targets import Profile
from poolproof.spec.slots import Owner


class Crashed(Exception):
    """The target failed in a way that is no refusal: another exception, or something that is no list of ids."""


class Binding:
    """A target behind uniform calls.

    Methods that give ids return them, or None where the target refused; the others return whether it accepted. After
    a refusal `refusal` says why, in the target's own words, and `raised` whether it was an exception. All of them raise
    `Crashed`.
    """

    def __init__(self, target: Any, profile: Profile) -> None:
        self.target = target
        self.profile = profile
        self.refusal = ""
        self.raised = False
        self.handles = Handles() if "values" in profile.promises else None
        self._refusals: tuple[type[Exception], ...] = tuple(getattr(target, "refusals", (Exception,)))
        self._shift = getattr(target, "first_id", 1) - 1
        self._holders = "holders" in profile.capabilities
        self._aliasing = "values" in profile.promises

    def alloc(self, n: int, holder: int) -> list[int] | None:
        """`Target.alloc`."""
        return self._ask(self.target.alloc, n, holder)

    def try_alloc(self, n: int, holder: int) -> list[int] | None:
        """`FullTarget.try_alloc`."""
        return self._ask(self.target.try_alloc, n, holder)

    def take(self, n: int, holder: int) -> list[int] | None:
        """`FullTarget.take`."""
        return self._ask(self.target.take, n, holder)

    def open_group(self, n: int) -> list[int] | None:
        """`FullTarget.open_group`."""
        return self._ask(self.target.open_group, n, None)

    def free(self, ids: list[int], holder: int) -> bool:
        """`Target.free`."""
        return self._tell(self.target.free, ids, holder)

    def retire(self, ids: list[int], holder: int) -> bool:
        """`FullTarget.retire`."""
        return self._tell(self.target.retire, ids, holder)

    def reclaim(self, ids: list[int]) -> bool:
        """`FullTarget.reclaim`."""
        return self._tell(self.target.reclaim, ids, None)

    def transfer(self, ids: list[int], holder: int, to: Owner, heir: int) -> bool:
        """`FullTarget.transfer`."""
        return self._tell(self.target.transfer, ids, holder, to=to, heir=heir)

    def close_group(self) -> bool:
        """`FullTarget.close_group`."""
        return self._tell(self.target.close_group, None, None)

    def clear(self) -> bool:
        """`FullTarget.clear`."""
        return self._tell(self.target.clear, None, None)

    def available(self) -> int:
        """`FullTarget.available`."""
        return self._read(self.target.available)  # type: ignore[no-any-return]

    def snapshot(self) -> Any:
        """`FullTarget.snapshot`."""
        return self._read(self.target.snapshot)

    def check(self) -> list[Any]:
        """`FullTarget.check`."""
        return list(self._read(self.target.check))

    def _read(self, method: Callable[[], Any]) -> Any:
        try:
            return method()
        except (Exception, SystemExit) as error:
            raise Crashed(f"{method.__name__} raised {_told(error)}") from error

    def _ask(self, method: Callable[..., Any], n: int, holder: int | None) -> list[int] | None:
        try:
            raw = method(n) if holder is None or not self._holders else method(n, holder=holder)
        except self._refusals as error:
            self.refusal, self.raised = _told(error), True
            return None
        except (Exception, SystemExit) as error:
            raise Crashed(f"raised {_told(error)}") from error
        if raw is None:
            self.refusal, self.raised = "gave None", False
            return None
        try:
            ids = plain_ids(raw)
        except (TypeError, ValueError) as error:
            raise Crashed(f"gave something that is no list of ids: {error}") from error
        if self.handles is not None:
            self.handles.note(raw, ids)
        return [slot - self._shift for slot in ids] if self._shift else ids

    def _tell(self, method: Callable[..., Any], ids: list[int] | None, holder: int | None, **more: Any) -> bool:
        if holder is not None and self._holders:
            more["holder"] = holder
        try:
            if ids is None:
                method(**more)
            else:
                passed = [slot + self._shift for slot in ids]
                method(passed, **more)
                if self._aliasing:
                    passed.clear()  # the list is the caller's: what it does to it later must not matter
        except self._refusals as error:
            self.refusal, self.raised = _told(error), True
            return False
        except (Exception, SystemExit) as error:
            raise Crashed(f"raised {_told(error)}") from error
        return True


def _told(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
