"""The judge: what the read model must hold, straight from the bookings, without an event in between."""

from __future__ import annotations

from collections import Counter
from datetime import date

import msgspec

from examples.hotel.bookings import Booking, Feed
from examples.hotel.models import RoomNights

#: How many differences are told.
TOLD = 10

Place = tuple[str, date]


class Difference(msgspec.Struct, frozen=True):
    hotel: str
    night: date
    expected: int
    found: int


class Comparison(msgspec.Struct, frozen=True):
    """``nights`` and ``room_nights`` are what the bookings say; ``differences`` names the first ten."""

    source: str
    bookings: int
    nights: int
    room_nights: int
    different: int
    differences: list[Difference]

    @property
    def equal(self) -> bool:
        return self.different == 0


def expected(feed: Feed) -> dict[Place, int]:
    """Rooms sold per hotel and night when all is said and done."""
    sold: Counter[Place] = Counter()
    for booking in feed.bookings:
        for night in list(booking.stay.dates())[: _kept(booking)]:
            sold[booking.hotel, night] += 1
    return dict(sold)


def _kept(booking: Booking) -> int:
    """How many nights, from the first on, stay sold: all, none, or the one a no-show pays for."""
    return {"stayed": booking.stay.nights, "cancelled": 0, "no_show": 1}[booking.end]


def found(source: str) -> dict[Place, int]:
    """The read model as the bus has produced it."""
    rows = RoomNights.objects.filter(source=source).exclude(sold=0)
    return {(hotel, night): sold for hotel, night, sold in rows.values_list("hotel", "night", "sold")}


def compare(feed: Feed) -> Comparison:
    """Hold the two against each other, night by night."""
    should, have = expected(feed), found(feed.source)
    differences = [
        Difference(hotel, night, should.get((hotel, night), 0), have.get((hotel, night), 0))
        for hotel, night in sorted(should.keys() | have.keys())
        if should.get((hotel, night), 0) != have.get((hotel, night), 0)
    ]
    return Comparison(
        source=feed.source,
        bookings=len(feed.bookings),
        nights=len(should),
        room_nights=sum(should.values()),
        different=len(differences),
        differences=differences[:TOLD],
    )
