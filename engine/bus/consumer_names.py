"""The names that consumers leave in a group, and forgetting those that nobody will use again."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class ConsumerName(msgspec.Struct, frozen=True):
    """A name under which somebody has read a group."""

    name: str
    #: Messages that were handed out to it last and are not settled, whatever became of their leases.
    pending: int
    #: Milliseconds since it last asked for anything, by the store's clock. A consumer that is paused asks for nothing.
    idle_ms: int


@runtime_checkable
class NamesConsumers(Protocol):
    """What an :class:`~engine.bus.transport.Admin` may offer where the store keeps the names of a group's consumers.

    Thread-safe. All methods raise ``Unavailable`` and :class:`~engine.bus.errors.GroupLost`.
    """

    def consumer_names(self, topic: str, group: str) -> list[ConsumerName]:
        """All names, sorted."""
        ...

    def forget_consumers(self, topic: str, group: str, *, idle_ms: int) -> list[str]:
        """Remove names that have asked for nothing for ``idle_ms`` and have nothing pending; returns those, sorted.

        Looking and removing are one step in the store, so nothing pending is ever lost. A consumer that lives after
        all loses nothing either: its name is there again as soon as it asks.
        """
        ...
