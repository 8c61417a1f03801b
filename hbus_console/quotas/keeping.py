"""Keeps the control plane supplied with the newest book, and makes one when an override begins or ends."""

from __future__ import annotations

from engine.core.clock import Clock
from engine.quota.plane import ControlPlane
from hbus_console.quotas.services.books import keep_up
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
