"""Keeps the control plane supplied with the newest book, makes one when an override is due, and counts nodes."""

from __future__ import annotations

from engine.core.clock import Clock, SystemClock
from engine.quota.plane import ControlPlane
from hbus_console.quotas.metrics import show_nodes
from hbus_console.quotas.services.books import keep_up
from hbus_console.quotas.standing import nodes_now
from hbus_console.wiring import quota


class BookKeeper:
    """A duty; what a person saves reaches the control plane without it, unless that was away."""

    name = "quota-book"
    interval_s = 1.0

    def __init__(self, plane: ControlPlane, *, clock: Clock | None = None) -> None:
        self._plane = plane
        self._clock = clock

    def tick(self) -> None:
        """Raises ``Unavailable`` while the control plane is away."""
        keep_up(self._plane, clock=self._clock)


def book_keeper() -> BookKeeper:
    """The duty of the keeper."""
    return BookKeeper(quota.control_plane())


class NodeCounter:
    """A duty: sets the gauges of nodes and limiters from what nodes told last. Raises what a database does."""

    name = "quota-nodes"
    interval_s = 5.0

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        now_ms = self._clock.now_ms()
        show_nodes(nodes_now(now_ms), now_ms)


def node_counter() -> NodeCounter:
    """The duty of the keeper."""
    return NodeCounter()
