"""The books of the two hotels: rooms sold, as the read model has it, and what jobs enter about them.

The bookings are of past years. A day, or a month, is looked up under its like in the last year that has any.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import Enum
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import F, Max, Sum

from engine.cron.work.call import RunCall
from examples.hotel.models import BookLine, RoomNights

HOTELS = ("City Hotel", "Resort Hotel")
#: Where both of them stand.
ZONE = "Europe/Lisbon"


class Entry(Enum):
    """What became of a line that was to be entered."""

    NEW = "new"
    #: An attempt of the same run before has entered it.
    KNOWN = "known"
    #: Another run has.
    ANOTHERS = "another's"


def local_day(slot: int) -> date:
    """The calendar day of an instant where the hotels stand."""
    return datetime.fromtimestamp(slot, tz=ZoneInfo(ZONE)).date()


def stays_of_day(hotel: str, day: date) -> int:
    """Rooms sold for the night of that day, or of its like."""
    return _sold(hotel, day, night__month=day.month, night__day=day.day)


def stays_of_month(hotel: str, month: date) -> int:
    """Room-nights sold in that month, or its like."""
    return _sold(hotel, month, night__month=month.month)


def enter(call: RunCall, hotel: str, period: date, stays: int) -> Entry:
    """Enter a line, inside a transaction that commits with it whatever else belongs to it.

    A run that is tried again finds its own line and leaves it as it is, but for the count.
    """
    with transaction.atomic():
        line, is_new = BookLine.objects.select_for_update().get_or_create(
            job=call.job,
            hotel=hotel,
            period=period,
            defaults={"stays": stays, "run": call.run, "slot": call.slot, "epoch": call.epoch},
        )
        if is_new:
            return Entry.NEW
        if line.run != call.run:
            return Entry.ANOTHERS
        BookLine.objects.filter(pk=line.pk).update(entries=F("entries") + 1)
        return Entry.KNOWN


def _sold(hotel: str, by: date, **like: int) -> int:
    """In the feed that came last: each has a read model of its own."""
    newest = RoomNights.objects.order_by("-pk").values_list("source", flat=True).first()
    sold = RoomNights.objects.filter(source=newest, sold__gt=0, **like)
    last: date | None = sold.filter(night__lte=by).aggregate(last=Max("night"))["last"]
    if last is None:
        return 0
    total: int | None = sold.filter(hotel=hotel, night__year=last.year).aggregate(total=Sum("sold"))["total"]
    return total or 0
