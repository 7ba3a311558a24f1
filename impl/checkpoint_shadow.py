"""The spec in lockstep with a checkpoint pool: every change of the pool is a step of `poolproof.spec.checkpoint`.

The pool tells its journal what it does, under the names of the spec's actions. Each is applied to a state of the spec,
whose guards say whether it is allowed, and after each operation the two are compared in full. Requests, nodes and locks
have any numbers in the pool, and rows in the spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from poolproof.errors import SpecViolation
from poolproof.page_errors import PoolBusy
from poolproof.spec import checkpoint as spec
from poolproof.spec.language import Refused

if TYPE_CHECKING:
    from poolproof.checkpoint_owners import Tenant
    from poolproof.checkpoint_pool import CheckpointPool

ROWS: Final = {"request": 64, "node": 256, "lock": 256}
"""So many requests, nodes and locks a pool with a shadow can have at a time."""

_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "enqueue": ("request",),
    "admit": ("request", ""),
    "hit": ("request", "node", "lock", ""),
    "start": ("request",),
    "advance": ("request", ""),
    "add_track": ("request", ""),
    "track": ("request",),
    "release": ("request", ""),
    "retire_active": ("request", ""),
    "retract": ("request",),
    "leave": ("request",),
    "begin_store": ("request", "", ""),
    "publish": ("request", "", "node"),
    "drop": ("request", ""),
    "retire_checkpoint": ("request", ""),
    "add_node": ("node", ""),
    "remove_node": ("node",),
    "take_lock": ("request", "lock", "node", ""),
    "release_lock": ("request", "lock"),
    "evict": ("node",),
}
"""Of which kind the numbers are that an action is told with; "" and what is not listed are the spec's own."""

_ENDS: Final = {"leave": "request", "remove_node": "node", "release_lock": "lock"}
_LISTED: Final = 8


