"""Bookings where no file is at hand: seeded, so that the same seed and count are the same feed."""

from __future__ import annotations

import random
from datetime import date, timedelta

import msgspec

from examples.hotel.bookings import Booking, End, Feed, feed_source
from examples.hotel.events import Stay

_ROOMS, _ROOM_SHARES = "ADEGFHCB", (718, 127, 80, 30, 17, 12, 11, 5)
_COUNTRIES, _COUNTRY_SHARES = ("PRT", "GBR", "ESP", "FRA", "DEU", "IRL", "USA"), (45, 18, 11, 9, 8, 5, 4)
_CHANNELS, _CHANNEL_SHARES = ("TA/TO", "Direct", "Corporate"), (81, 14, 5)
_SEGMENTS, _SEGMENT_SHARES = ("Online TA", "Groups", "Offline TA/TO", "Direct", "Corporate"), (41, 26, 21, 9, 3)
_DEPOSITS, _DEPOSIT_SHARES = ("No Deposit", "Non Refund", "Refundable"), (88, 11, 1)
_OPENING = date(2025, 1, 1)
#: The room category that the channel partner has not been told about; see ``partner.py``.
NEW_ROOM = "L"


def simulate(count: int, seed: int = 1) -> Feed:
    """``count`` bookings (at least 1) with the habits of the real ones.

    From 20 bookings on, exactly one of them is a cancelled one of the new room category.
    """
    rng = random.Random(seed)  # noqa: S311 - a simulation, and it must be repeatable
    bookings = [_booking(rng, number) for number in range(1, count + 1)]
    if count >= 20:
        at = count // 3
        stay = Stay(bookings[at].stay.arrival, 2, NEW_ROOM)
        ended = stay.arrival - timedelta(days=min(bookings[at].lead_days, 1))
        bookings[at] = msgspec.structs.replace(bookings[at], stay=stay, ended=ended, end="cancelled", changes=0)
    return Feed(feed_source(f"simulated-{seed}", count), tuple(bookings))


def _booking(rng: random.Random, number: int) -> Booking:
    arrival = _OPENING + timedelta(days=rng.randrange(365))
    stay = Stay(arrival, min(1 + int(rng.expovariate(0.4)), 28), rng.choices(_ROOMS, _ROOM_SHARES)[0])
    lead = min(int(rng.expovariate(1 / 90)), 730)
    end: End = rng.choices(("stayed", "cancelled", "no_show"), (60, 38, 2))[0]
    ended = {
        "stayed": stay.departure,
        "cancelled": arrival - timedelta(days=rng.randint(0, lead)),
        "no_show": arrival,
    }[end]
    return Booking(
        row=number,
        hotel=rng.choices(("Resort Hotel", "City Hotel"), (2, 1))[0],
        stay=stay,
        lead_days=lead,
        changes=rng.choices((0, 1, 2, 3), (85, 11, 3, 1))[0],
        end=end,
        ended=ended,
        adults=rng.choices((1, 2, 3), (15, 82, 3))[0],
        children=rng.choices((0, 1, 2), (92, 4, 4))[0],
        country=rng.choices(_COUNTRIES, _COUNTRY_SHARES)[0],
        channel=rng.choices(_CHANNELS, _CHANNEL_SHARES)[0],
        segment=rng.choices(_SEGMENTS, _SEGMENT_SHARES)[0],
        meal=rng.choices(("BB", "HB", "FB"), (75, 22, 3))[0],
        deposit=rng.choices(_DEPOSITS, _DEPOSIT_SHARES)[0],
        daily_rate_cents=rng.randrange(4_000, 24_000),
    )
