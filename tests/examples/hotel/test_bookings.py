from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path

import pytest

from engine.core.errors import BadInput
from examples.hotel.bookings import read_feed
from examples.hotel.events import Stay
from tests.examples.hotel.conftest import HEADER, ROWS


def test_a_row_becomes_a_booking(bookings_file: Path) -> None:
    first, second, third = read_feed(bookings_file).bookings
    assert first.stay == Stay(date(2015, 7, 1), 3, "C")
    assert (first.booked, first.end, first.ended) == (date(2015, 6, 21), "stayed", date(2015, 7, 4))
    assert (first.children, first.daily_rate_cents, first.changes) == (1, 7_550, 2)
    assert (second.country, second.segment, second.end) == ("", "", "cancelled")
    assert third.end == "no_show"


def test_gzip_and_plain_are_two_feeds_of_the_same_bookings(bookings_file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "bookings.csv.gz"
    packed.write_bytes(gzip.compress(bookings_file.read_bytes()))
    a, b = read_feed(bookings_file), read_feed(packed)
    assert a.bookings == b.bookings
    assert a.source != b.source


def test_another_limit_is_another_feed(bookings_file: Path) -> None:
    assert read_feed(bookings_file, 2).source != read_feed(bookings_file).source
    assert len(read_feed(bookings_file, 2).bookings) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no booking"),
        (HEADER, "no booking"),
        ("hotel,lead_time\nCity Hotel,3\n", "Booking 1 of the file"),
        (HEADER + ROWS.replace("Check-Out", "Gone"), "Booking 1 of the file"),
        (HEADER + ROWS.replace("July", "Julio"), "Booking 1 of the file"),
        (HEADER + ROWS.partition("\n")[0] + "\nResort Hotel,1\n", "Booking 2 of the file"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(BadInput, match=says):
        read_feed(file)


@pytest.mark.parametrize("name", ["missing.csv", "torn.csv.gz"])
def test_an_unreadable_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(HEADER.encode())[:-9])
    with pytest.raises(BadInput, match="cannot be read"):
        read_feed(tmp_path / name)
