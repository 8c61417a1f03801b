"""The read model of availability: room-nights sold, as a sum that no order of messages can change.

Each event adds or subtracts what it itself names: a creation adds its stay, a change subtracts the stay before and
adds the one after, a cancellation subtracts what it releases. Additions commute, so the three topics need no order
among each other, and the inbox sees to it that each counts once.
"""

from __future__ import annotations

from collections import Counter
from datetime import date

from django.db import connection

from examples.hotel.events import BookingCancelled, BookingChanged, BookingCreated
from examples.hotel.models import RoomNights

Nights = dict[date, int]

_TABLE = RoomNights._meta.db_table
_ROW = "(%s, %s, %s, %s)"


def nights_of(event: BookingCreated | BookingChanged | BookingCancelled) -> Nights:
    """By how much the event changes each night; nights it leaves as they are do not appear."""
    delta: Counter[date] = Counter()
    if isinstance(event, BookingCreated):
        delta.update(event.stay.dates())
    elif isinstance(event, BookingChanged):
        delta.update(event.after.dates())
        delta.subtract(event.before.dates())
    else:
        delta.subtract(event.released.dates())
    return {night: number for night, number in sorted(delta.items()) if number}


def add(source: str, hotel: str, nights: Nights) -> None:
    """Add to the read model, in one statement and always in the order of the nights, so that no two can deadlock."""
    if not nights:
        return
    values = [value for night, number in nights.items() for value in (source, hotel, night, number)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {_TABLE} (source, hotel, night, sold) VALUES {', '.join([_ROW] * len(nights))}"  # noqa: S608
            f" ON CONFLICT (source, hotel, night) DO UPDATE SET sold = {_TABLE}.sold + excluded.sold",
            values,
        )
