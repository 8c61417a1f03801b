"""The events of the booking domain. Each carries all a read model needs to be right in whatever order it hears them.

Dates are the hotel's local calendar days; amounts are euro cents.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Literal

import msgspec


class Stay(msgspec.Struct, frozen=True):
    """``nights`` nights in a room of category ``room``, the first one beginning on ``arrival``."""

    arrival: date
    nights: int
    room: str

    def dates(self) -> Iterator[date]:
        """The night of each day, first to last; none for a day use of zero nights."""
        return (self.arrival + timedelta(days=number) for number in range(self.nights))

    @property
    def departure(self) -> date:
        return self.arrival + timedelta(days=self.nights)


class Guest(msgspec.Struct, frozen=True):
    """Who travels. ``name`` and ``email`` are personal: their topics mask them."""

    name: str
    email: str
    #: ISO 3166 alpha-3, empty when unknown.
    country: str


class BookingCreated(msgspec.Struct, frozen=True):
    booking_id: str
    hotel: str
    guest: Guest
    stay: Stay
    adults: int
    children: int
    channel: str
    segment: str
    meal: str
    deposit: str
    daily_rate_cents: int


class BookingChanged(msgspec.Struct, frozen=True):
    """Change number ``revision`` of a booking. It names the stay before and after, so that no one must remember."""

    booking_id: str
    hotel: str
    revision: int
    before: Stay
    after: Stay


class BookingCancelled(msgspec.Struct, frozen=True):
    """``released`` are the nights that can be sold again: all of them, or all but the first for a no-show."""

    booking_id: str
    hotel: str
    reason: Literal["cancelled", "no_show"]
    released: Stay
    deposit: str


class StayCompleted(msgspec.Struct, frozen=True):
    booking_id: str
    hotel: str
    guest: Guest
    stay: Stay
    departed: date
    amount_cents: int


class InvoiceDrafted(msgspec.Struct, frozen=True):
    invoice_id: str
    booking_id: str
    hotel: str
    guest: Guest
    amount_cents: int
    currency: str


class NightClosed(msgspec.Struct, frozen=True):
    """A hotel's day is closed: so many rooms were sold for its night. ``job`` says which job has closed it."""

    job: str
    hotel: str
    day: date
    stays: int


#: What happens in the life of a booking.
Event = BookingCreated | BookingChanged | BookingCancelled | StayCompleted | InvoiceDrafted

#: Topic → the event it carries.
TOPICS: dict[str, type[Event | NightClosed]] = {
    "booking.created": BookingCreated,
    "booking.changed": BookingChanged,
    "booking.cancelled": BookingCancelled,
    "stay.completed": StayCompleted,
    "invoice.drafted": InvoiceDrafted,
    "night.closed": NightClosed,
}
_TOPIC_OF = {event: topic for topic, event in TOPICS.items()}


def topic_of(event: Event) -> str:
    """The topic an event belongs on."""
    return _TOPIC_OF[type(event)]


def booking_of(event: Event) -> str:
    """Whose life it belongs to: ordering key and correlation id of all a booking's events."""
    return event.booking_id
