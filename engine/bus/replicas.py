"""Durability: what a confirmation says when it waited for replicas of the store."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bus.errors import PublishRefused
from engine.bus.optional import Replicating
from engine.bus.transport import Outcome, Status, Transport

_CONFIRMED = (Status.OK, Status.DUPLICATE)


def replicated(outcomes: Sequence[Outcome], reached: int, wanted: int) -> list[Outcome]:
    """``outcomes`` as they are once ``reached`` replicas have what was written; too few make a confirmation unknown."""
    if reached >= wanted:
        return list(outcomes)
    why = f"{reached} of {wanted} replicas have it so far, and a failover now could lose it"
    return [
        Outcome(Status.UNKNOWN, each.message_id, error=why) if each.status in _CONFIRMED else each for each in outcomes
    ]


def confirming(transport: Transport, replicas: int, topic: str) -> Transport:
    """``transport`` as a topic that asks for so many replicas needs it.

    Raises :class:`~engine.bus.errors.PublishRefused` where it has none.
    """
    if not isinstance(transport, Replicating):
        raise PublishRefused(
            f"Topic {topic!r} asks for {replicas} replicas, and its transport {transport.name} has none.",
            remedy="Set its replicas to 0, or move it to redis_stream on a store with replicas.",
            field="replicas",
        )
    return transport.confirming(replicas)
