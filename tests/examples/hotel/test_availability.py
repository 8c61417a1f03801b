from __future__ import annotations

import random
from collections import Counter
from datetime import date

import pytest

from examples.hotel import availability, verify
from examples.hotel.bookings import Feed
from examples.hotel.events import BookingCancelled, BookingChanged, BookingCreated, Stay
from examples.hotel.lifecycle import moments
from examples.hotel.models import RoomNights
from examples.hotel.simulator import simulate
from tests.examples.hotel.conftest import booking


def apply(feed: Feed, order: random.Random) -> None:
    events = [moment.event for moment in moments(feed)]
    order.shuffle(events)
    for event in events:
        if isinstance(event, BookingCreated | BookingChanged | BookingCancelled):
            availability.add(feed.source, event.hotel, availability.nights_of(event))


def test_a_change_moves_nights_and_leaves_the_common_ones_alone() -> None:
    change = BookingChanged("b", "h", 1, Stay(date(2016, 3, 1), 2, "A"), Stay(date(2016, 3, 2), 2, "A"))
    assert availability.nights_of(change) == {date(2016, 3, 1): -1, date(2016, 3, 3): 1}


def test_a_change_that_moves_nothing_changes_nothing() -> None:
    stay = Stay(date(2016, 3, 1), 2, "A")
    assert availability.nights_of(BookingChanged("b", "h", 1, stay, stay)) == {}


@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_whatever_order_events_come_the_model_ends_as_the_bookings_say(seed: int) -> None:
    feed = simulate(150)
    apply(feed, random.Random(seed))
    comparison = verify.compare(feed)
    assert comparison.equal
    assert comparison.room_nights == sum(Counter(verify.found(feed.source)).values()) > 100


@pytest.mark.django_db
def test_what_should_be_is_counted_from_the_ends_alone() -> None:
    feed = Feed(
        "/hotel/test/3",
        (
            booking(),
            booking(row=2, end="no_show"),
            booking(row=3, end="cancelled"),
            booking(row=4, hotel="Resort Hotel", stay=Stay(date(2016, 3, 3), 1, "B")),
        ),
    )
    city, resort = "City Hotel", "Resort Hotel"
    assert verify.expected(feed) == {
        (city, date(2016, 3, 1)): 2,
        (city, date(2016, 3, 2)): 1,
        (city, date(2016, 3, 3)): 1,
        (resort, date(2016, 3, 3)): 1,
    }


@pytest.mark.django_db
def test_a_lost_and_a_doubled_and_an_invented_night_are_each_told() -> None:
    feed = Feed("/hotel/test/1", (booking(),))
    apply(feed, random.Random(1))
    nights = RoomNights.objects.filter(source=feed.source)
    nights.filter(night=date(2016, 3, 1)).delete()
    nights.filter(night=date(2016, 3, 2)).update(sold=2)
    RoomNights.objects.create(source=feed.source, hotel="City Hotel", night=date(2016, 3, 9), sold=1)
    comparison = verify.compare(feed)
    assert (comparison.equal, comparison.different) == (False, 3)


@pytest.mark.django_db
def test_feeds_do_not_mix() -> None:
    for name in ("/hotel/a/1", "/hotel/b/1"):
        apply(Feed(name, (booking(),)), random.Random(1))
    assert verify.compare(Feed("/hotel/a/1", (booking(),))).equal
