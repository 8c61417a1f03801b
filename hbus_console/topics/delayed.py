"""What of a topic waits for its due time: how many messages that are, and their end when the topic is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from engine.bus.delay_entries import name_of
from engine.bus.delays import Cancelled
from engine.bus.facts import Fact, batches
from engine.core.clock import SystemClock
from engine.core.errors import Unavailable
from hbus_console.wiring import bus, fact_log, store

#: How many are cancelled in one round trip.
_AT_ONCE = 500
_clock = SystemClock()


def count(topic: str) -> int:
    """How many wait, also those that are refused. It reads through all that waits in the installation. Raises
    ``Unavailable``."""
    return sum(1 for _ in bus.delays().places_in(topic))


def waiting(topic: str) -> int | None:
    """The same; ``None`` where the store does not answer."""
    try:
        return count(topic)
    except Unavailable:
        return None


def cancel_all(topic: str) -> int:
    """Cancel what waits in a topic that was deleted, each told as ``cancelled``; returns how many.

    Those that are being published at this moment the mover gives up. Raises ``Unavailable``: repeat it; what was
    cancelled and not told by then, the check of delayed evidence tells.
    """
    delays, number = bus.delays(), 0
    for places in _chunks(delays.places_in(topic)):
        answers = delays.cancel_at(topic, places)
        gone = [place for place, answer in zip(places, answers, strict=True) if answer is Cancelled.CANCELLED]
        number += len(gone)
        fact_log.emitter().emit(batches(_cancelled(place) for place in gone))
    return number


def _cancelled(place: bytes) -> Fact:
    topic, source, message_id = name_of(place)
    return Fact(
        "cancelled",
        _clock.now_ms(),
        topic,
        message_id=message_id,
        source=source,
        node=store.node_name(),
        detail="Its topic was deleted.",
    )


def _chunks(places: Iterator[bytes]) -> Iterator[list[bytes]]:
    while chunk := list(islice(places, _AT_ONCE)):
        yield chunk
