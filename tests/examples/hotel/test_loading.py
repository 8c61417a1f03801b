from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Unavailable
from examples.hotel import loading
from examples.hotel.loading import LoadDuty, start
from examples.hotel.models import Load
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.audit.models import AuditEntry
from hbus_console.overview.examples import offered
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store


def depth(topic: str) -> int:
    return bus.admin().depth(topic).messages


def tick_until_done(duty: LoadDuty, clock: ManualClock) -> Load:
    for _ in range(200):
        duty.tick()
        load = Load.objects.get()
        if load.finished_at:
            return load
        clock.advance(0.05)
    raise AssertionError(f"{load.published} of {load.events} after 200 ticks")


def test_a_start_seeds_and_plays_the_feed_by_and_by(hotel: None, bookings_file: Path) -> None:
    clock = ManualClock()
    load = start(SYSTEM, str(bookings_file), clock=clock)
    assert (load.bookings, load.events) == (3, 9)
    duty = LoadDuty(clock)
    duty.tick()
    # Only the first event: the next is two hours of the hotel's time away, at two days a second.
    assert Load.objects.get().published == 1
    assert depth("booking.created") == 1
    assert tick_until_done(duty, clock).published == 9
    topics = ("booking.created", "booking.changed", "booking.cancelled", "stay.completed")
    assert [depth(topic) for topic in topics] == [3, 3, 2, 1]
    duty.tick()
    assert depth("booking.created") == 3


def test_starting_again_changes_nothing_and_both_are_audited_once(hotel: None, bookings_file: Path) -> None:
    first, second = start(SYSTEM, str(bookings_file)), start(SYSTEM, str(bookings_file))
    assert first.pk == second.pk
    assert AuditEntry.objects.filter(action="hotel.load").count() == 1


def test_a_crash_after_publishing_doubles_nothing(hotel: None, bookings_file: Path) -> None:
    clock = ManualClock()
    start(SYSTEM, str(bookings_file), clock=clock)
    duty = LoadDuty(clock)
    tick_until_done(duty, clock)
    Load.objects.update(published=2, finished_at=None)
    tick_until_done(duty, clock)
    assert depth("booking.created") == 3
    assert depth("stay.completed") == 1


def test_without_the_store_it_says_why_and_goes_on_later(hotel: None, bookings_file: Path, settings: Settings) -> None:
    clock = ManualClock()
    start(SYSTEM, str(bookings_file), clock=clock)
    there = settings.REDIS_URL
    store.close()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(Unavailable):
        LoadDuty(clock).tick()
    assert "was not stored" in Load.objects.get().last_error
    store.close()
    settings.REDIS_URL = there
    assert tick_until_done(LoadDuty(clock), clock).last_error == ""


@pytest.mark.django_db
def test_who_may_not_make_topics_may_not_start(bookings_file: Path) -> None:
    with pytest.raises(Forbidden):
        start(Actor(name="o", grants=(ScopedRole(Role.OPERATOR, "*"),)), str(bookings_file))
    assert not Topic.objects.exists()


@pytest.mark.django_db
def test_an_unreadable_file_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        start(SYSTEM, str(tmp_path / "missing.csv"))
    assert not Topic.objects.exists()


def test_the_console_offers_it_and_its_click_loads_the_named_file(
    hotel: None, bookings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKINGS", str(bookings_file))
    (example,) = [one for one in offered(SYSTEM) if one.name == "hotel"]
    example.start(SYSTEM)
    assert (Load.objects.get().file, Load.objects.get().speed) == (str(bookings_file), loading.SPEED_DAYS)
