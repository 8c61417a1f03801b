"""From a booking as it ended to the events of its life, in the order of their times.

The file keeps only how a booking ended, so what went before is reconstructed: always the same for the same booking,
and so that the last version is exactly what the file says.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import msgspec

from examples.hotel.bookings import Booking, Feed
from examples.hotel.events import (
    BookingCancelled,
    BookingChanged,
    BookingCreated,
    Event,
    Guest,
    Stay,
    StayCompleted,
    topic_of,
)

_FIRST = "Ana Bruno Carla Duarte Eva Filipe Greta Hugo Ines Joao Klara Luis Marta Nuno Olga Pedro Rita Sofia Tiago Vera"
_LAST = "Almeida Antunes Brito Castro Dias Esteves Faria Gomes Henriques Lopes Matos Neves Pinto Reis Silva Teixeira"
FIRST_NAMES, LAST_NAMES = _FIRST.split(), _LAST.split()


class Moment(msgspec.Struct, frozen=True):
    """One event at its instant. ``id`` is the same every time the feed is read."""

    at: datetime
    id: str
    event: Event

    @property
    def topic(self) -> str:
        return topic_of(self.event)


def moments(feed: Feed) -> Iterator[Moment]:
    """All events of a feed in event-time order (ties by id)."""
    return heapq.merge(*(_life(feed.source, booking) for booking in feed.bookings), key=lambda m: (m.at, m.id))


def event_count(feed: Feed) -> int:
    """How many events :func:`moments` has: each booking begins, changes so often, and ends."""
    return sum(booking.changes + 2 for booking in feed.bookings)


def booking_id(source: str, booking: Booking) -> str:
    """Unique over all feeds: the feed's name is part of it."""
    return f"{source.removeprefix('/hotel/').replace('/', '-')}-{booking.row:06d}"


def guest_of(name: str, booking: Booking) -> Guest:
    """An invented guest: the data set, rightly, has no names."""
    first = FIRST_NAMES[_chance(name, "first") % len(FIRST_NAMES)]
    last = LAST_NAMES[_chance(name, "last") % len(LAST_NAMES)]
    return Guest(f"{first} {last}", f"{first}.{last}@guest.example".lower(), booking.country)


def _life(source: str, booking: Booking) -> list[Moment]:
    name = booking_id(source, booking)
    guest = guest_of(name, booking)
    versions = _versions(name, booking)
    begin = _instant(name, booking.booked, "created")
    end = max(_instant(name, booking.ended, "ended"), begin + timedelta(seconds=len(versions)))
    created = BookingCreated(
        booking_id=name,
        hotel=booking.hotel,
        guest=guest,
        stay=versions[0],
        adults=booking.adults,
        children=booking.children,
        channel=booking.channel,
        segment=booking.segment,
        meal=booking.meal,
        deposit=booking.deposit,
        daily_rate_cents=booking.daily_rate_cents,
    )
    life = [Moment(begin, f"{name}-created", created)]
    for number in range(1, len(versions)):
        at = begin + (end - begin) * number / len(versions)
        change = BookingChanged(name, booking.hotel, number, versions[number - 1], versions[number])
        life.append(Moment(at, f"{name}-changed-{number}", change))
    life.append(Moment(end, f"{name}-ended", _end(name, guest, booking)))
    return life


def _end(name: str, guest: Guest, booking: Booking) -> Event:
    stay = booking.stay
    if booking.end == "stayed":
        amount = max(stay.nights, 1) * booking.daily_rate_cents
        return StayCompleted(name, booking.hotel, guest, stay, booking.ended, amount)
    released = stay if booking.end == "cancelled" else no_show_release(stay)
    return BookingCancelled(name, booking.hotel, booking.end, released, booking.deposit)


def no_show_release(stay: Stay) -> Stay:
    """A no-show keeps (and pays) the first night; the others can be sold again."""
    return Stay(stay.arrival + timedelta(days=1), max(stay.nights - 1, 0), stay.room)


def _versions(name: str, booking: Booking) -> list[Stay]:
    """The stay before the first change, after each change, and at last as the file has it."""
    final = booking.stay
    earlier = []
    for number in range(booking.changes):
        chance = _chance(name, f"version {number}")
        nights = max(1, final.nights + chance % 3 - 1)
        earlier.append(Stay(final.arrival + timedelta(days=chance // 3 % 3), nights, final.room))
    return [*earlier, final]


def _instant(name: str, day: date, what: str) -> datetime:
    """A time between 08:00 and 20:00 UTC of ``day``, to the second."""
    seconds = 8 * 3600 + _chance(name, what) % (12 * 3600)
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=seconds)


def _chance(name: str, what: str) -> int:
    """A number that looks random and never changes."""
    return int.from_bytes(hashlib.blake2b(f"{name} {what}".encode(), digest_size=6).digest(), "big")
