"""What the simulator found wrong with the control plane once, of both its forms."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from engine.core.store import open_client
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import Alloc, Answer, BucketLink, KeptRule, Want

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


def granted(
    plane: ControlPlane, want_id: str, asked: int, *, node: str = "n", returned: int = 0, born: float = 0.0
) -> int:
    want = Want(want_id, node, "a/b/t", "t", (BucketLink("all"),), asked, float(asked), returned, born=(born,))
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
    made_at = time.now
    assert granted(plane, "again", 0, returned=20, born=made_at) == 0
    for number in range(4):
        time.now += 1
        granted(plane, f"other{number}", 1, node="m")
        # Without an answer it is asked once more, and returns nothing once more.
        assert granted(plane, "again", 0, returned=20, born=made_at) == 0
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


def test_what_another_bucket_of_the_name_sold_does_not_come_back(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 1.0, 100.0)
    time.now += 1_000
    ask = Asker(plane)
    sold = ask(40)
    assert ask(0, returned=10, born=(time.now - 5,)).granted == 0
    assert ask(0, returned=10).granted == 0
    assert ask(100, returned=10, born=sold.born).granted == 70


def test_what_spilled_from_another_bucket_pays_for_nothing(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 1.0, 100.0)
    time.now += 1_000
    told = Asker(plane)(0)
    time.now += 50
    ask = Asker(plane, "m")
    assert ask(0, repaid=30, spilled=told.spilled, born=(told.born[0] - 1,)).granted == 0
    assert ask(100).granted == 70


class Asker:
    """A limiter of one node that counts, and says what it heard."""

    def __init__(self, plane: ControlPlane, node: str = "n") -> None:
        self._plane, self._node, self.number = plane, node, 0

    def __call__(self, asked: int, *, number: int = 0, heard: int | None = None, **more: Any) -> Alloc:
        if not number:
            self.number += 1
        number = number or self.number
        heard = number - 1 if heard is None else heard
        common = Want(f"{self._node}{number}", self._node, "a/b/t", "t", (BucketLink("all"),), asked, float(asked))
        want = replace(common, life="one", number=number, heard=heard, **more)
        return self._plane.want([want])[0]


def test_a_want_that_comes_after_a_later_one_is_too_late(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 1.0, 100.0)
    time.now += 1_000
    ask = Asker(plane)
    first = ask(10, number=1)
    third = ask(20, number=3, heard=1, returned=5, born=first.born)
    late = ask(30, number=2, heard=1, returned=5, born=first.born)
    assert (late.answer, late.granted) == (Answer.LATE, 0)
    # It is not forgotten for it: once more, it returns nothing once more.
    assert ask(20, number=3, heard=1, returned=5, born=first.born) == third
    assert ask(100, number=4, heard=3).granted == 75
    # Another life of the node counts anew, and what was granted to this one is not its own to give back.
    other = replace(Want("x", "n", "a/b/t", "t", (BucketLink("all"),), 10, 1.0), life="two", number=1)
    (told,) = plane.want([other])
    assert (told.answer, told.granted) == (Answer.GRANTED, 0)


def test_what_nobody_heard_of_comes_back_with_the_next(plane: ControlPlane, time: Time) -> None:
    publish(plane, 1, 1.0, 100.0)
    time.now += 1_000
    ask = Asker(plane)
    assert ask(60).granted == 60
    assert ask(30, repaid=10).granted == 30
    # The second was never heard of: its thirty are there again, and the ten that it repaid are repaid once.
    assert ask(100, heard=1, repaid=12).granted == 28
    # And that once.
    assert ask(100, heard=3).granted == 0


def test_nodes_are_counted_and_not_their_limiters(plane: ControlPlane, time: Time) -> None:
    assert plane.keep_rules(KeptBook(1, b""), {"all": KeptRule(100.0, 100.0, 0.5)})

    def alone(node: str, tenant: str) -> float:
        want = Want(f"{node}{tenant}{time.now}", node, f"a/b/{tenant}", tenant, (BucketLink("all"),), 1, 1.0)
        (alloc,) = plane.want([want])
        assert alloc.alone == pytest.approx((alloc.fallback,))
        return alloc.fallback

    assert [alone("n1", tenant) for tenant in "abc"] == [50.0] * 3
    assert [alone("n2", tenant) for tenant in "abc"] == [25.0] * 3
    # Who asks once in a while is one of them all the same.
    time.now += 3_000
    assert alone("n3", "a") == pytest.approx(50 / 3)
    time.now += 1_000
    assert alone("n1", "a") == 25.0


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
