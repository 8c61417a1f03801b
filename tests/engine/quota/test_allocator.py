"""What the simulator found wrong with the control plane once, of both its forms."""

from __future__ import annotations

import pytest

from engine.core.store import open_client
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, KeptRule, Want

DAY_S = 86_400


class Time:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=["memory", "redis"])
def plane(request: pytest.FixtureRequest, redis_url: str, prefix: str, time: Time) -> ControlPlane:
    if request.param == "memory":
        return MemoryControlPlane(now=time)
    return RedisControlPlane(open_client(redis_url), prefix, now=time)


def publish(plane: ControlPlane, version: int, limit: float, burst: float) -> None:
    assert plane.keep_rules(KeptBook(version, b""), {"all": KeptRule(limit, burst)})


def granted(plane: ControlPlane, want_id: str, asked: int, *, node: str = "n", returned: int = 0) -> int:
    want = Want(want_id, node, "a/b/t", "t", (BucketLink("all"),), asked, float(asked), returned)
    return plane.want([want])[0].granted


def test_a_clock_that_is_put_back_an_hour_is_believed(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 10.0, 10.0)
    time.now += 100
    assert granted(plane, "a", 10) == 10
    time.now -= 3_600
    assert granted(plane, "b", 10) == 0
    time.now += 0.5
    assert granted(plane, "c", 10) == 5


def test_a_clock_that_is_put_right_credits_no_time_twice(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 10.0, 10.0)
    time.now += 100
    assert granted(plane, "a", 10) == 10
    for number in range(20):
        time.now += -1.0 if number % 2 else 1.0
        assert granted(plane, f"b{number}", 10) == (10 if number == 0 else 0)


def test_time_before_a_greater_limit_brings_what_the_smaller_one_did(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 1.0, 100.0)
    time.now += 1_000
    assert granted(plane, "a", 100) == 100
    time.now += 5
    publish(plane, 2, 50.0, 100.0)
    assert granted(plane, "b", 100) == 5
    time.now += 1
    assert granted(plane, "c", 100) == 50


def test_a_want_is_known_again_though_others_came_in_between(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 1.0, 100.0)
    time.now += 1_000
    assert granted(plane, "first", 40) == 40
    assert granted(plane, "again", 0, returned=20) == 0
    for number in range(4):
        time.now += 1
        granted(plane, f"other{number}", 1, node="m")
        # Without an answer it is asked once more, and returns nothing once more.
        assert granted(plane, "again", 0, returned=20) == 0
    assert granted(plane, "rest", 1_000, node="m") == 80


def test_a_full_bucket_gives_to_whoever_comes_though_others_have_shares(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 3.0, 1.0)
    time.now += 1_000
    for number in range(6):
        time.now += 0.4
        assert granted(plane, f"w{number}", 1, node=f"n{number}") == 1


@pytest.mark.parametrize(("limit", "left"), [(1_000.0, 700), (400.0, 100), (200.0, 0), (300.0, 0)])
def test_what_was_used_of_a_period_counts_against_its_new_limit(
    plane: ControlPlane, time: Time, limit: float, left: int
) -> None:
    began_s = (int(time.now) // DAY_S + 1) * DAY_S
    sell = Seller(plane, BucketLink("day", "t", began_s * 1000, (began_s + DAY_S) * 1000))
    sell.publish(500.0)
    time.now = began_s + 60.0
    assert sell(300) == 300
    sell.publish(limit)
    assert sell(5_000) == left
    # And no less is known of it when it is changed once more, however deep it went.
    sell.publish(1.0)
    assert sell(5_000) == 0
    sell.publish(1_000.0)
    assert sell(5_000) == 700 - left


class Seller:
    """Of one calendar bucket."""

    def __init__(self, plane: ControlPlane, link: BucketLink) -> None:
        self._plane, self._link, self._number = plane, link, 0

    def publish(self, limit: float) -> None:
        self._number += 1
        assert self._plane.keep_rules(KeptBook(self._number, b""), {"day": KeptRule(limit, limit, by_period=True)})

    def __call__(self, asked: int) -> int:
        self._number += 1
        want = Want(f"w{self._number}", "n", "a/b/t", "t", (self._link,), asked, 1.0)
        return self._plane.want([want])[0].granted
