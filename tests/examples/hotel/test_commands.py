from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command

from examples.hotel import demo
from examples.hotel.bookings import read_feed
from examples.hotel.lifecycle import moments
from examples.hotel.management.commands import hotel_demo
from examples.hotel.models import PartnerRoom, RoomNights
from examples.hotel.verify import Comparison, expected

pytestmark = pytest.mark.django_db


def fill(path: Path) -> None:
    feed = read_feed(path)
    RoomNights.objects.bulk_create(
        RoomNights(source=feed.source, hotel=hotel, night=night, sold=sold)
        for (hotel, night), sold in expected(feed).items()
    )


def test_verify_says_equal(bookings_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(bookings_file)
    call_command("hotel_verify", "--bookings", str(bookings_file))
    assert capsys.readouterr().out.startswith("Equal: 4 room-nights in 4 nights of 3 bookings")
    call_command("hotel_verify", "--bookings", str(bookings_file), "--json")
    assert json.loads(capsys.readouterr().out)["equal"] is True


def test_verify_names_the_first_differences_and_ends_with_one(
    bookings_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(bookings_file)
    RoomNights.objects.filter(hotel="City Hotel").update(sold=5)
    with pytest.raises(SystemExit) as ended:
        call_command("hotel_verify", "--bookings", str(bookings_file))
    assert ended.value.code == 1
    assert "City Hotel, 2015-07-03: 1 expected, 5 found" in capsys.readouterr().out


def test_verify_takes_the_file_from_the_environment(
    bookings_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKINGS", str(bookings_file))
    with pytest.raises(SystemExit):
        call_command("hotel_verify", "--json", "--limit", "2")
    answer = json.loads(capsys.readouterr().out)
    assert (answer["bookings"], answer["equal"], answer["different"]) == (2, False, 3)


def test_partner_rooms_are_shown_and_added(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("hotel_partner", "add-room", "l")
    call_command("hotel_partner", "add-room", "L")
    call_command("hotel_partner", "rooms")
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["The partner now knows L.", "The partner knew L already."]
    assert said[2].startswith("L  added by ")


def test_the_poison_is_known_before_it_dies_and_is_none_once_mended(bookings_file: Path) -> None:
    PartnerRoom.objects.bulk_create(PartnerRoom(code=code, added_by="test") for code in "AC")
    score = list(moments(read_feed(bookings_file)))
    assert [(one.room, one.booking_id[-6:]) for one in demo.poison(score)] == [("L", "000002")]
    PartnerRoom.objects.create(code="L", added_by="test")
    assert demo.poison(score) == []


def test_the_mending_command_is_told_for_the_installation_that_the_demo_ran_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE", "/srv/our bus")
    monkeypatch.setenv("PORT", "8001")
    outcome = demo.Outcome(
        source="/hotel", bookings=1, events=1, published=1, deduplicated=0, settled=True, unsettled=0,
        invoices_waiting=0, poison=[demo.Poison("m1", "b1", "L")], unexpected=[], publish_s=0.0, settle_s=0.0,
        comparison=Comparison("/hotel", 1, 1, 1, 0, []),
    )  # fmt: skip
    hotel_demo.Command()._tell(outcome)
    told = capsys.readouterr().out
    typed = "STATE='/srv/our bus' PORT=8001"
    assert f"{typed} .venv/bin/python manage.py hotel_partner add-room L\n" in told
    assert f"(if nobody answers there: `{typed} make run`)" in told
