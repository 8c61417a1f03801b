"""Plays a feed's events in the order of their times, at a speed, into the bus."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Receipt
from engine.core.errors import HbusError
from examples.hotel.events import booking_of
from examples.hotel.lifecycle import Moment
from hbus_console.imports.publishing import SteadyPublisher, Tally

#: The most events published at once.
BATCH = 500


def due(moments: Sequence[Moment], done: int, *, speed: float, elapsed_s: float) -> Sequence[Moment]:
    """The next events, at most :data:`BATCH`, that ``speed`` days a second have reached after ``elapsed_s``.

    ``done`` of ``moments`` were published before; speed 0 means as fast as it goes.
    """
    coming = moments[done : done + BATCH]
    if not speed or not coming:
        return coming
    reached_s = speed * 86_400 * elapsed_s
    begin = moments[0].at
    return list(takewhile(lambda moment: (moment.at - begin).total_seconds() <= reached_s, coming))


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
