"""Plays a feed's events in the order of their times, at a speed, into the bus."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import timedelta

from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Receipt
from engine.core.errors import HbusError
from examples.hotel.events import booking_of
from examples.hotel.lifecycle import Moment
from hbus_console.imports.publishing import SteadyPublisher, Tally

#: The most events published at once.
BATCH = 500
#: A pause between two events is never played longer: nights pass quickly, and so does the first, empty year.
QUIET = timedelta(hours=2)


def timeline(moments: Sequence[Moment]) -> list[float]:
    """When each event is played, in days from the first: as they happened, but no pause longer than :data:`QUIET`."""
    played, days = [], 0.0
    for index, moment in enumerate(moments):
        if index:
            days += min(moment.at - moments[index - 1].at, QUIET) / timedelta(days=1)
        played.append(days)
    return played


def due(timeline: Sequence[float], done: int, *, speed: float, elapsed_s: float) -> int:
    """Up to where ``speed`` days a second have come after ``elapsed_s``: at most :data:`BATCH` events beyond ``done``.

    Speed 0 means as fast as it goes.
    """
    most = min(done + BATCH, len(timeline))
    return bisect_right(timeline, speed * elapsed_s, done, most) if speed else most


def publish(publisher: SteadyPublisher, source: str, moments: Sequence[Moment]) -> Tally:
    """Publish a few events; repeats are recognised by their ids. Raises the first refusal, or ``Unavailable``."""
    tally = Tally()
    by_topic: dict[str, list[Moment]] = {}
    for moment in moments:
        by_topic.setdefault(moment.topic, []).append(moment)
    for topic, group in by_topic.items():
        for answer in publisher.publish(topic, [_item(source, moment) for moment in group]):
            _count(tally, answer)
    return tally


def _count(tally: Tally, answer: Receipt | HbusError) -> None:
    if isinstance(answer, HbusError):
        raise answer
    if answer.status == "duplicate":
        tally.deduplicated += 1
    else:
        tally.published += 1


def _item(source: str, moment: Moment) -> BatchItem:
    booking = booking_of(moment.event)
    options = PublishOptions(
        key=booking,
        correlation_id=booking,
        message_id=moment.id,
        idempotency_key=moment.id,
        source=source,
        time=moment.at,
    )
    return BatchItem(moment.event, options)
