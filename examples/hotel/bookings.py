"""Bookings, as the file of Antonio, Almeida and Nunes (2019) tells them: one row, one booking's whole story."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from examples.hotel.events import Stay

#: How the file writes "unknown".
_UNKNOWN = {"NULL", "NA", "Undefined", ""}

End = Literal["stayed", "cancelled", "no_show"]
_ENDS: dict[str, End] = {"Check-Out": "stayed", "Canceled": "cancelled", "No-Show": "no_show"}


class Booking(msgspec.Struct, frozen=True):
    """One booking as it ended. ``row`` is its number in the feed, 1 for the first."""

    row: int
    hotel: str
    stay: Stay
    lead_days: int
    changes: int
    end: End
    ended: date
    adults: int
    children: int
    country: str
    channel: str
    segment: str
    meal: str
    deposit: str
    daily_rate_cents: int

    @property
    def booked(self) -> date:
        """The day it was made."""
        return self.stay.arrival - timedelta(days=self.lead_days)


class Feed(msgspec.Struct, frozen=True):
    """Bookings with the name of where they come from, which is the ``source`` of all their events."""

    source: str
    bookings: tuple[Booking, ...]


def read_feed(path: Path, limit: int | None = None) -> Feed:
    """The first ``limit`` bookings of a CSV file (``.gz`` is unpacked); raises ``BadInput`` naming line and column.

    The source holds the file's digest and the limit: what was read from another file, or more or less of this one,
    is another feed with a read model of its own.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(
            f"The bookings file {path} cannot be read: {words_of(error)}.",
            remedy="Name a CSV file, plain or gzip; without one the simulator makes bookings.",
            field="bookings",
        ) from error
    bookings = tuple(islice(_read(text.splitlines()), limit))
    if not bookings:
        raise BadInput(f"The bookings file {path} holds no booking.", remedy="Name another file.", field="bookings")
    return Feed(feed_source(hashlib.sha256(raw).hexdigest()[:8], len(bookings)), bookings)


def feed_source(name: str, count: int) -> str:
    return f"/hotel/{name}/{count}"


def _read(lines: Iterable[str]) -> Iterator[Booking]:
    for number, row in enumerate(csv.DictReader(lines), start=1):
        try:
            yield _booking(number, row)
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise BadInput(
                f"Booking {number} of the file cannot be read: {error}.",
                remedy="The columns are those of the hotel booking demand data set.",
                field="bookings",
            ) from error


def _booking(number: int, row: Mapping[str, str]) -> Booking:
    arrival = datetime.strptime(  # noqa: DTZ007 - the hotel's local calendar day
        f"{row['arrival_date_year']} {row['arrival_date_month']} {row['arrival_date_day_of_month']}", "%Y %B %d"
    ).date()
    nights = int(row["stays_in_weekend_nights"]) + int(row["stays_in_week_nights"])
    return Booking(
        row=number,
        hotel=row["hotel"],
        stay=Stay(arrival, nights, row["reserved_room_type"].strip()),
        lead_days=int(row["lead_time"]),
        changes=int(row["booking_changes"]),
        end=_ENDS[row["reservation_status"]],
        ended=datetime.strptime(row["reservation_status_date"], "%m/%d/%Y").date(),  # noqa: DTZ007
        adults=_count(row["adults"]),
        children=_count(row["children"]) + _count(row["babies"]),
        country=_known(row["country"]),
        channel=_known(row["distribution_channel"]),
        segment=_known(row["market_segment"]),
        meal=_known(row["meal"]),
        deposit=_known(row["deposit_type"]),
        daily_rate_cents=round(float(row["adr"]) * 100),
    )


def _known(text: str) -> str:
    text = text.strip()
    return "" if text in _UNKNOWN else text


def _count(text: str) -> int:
    return int(_known(text) or 0)
