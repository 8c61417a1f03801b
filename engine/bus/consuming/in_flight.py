"""What a consumer has in flight: every delivery between receive and settlement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engine.bus.context import Context
from engine.bus.message import Message
from engine.bus.transport import Attempt, Delivery


class InFlight(msgspec.Struct, eq=False, gc=False):
    """One delivery in flight. Written by one thread at a time; ``lost`` may be set by any."""

    delivery: Delivery
    #: Monotonic seconds, from before the request that leased or extended it was sent.
    leased_at: float
    attempt: int
    history: tuple[Attempt, ...]
    #: Set once the store said that the lease had passed to another.
    lost: bool = False
    key: str = ""
    #: On its way back to the store, where the order is made again: whatever comes of its key meanwhile goes back too.
    returning: bool = False
    #: The one message that an open breaker lets through to be tried.
    probe: bool = False
    message: Message | None = None
    context: Context | None = None

    def lose(self) -> None:
        """Note that it is not ours any more, and tell the handler that may be running."""
        self.lost = True
        if self.context is not None:
            self.context.lease_lost = True


class InFlightTable:
    """All of it, by position. ``take`` is called by one thread, ``drop`` of one delivery by one at a time."""

    def __init__(self) -> None:
        self._held: dict[str, InFlight] = {}

    def take(self, deliveries: Iterable[Delivery], leased_at: float) -> list[InFlight]:
        """Note ``deliveries`` and return those that are new.

        A delivery of what is held already (its lease had run out unnoticed) renews the lease instead: it must not run
        twice at once in this process.
        """
        fresh = []
        held_now = self._held
        for delivery in deliveries:
            position = delivery.position
            known = held_now.get(position)
            if known is None:
                held_now[position] = held = InFlight(delivery, leased_at, delivery.attempt, delivery.history)
                fresh.append(held)
            else:
                known.delivery = delivery
                known.leased_at = leased_at
                known.lost = False
                if known.context is not None:
                    known.context.lease_lost = False
        return fresh

    def drop(self, held: InFlight) -> None:
        """Forget one delivery."""
        position = held.delivery.position
        if self._held.get(position) is held:
            del self._held[position]

    def everything(self) -> Sequence[InFlight]:
        """A snapshot."""
        return list(self._held.copy().values())

    def __len__(self) -> int:
        return len(self._held)
