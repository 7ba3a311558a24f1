"""What a checkpoint pool has noted: who owns which slot, at how many tokens its state is, and who is told of changes.

The operations stand on it in `poolproof.checkpoint_pool`.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, cast
from weakref import ReferenceType

from poolproof.checkpoint_bytes import CheckpointBytes
from poolproof.checkpoint_errors import LifecycleError, LockError
from poolproof.checkpoint_memory import check_pair
from poolproof.checkpoint_owners import Donation, Place, Tenant, as_number
from poolproof.page_errors import PoolBusy
from poolproof.sub_pool import SubPool

if TYPE_CHECKING:
    from poolproof.checkpoint_pool import CheckpointPool


class CheckpointState:
    """The state of a `CheckpointPool`, and what its operations look up, refuse and tell.

    Attributes:
        states, checkpoints: the two sub-pools.
        is_shared: whether others take slots of the two as well.
    """

    def __init__(self, states: SubPool, checkpoints: SubPool, *, shadow: bool = False, shared: bool = False) -> None:
        check_pair(states, checkpoints)
        if not shared:
            _check_untaken(states, checkpoints)
        self.is_shared = shared
        self._cache: ReferenceType[Any] | None = None
        """The cache that has this pool to itself."""
        self.states, self.checkpoints = states, checkpoints
        self._bytes = CheckpointBytes(states, checkpoints)
        self._parts = len(states.layout.layout.parts)
        self._journal: Any = None
        self._taken = 0
        self._reset()
        if shadow:
            from poolproof.checkpoint_shadow import CheckpointShadow

            self._journal = CheckpointShadow(cast("CheckpointPool", self))

    def _reset(self) -> None:
        """As in a new pool."""
        self._tenants: dict[int, Tenant] = {}
        self._places: dict[int, Place] = {}
        self._holders: dict[int, int] = {}
        """The request of each active slot that has one."""
        self._positions: dict[int, int] = {}
        """Tokens that the state in such a slot has seen."""
        self._donors: dict[int, Donation] = {}
        """The donation of each checkpoint slot that is one's."""
        self._nodes: dict[int, int] = {}
        """The node of each checkpoint slot that is one's."""
        self._flying: list[Donation] = []
        """Donations whose copies are in flight, dropped ones too."""
        self._queued = self._running = self._tracks = self._waiting = self._parked = 0
        """Active slots by use, pending ones last, and pending checkpoint slots."""

    def _drive(self) -> None:
        """An operation that touches no pool is the driving thread's all the same."""
        pool = self.states._pool
        if pool._thread != get_ident():
            pool._enter()

    def _enter(self) -> None:
        """An operation that touches both pools is refused by both before it begins."""
        self.states._pool._enter()
        if self.checkpoints._pool is not self.states._pool:
            self.checkpoints._pool._enter()

    def _tenant(self, operation: str, request: int) -> Tenant:
        """The request of this number."""
        found = self._tenants.get(request) if type(request) is int else None
        if found is None:
            number = as_number("request", request)
            found = self._tenants.get(number)
            if found is None:
                self._refuse(operation, f"there is no request {number}; enqueue it first")
        return found

    def _waiting_tenant(self, operation: str, request: int) -> Tenant:
        """A request that waits for a slot."""
        tenant = self._tenant(operation, request)
        if tenant.is_running or tenant.own is not None:
            self._refuse(operation, f"{tenant}; only one that waits is given a slot")
        return tenant

    def _own(self, operation: str, tenant: Tenant) -> int:
        """The slot of a running request's own state."""
        if not tenant.is_running or tenant.own is None:
            self._refuse(operation, f"{tenant}; it must run, with a slot of its own")
        return tenant.own

    def _computed(self, operation: str, request: int, active: int) -> int:
        """The position of a state that has one."""
        position = self._positions[active]
        if position == 0:
            self._refuse(operation, f"active slot {active} of request {request} has seen no token; advance it first")
        return position

    def _check_unread(self, operation: str, active: int) -> None:
        """Raises LifecycleError where a donation still copies from a slot that is to be written."""
        for donation in self._flying:
            if donation.active == active:
                self._refuse(operation, f"{donation!r} copies from active slot {active}; complete it first")

    def _place(self, operation: str, node: int) -> Place:
        """The node of this number."""
        found = self._places.get(node) if type(node) is int else None
        if found is None:
            number = as_number("node", node)
            found = self._places.get(number)
            if found is None:
                self._refuse(operation, f"there is no node {number}; add it first")
        return found

    def _locked(self, operation: str, node: int, place: Place) -> NoReturn:
        raise LockError(
            f"{operation}: {place.pages} locks of scope 'pages' and {place.state} of scope 'state' are held on node "
            f"{node}; release those first. Nothing was changed."
        )

    def _refuse(self, operation: str, why: str) -> NoReturn:
        raise LifecycleError(f"{operation}: {why}. Nothing was changed.")

    def _check_shadow(self, kind: str, more: int = 1) -> None:
        """Raises PoolBusy where the spec in lockstep has no room for so many requests, nodes or locks more."""
        if self._journal is not None:
            self._journal.check_room(kind, more)

    def _note(self, action: str, *arguments: int) -> None:
        """An elementary change, as the spec has it."""
        if self._journal is not None:
            self._journal(action, *arguments)

    def _note_parts(self, action: str, slot: int) -> None:
        for part in range(self._parts):
            self._note(action, slot, part)

    def _done(self, operation: str) -> None:
        """An operation is over."""
        if self._journal is not None:
            self._journal.done(operation)

    def _told(self, action: str, *arguments: int) -> None:
        """An operation is over with its last elementary change."""
        if self._journal is not None:
            self._journal(action, *arguments)
            self._journal.done(action)


def _check_untaken(states: SubPool, checkpoints: SubPool) -> None:
    """Raises PoolBusy where somebody has slots of either sub-pool already."""
    active, cached = int(states._table.bound), int(checkpoints._table.bound)
    if active or cached:
        raise PoolBusy(
            f"{active} slots of {states.name!r} and {cached} of {checkpoints.name!r} are taken, and would be nobody's "
            f"here: free them first, or pass shared=True. Nothing was changed."
        )