class CheckpointShadow:
    """The spec's state beside a new pool; the pool calls it with every change.

    Attributes:
        state: the spec's, whose ids are plain ints here.
        taken: steps of the spec that were taken.
    """

    def __init__(self, pool: CheckpointPool) -> None:
        self._pool = pool
        rows = {f"{kind}s": count for kind, count in ROWS.items()}
        slots = {"actives": pool.states.ids, "checkpoints": pool.checkpoints.ids, "parts": pool._parts}
        self.state: Any = spec.SPEC.initial(**slots, **rows).without_ghosts()
        self.taken = 0
        self._forget_rows()
        self.compare("create")

    def _forget_rows(self) -> None:
        self._rows: dict[str, dict[int, int]] = {kind: {} for kind in ROWS}
        self._free = {kind: list(range(count))[::-1] for kind, count in ROWS.items()}

    def check_room(self, kind: str, more: int) -> None:
        """Raises PoolBusy where the spec's state has not so many rows left of this kind."""
        if len(self._free[kind]) < more:
            raise PoolBusy(f"a pool with a shadow has {ROWS[kind]} {kind}s at most. Nothing was changed.")

    def __call__(self, action: str, *arguments: int) -> None:
        """The pool has done this.

        Raises:
            SpecViolation: the spec refuses it.
        """
        kinds = _KINDS.get(action, ("",) * len(arguments))
        rows = [self._row(kind, number) if kind else number for kind, number in zip(kinds, arguments, strict=True)]
        try:
            getattr(spec, action)(self.state, *rows)
        except Refused as refusal:
            told = f"{action}({', '.join(map(str, arguments))})"
            raise SpecViolation(told, "verdict", (), "done", "refused", str(refusal)) from refusal
        self.taken += 1
        ended = _ENDS.get(action)
        if ended is not None:
            number = arguments[kinds.index(ended)]
            self._free[ended].append(self._rows[ended].pop(number))
        if action == "clear":
            self._forget_rows()

    def _row(self, kind: str, number: int) -> int:
        rows = self._rows[kind]
        if number not in rows:
            rows[number] = self._free[kind].pop()
        return rows[number]

    def done(self, operation: str) -> None:
        """An operation of the pool is over.

        Raises:
            SpecViolation: the pool and the spec are in different states.
        """
        self.compare(operation)

    # --------------------------------------------------------------------------------------------------- comparison

    def compare(self, operation: str) -> None:
        """Raises SpecViolation where a table or a count of the pool is not the spec's."""
        self._compare_active(operation)
        self._compare_checkpoints(operation)
        self._compare_requests(operation)
        self._compare_nodes(operation)

    def _compare_active(self, operation: str) -> None:
        pool, state = self._pool, self.state
        use = {0: spec.Use.SINK}
        for tenant in pool._tenants.values():
            if tenant.own is not None:
                use[tenant.own] = spec.Use.RUNNING if tenant.is_running else spec.Use.QUEUED
            use.update({slot: spec.Use.TRACK for slot in (tenant.latest, tenant.spare) if slot is not None})
        use.update({one.active: spec.Use.PENDING for one in pool._flying if one._pending})
        slots = range(pool.states.ids)
        self._same(operation, "use", slots, lambda a: use.get(a, spec.Use.FREE), state.use)
        holders = {slot: self._rows["request"][request] for slot, request in pool._holders.items()}
        self._same(operation, "holder", slots, lambda a: holders.get(a, spec.NOBODY), state.holder)
        self._same(operation, "position", pool._positions, pool._positions.__getitem__, state.position)
        counts = {"queued": pool._queued, "running": pool._running, "tracks": pool._tracks, "waiting": pool._waiting}
        self._counts(operation, counts)

    def _compare_checkpoints(self, operation: str) -> None:
        pool, state = self._pool, self.state
        stage = {0: spec.Stage.SINK}
        stage.update(dict.fromkeys(pool._donors, spec.Stage.STORING))
        stage.update(dict.fromkeys(pool._nodes, spec.Stage.CACHED))
        parked = [one for one in pool._flying if one.checkpoint not in pool._donors]
        stage.update({one.checkpoint: spec.Stage.PENDING for one in parked})
        slots = range(pool.checkpoints.ids)
        self._same(operation, "stage", slots, lambda c: stage.get(c, spec.Stage.FREE), state.stage)
        donors = {slot: self._rows["request"][one.request] for slot, one in pool._donors.items()}
        self._same(operation, "donor", slots, lambda c: donors.get(c, spec.NOBODY), state.donor)
        nodes = {slot: self._rows["node"][node] for slot, node in pool._nodes.items()}
        self._same(operation, "node_of", slots, lambda c: nodes.get(c, spec.NO_NODE), state.node_of)
        flying = {one.checkpoint for one in pool._flying}
        self._same(operation, "copying", slots, flying.__contains__, state.copying)
        lengths: dict[int, int] = {slot: one.length for slot, one in pool._donors.items()}
        lengths.update({slot: pool._places[node].stored for slot, node in pool._nodes.items()})
        self._same(operation, "length", lengths, lengths.__getitem__, state.length)
        self._counts(operation, {"storing": len(pool._donors), "cached": len(pool._nodes), "parked": pool._parked})

    def _compare_requests(self, operation: str) -> None:
        rows = self._rows["request"]
        tenants = {rows[number]: tenant for number, tenant in self._pool._tenants.items()}
        every = range(ROWS["request"])
        self._same(operation, "phase", every, lambda r: _phase(tenants.get(r)), self.state.phase)
        for field in ("own", "latest", "spare"):
            slots = {row: getattr(tenant, field) for row, tenant in tenants.items()}
            table = getattr(self.state, field)
            self._same(operation, field, every, lambda r, at=slots: _or(at.get(r), spec.NOWHERE), table)

    def _compare_nodes(self, operation: str) -> None:
        rows, state = self._rows["node"], self.state
        places = {rows[number]: place for number, place in self._pool._places.items()}
        every = range(ROWS["node"])
        self._same(operation, "is_kept", every, places.__contains__, state.is_kept)
        for field, of in (("key_length", "length"), ("page_pins", "pages"), ("state_pins", "state")):
            told = {row: getattr(place, of) for row, place in places.items()}
            self._same(operation, field, told, told.__getitem__, getattr(state, field))
        checkpoints = {row: place.checkpoint for row, place in places.items()}
        self._same(operation, "checkpoint", every, lambda n: _or(checkpoints.get(n), spec.NOTHING), state.checkpoint)
        held = {self._rows["lock"][number] for tenant in self._pool._tenants.values() for number in tenant.locks}
        self._same(operation, "is_held", range(ROWS["lock"]), held.__contains__, state.is_held)

    def _same(self, operation: str, field: str, keys: Iterable[int], ours: Any, theirs: Any) -> None:
        wrong = [key for key in keys if ours(key) != theirs[key]][:_LISTED]
        if wrong:
            _report(operation, field, wrong, [int(ours(key)) for key in wrong], [int(theirs[key]) for key in wrong])

    def _counts(self, operation: str, ours: dict[str, int]) -> None:
        for field, count in ours.items():
            if count != getattr(self.state, field):
                _report(operation, field, [], [count], [getattr(self.state, field)])


def _phase(tenant: Tenant | None) -> spec.Phase:
    if tenant is None:
        return spec.Phase.IDLE
    return spec.Phase.RUNNING if tenant.is_running else spec.Phase.QUEUED


def _or(slot: int | None, none: int) -> int:
    return none if slot is None else slot


def _report(operation: str, field: str, keys: list[int], ours: list[int], theirs: list[int]) -> NoReturn:
    raise SpecViolation(operation, field, keys, ours, theirs)
