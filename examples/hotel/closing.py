"""The nightly close: the stays of the day are counted, and each hotel's close is told to all three teams."""

from __future__ import annotations

from datetime import date, timedelta

from django.db import transaction
from django.db.models import F

from engine.bus.options import PublishOptions
from engine.cron.work.call import RunContext
from examples.hotel import books
from examples.hotel.books import HOTELS, Entry
from examples.hotel.events import NightClosed
from examples.hotel.models import HeardClose
from hbus_console.outbox.services import publish_on_commit

TOPIC = "night.closed"


def closed_day(slot: int) -> date:
    """Which day a close at ``slot`` is about: the one before it."""
    return books.local_day(slot) - timedelta(days=1)


def close(context: RunContext) -> str:
    """Enter the day of each hotel in the books and publish it: both commit together, or neither does.

    Whoever closes a day once more enters nothing, and so publishes nothing.
    """
    call, day = context.call, closed_day(context.call.slot)
    published = 0
    for hotel in HOTELS:
        context.raise_if_stopped()
        stays = books.stays_of_day(hotel, day)
        with transaction.atomic():
            entry = books.enter(call, hotel, day, stays)
            if entry is Entry.NEW:
                _publish(call.job, NightClosed(call.job, hotel, day, stays), call.correlation_id)
                published += 1
        print(f"{hotel}: {stays:,} rooms sold on {day}; its line is {entry.value}")
    return f"{day}: {published} of {len(HOTELS)} hotels closed and published"


def hear(group: str, event: NightClosed) -> None:
    """A team takes note. Inside the transaction of its handler."""
    row, is_new = HeardClose.objects.get_or_create(group=group, job=event.job, hotel=event.hotel, day=event.day)
    if not is_new:
        HeardClose.objects.filter(pk=row.pk).update(times=F("times") + 1)


def _publish(job: str, event: NightClosed, correlation_id: str) -> None:
    # The same whoever closes the day: the bus, too, would take a second one for what it is.
    named = f"{job}-{event.day}-{event.hotel.lower().replace(' ', '-')}"
    options = PublishOptions(
        key=event.hotel, message_id=named, idempotency_key=named, correlation_id=correlation_id, source="/hotel/nights"
    )
    publish_on_commit(TOPIC, event, options)
