"""What a transport may offer beside the contract. Who needs one of these asks with ``isinstance``.

:class:`~engine.bus.transport.Overlapping` stands beside the contract itself, for every publish of many asks for it, and
:class:`~engine.bus.partitions.Partitioned` with what it hands out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol, runtime_checkable

from engine.bus.transport import Outcome, Outgoing, Transport


@runtime_checkable
class Replicating(Protocol):
    """Confirming a message only once replicas have it too."""

    def confirming(self, replicas: int) -> Transport:
        """This transport, which answers ``OK`` or ``DUPLICATE`` only once so many replicas have what it wrote.

        Where they do not have it in time the answer is ``UNKNOWN``: the message is stored, and a failover may lose it.
        Shares everything with this one; do not close it.
        """
        ...


@runtime_checkable
class Claiming(Protocol):
    """Keys that stand for messages kept elsewhere until due."""

    def claim(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        """Take the idempotency key of each for its id, digest, window and due time. Bodies are empty: none is stored.

        ``OK``: the key stands for this id now, or did already. ``HELD``: for another message that waits.
        ``DUPLICATE`` and ``CONFLICT`` as when publishing. A publish under a claimed key is answered ``HELD``, except
        that of the very message (by its id), which is stored; the key then names its position. Never raises for the
        store's sake.
        """
        ...


@runtime_checkable
class TellsVanished(Protocol):
    """A receiver that finds out that messages of its group are gone before they were settled."""

    def take_vanished(self) -> list[str]:
        """The positions of those that it found gone and has not told of yet. Thread-safe."""
        ...


@runtime_checkable
class ClosesTopics(Protocol):
    """An admin side that can shut a topic to publishers, whatever they believe. Thread-safe."""

    def close_topic(self, topic: str) -> None:
        """Nothing is stored in it from then on, by nobody, also not by who had begun before: it is answered ``FAILED``.

        What lies there is delivered. :meth:`~engine.bus.transport.Admin.create_topic` opens it again, and
        :meth:`~engine.bus.transport.Admin.delete_topic` leaves it closed, for 30 days at least. Idempotent; a store
        that was emptied has forgotten it. Raises ``Unavailable``.
        """
        ...


class WhereItIs(Enum):
    """Where a group stands with one message."""

    #: The group is done with it.
    DONE = auto()
    #: It waits, is in somebody's hand, will be tried again, or is parked.
    OPEN = auto()
    #: The store does not have it any more, and the group was not done with it.
    LOST = auto()
    #: The store was emptied since, and does not have it: what became of it before is not known there.
    FORGOTTEN = auto()


@runtime_checkable
class TellsStanding(Protocol):
    """An admin side that can say of single messages whether a group is done with them. Thread-safe."""

    def standings(self, topic: str, group: str, positions: Sequence[str]) -> list[WhereItIs]:
        """One for each, as it was at some moment of the call.

        Raises ``Unavailable``, ``BadInput`` for what is no position, and ``GroupLost``.
        """
        ...

    def began_ms(self, topic: str) -> int:
        """Since when the store knows this life of the topic, epoch milliseconds; 0 where nobody knows. One that was
        emptied begins another. Raises ``Unavailable``."""
        ...
