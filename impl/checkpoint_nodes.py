"""The nodes of a prefix cache, as a checkpoint pool knows them: keys of some tokens, checkpoints, locks with scope."""

from __future__ import annotations

from poolproof.arguments import as_count
from poolproof.checkpoint_errors import LockError
from poolproof.checkpoint_owners import Lock, Place, Scope, as_number
from poolproof.checkpoint_state import CheckpointState


class CheckpointNodes(CheckpointState):
    """Nodes come and go, are locked, and lose their checkpoints. See `CheckpointPool`."""

    def add_node(self, node: int, length: int) -> None:
        """The cache has a node more.

        Args:
            node: its number.
            length: tokens of its key, at least 1.

        Raises:
            LifecycleError: there is a node of this number.
            TypeError, ValueError: a number is no integer, negative, or the length 0.
        """
        self._drive()
        node = as_number("node", node)
        length = as_count("length", length)
        if not length:
            raise ValueError("length is 0; a node has a key of 1 token or more. Nothing was changed.")
        if node in self._places:
            self._refuse("add_node", f"node {node} is there already; remove it first")
        self._check_shadow("node")
        self._places[node] = Place(node, length)
        self._told("add_node", node, length)

    def remove_node(self, node: int) -> None:
        """A node without checkpoint and locks goes.

        Raises:
            LifecycleError: there is no such node, or it has a checkpoint.
            LockError: a lock is held on it.
        """
        self._drive()
        place = self._place("remove_node", node)
        if place.checkpoint is not None:
            self._refuse("remove_node", f"node {node} has the checkpoint {place.checkpoint}; evict it first")
        if place.pages or place.state:
            self._locked("remove_node", node, place)
        del self._places[place.number]
        self._told("remove_node", place.number)

    def lock(self, request: int, node: int, scope: Scope) -> Lock:
        """A request keeps a node: its place and pages, or its checkpoint too.

        Args:
            request: a waiting or running one.
            node: the node.
            scope: "pages": it is not removed; "state": nor is its checkpoint evicted.

        Returns:
            The lock, to be released once; `finish` releases what is left.

        Raises:
            LifecycleError: there is no such request or node.
            ValueError: the scope is something else.
        """
        self._drive()
        tenant = self._tenant("lock", request)
        place = self._place("lock", node)
        if scope not in ("pages", "state"):
            raise ValueError(f"scope is {scope!r}; it is 'pages' or 'state'. Nothing was changed.")
        self._check_shadow("lock")
        lock = Lock(self, self._taken, tenant.number, place.number, scope)
        self._taken += 1
        tenant.locks[lock.number] = lock
        if scope == "state":
            place.state += 1
        else:
            place.pages += 1
        self._told("take_lock", lock.request, lock.number, lock.node, int(scope == "state"))
        return lock

    def _unlock(self, lock: Lock) -> None:
        self._drive()
        if not lock.is_held:
            raise LockError(f"{lock!r} was released before. Nothing was changed.")
        self._release(lock)
        self._done("release_lock")

    def _release(self, lock: Lock) -> None:
        place = self._places[lock.node]
        if lock.scope == "state":
            place.state -= 1
        else:
            place.pages -= 1
        del self._tenants[lock.request].locks[lock.number]
        lock.is_held = False
        self._note("release_lock", lock.request, lock.number)

    def evict(self, node: int) -> None:
        """A node's checkpoint goes; its slot is free, or pending while a copy in flight reads it.

        Raises:
            LifecycleError: there is no such node, or it has no checkpoint.
            LockError: a lock of scope "state" is held on it.
        """
        place = self._place("evict", node)
        checkpoint = place.checkpoint
        if checkpoint is None:
            self._refuse("evict", f"node {node} has no checkpoint")
        if place.state:
            self._locked("evict", node, place)
        self.checkpoints.free(checkpoint)
        place.checkpoint, place.stored = None, 0
        del self._nodes[checkpoint]
        self._told("evict", place.number)

    def checkpoint_of(self, node: int) -> int | None:
        """The slot of a node's checkpoint; None without one.

        Raises:
            LifecycleError: there is no such node.
        """
        return self._place("checkpoint_of", node).checkpoint

    def pins(self, node: int, scope: Scope) -> int:
        """Locks of this scope that are held on a node.

        Raises:
            LifecycleError: there is no such node.
            ValueError: the scope is something else.
        """
        place = self._place("pins", node)
        if scope not in ("pages", "state"):
            raise ValueError(f"scope is {scope!r}; it is 'pages' or 'state'")
        return place.state if scope == "state" else place.pages
