"""Days and months on the control plane, of both its forms: what was used counts, whatever the rule becomes meanwhile,
and whatever the clock of who asks."""

from __future__ import annotations

import itertools

import pytest

from engine.core.store import open_client
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, KeptRule, Want

HOUR_S, DAY_S = 3_600, 86_400
BEGAN_S = 20_718 * DAY_S
RATE = BucketLink("r", "t")


class Time:
    def __init__(self) -> None:
        self.now = float(BEGAN_S - 10 * DAY_S)

    def __call__(self) -> float:
        return self.now


class Shop:
    """A rule that changes, and what is had of it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._numbers = itertools.count(1)

    def rules(self, limit: float, *, by_period: bool = True) -> None:
        rule = KeptRule(limit, limit, by_period=by_period)
        assert self._plane.keep_rules(KeptBook(next(self._numbers), b""), {"r": rule})

    def sells(self, asked: int, link: BucketLink) -> int:
        want = Want(f"w{next(self._numbers)}", "n", "a/b/t", "t", (link,), asked, 0.0)
        return self._plane.want([want])[0].granted


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=["memory", "redis"])
def shop(request: pytest.FixtureRequest, redis_url: str, prefix: str, time: Time) -> Shop:
    if request.param == "memory":
        made = Shop(MemoryControlPlane(now=time))
    else:
        made = Shop(RedisControlPlane(open_client(redis_url), prefix, now=time))
    made.rules(1_000.0)
    time.now = BEGAN_S + 12.0 * HOUR_S
    return made


def day(number: int = 0, *, hours: int = 0) -> BucketLink:
    """A day, in a zone that is so many hours behind."""
    began_s = BEGAN_S + number * DAY_S + hours * HOUR_S
    return BucketLink("r", "t", began_s * 1000, (began_s + DAY_S) * 1000)


def test_the_next_day_begins_anew(shop: Shop, time: Time) -> None:
    assert shop.sells(5_000, day()) == 1_000
    time.now = BEGAN_S + DAY_S + 1.0
    assert shop.sells(400, day(1)) == 400
    assert shop.sells(5_000, day(1)) == 600


def test_a_day_is_not_sold_again_after_a_rate(shop: Shop, time: Time) -> None:
    assert shop.sells(5_000, day()) == 1_000
    shop.rules(1.0, by_period=False)
    assert shop.sells(5_000, RATE) == 0
    time.now += 5.0
    assert shop.sells(5_000, RATE) == 1
    shop.rules(1_000.0)
    assert shop.sells(5_000, day()) == 0
    shop.rules(1_200.0)
    assert shop.sells(5_000, day()) == 200


def test_a_day_is_not_sold_again_in_another_zone(shop: Shop, time: Time) -> None:
    assert shop.sells(900, day()) == 900
    assert shop.sells(5_000, day(hours=9)) == 100
    assert shop.sells(5_000, day(hours=-9)) == 0
    assert shop.sells(5_000, day()) == 0
    time.now = BEGAN_S + DAY_S + 1.0
    assert shop.sells(5_000, day(1)) == 1_000


def test_who_is_late_by_its_clock_gets_nothing_of_a_day_that_is_over(shop: Shop, time: Time) -> None:
    assert shop.sells(300, day()) == 300
    time.now = BEGAN_S + DAY_S + 1.0
    assert shop.sells(5_000, day()) == 0
    assert shop.sells(600, day(1)) == 600
    # Of the day that it is it gets what others get.
    assert shop.sells(5_000, day()) == 400
    assert shop.sells(5_000, day(1)) == 0


def test_who_is_early_by_its_clock_takes_nothing_from_tomorrow(shop: Shop, time: Time) -> None:
    assert shop.sells(5_000, day(1)) == 0
    assert shop.sells(700, day()) == 700
    assert shop.sells(5_000, day(1)) == 300
    time.now = BEGAN_S + DAY_S + 1.0
    assert shop.sells(5_000, day(1)) == 1_000


def test_a_month_counts_what_its_day_had(shop: Shop) -> None:
    assert shop.sells(1_000, day()) == 1_000
    shop.rules(30_000.0)
    month = BucketLink("r", "t", (BEGAN_S - 5 * DAY_S) * 1000, (BEGAN_S + 25 * DAY_S) * 1000)
    assert shop.sells(50_000, month) == 29_000
