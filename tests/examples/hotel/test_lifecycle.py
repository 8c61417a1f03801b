from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest

from examples.hotel.bookings import Booking, Feed, read_feed
from examples.hotel.events import BookingCancelled, BookingChanged, BookingCreated, Stay, StayCompleted
from examples.hotel.lifecycle import Moment, event_count, moments
from examples.hotel.simulator import NEW_ROOM, simulate
from tests.examples.hotel.conftest import booking


def life(of: Booking) -> list[Moment]:
    return list(moments(Feed("/hotel/test/1", (of,))))


def test_a_stay_is_created_changed_and_completed_with_its_last_version_from_the_file() -> None:
    created, *changes, ended = [moment.event for moment in life(booking(changes=2))]
    assert isinstance(created, BookingCreated)
    assert [change.revision for change in changes if isinstance(change, BookingChanged)] == [1, 2]
    assert isinstance(ended, StayCompleted)
    # Each change begins where the one before ended, and the last ends at what the file says.
    stays = [created.stay, *[change.after for change in changes]]
    assert [change.before for change in changes] == stays[:-1]
    assert stays[-1] == ended.stay == Stay(date(2016, 3, 1), 3, "A")
    assert ended.amount_cents == 15_000


def test_a_cancellation_releases_the_whole_last_version() -> None:
    ended = life(booking(end="cancelled", changes=3, ended=date(2016, 2, 20)))[-1].event
    assert isinstance(ended, BookingCancelled)
    assert (ended.reason, ended.released) == ("cancelled", Stay(date(2016, 3, 1), 3, "A"))


@pytest.mark.parametrize(("nights", "released"), [(3, 2), (1, 0), (0, 0)])
def test_a_no_show_keeps_its_first_night(nights: int, released: int) -> None:
    ended = life(booking(end="no_show", stay=Stay(date(2016, 3, 1), nights, "A")))[-1].event
    assert isinstance(ended, BookingCancelled)
    assert ended.released == Stay(date(2016, 3, 2), released, "A")


def test_events_lie_between_booking_day_and_last_day() -> None:
    first, *_, last = life(booking(changes=5))
    assert first.at.date() == date(2016, 1, 31)
    assert last.at.date() == date(2016, 3, 4)


def test_even_on_one_day_the_life_keeps_its_order() -> None:
    one_day = booking(lead_days=0, changes=4, end="cancelled", ended=date(2016, 3, 1))
    ids = [moment.id.rpartition("000001-")[2] for moment in life(one_day)]
    assert ids == ["created", "changed-1", "changed-2", "changed-3", "changed-4", "ended"]
    times = [moment.at for moment in life(one_day)]
    assert times == sorted(set(times))


def test_all_events_come_in_the_order_of_their_times_with_ids_of_their_own() -> None:
    feed = simulate(500)
    score = list(moments(feed))
    assert [moment.at for moment in score] == sorted(moment.at for moment in score)
    assert len({moment.id for moment in score}) == len(score) == event_count(feed)


def test_reading_again_tells_the_same_life(bookings_file: Path) -> None:
    assert list(moments(read_feed(bookings_file))) == list(moments(read_feed(bookings_file)))


def test_events_survive_the_wire() -> None:
    for moment in life(booking(changes=1)):
        assert msgspec.json.decode(msgspec.json.encode(moment.event), type=type(moment.event)) == moment.event


def test_the_simulator_repeats_itself_by_seed_and_poisons_exactly_one() -> None:
    assert simulate(50, seed=7) == simulate(50, seed=7)
    assert simulate(50, seed=7).bookings != simulate(50, seed=8).bookings
    for count in (20, 21, 1_000):
        poison = [one for one in simulate(count).bookings if one.stay.room == NEW_ROOM]
        assert [one.end for one in poison] == ["cancelled"]
    for one in simulate(1_000).bookings:
        assert one.booked <= one.ended
        assert one.ended <= one.stay.departure + timedelta(days=1)
