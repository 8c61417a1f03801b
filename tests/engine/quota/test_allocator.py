"""What the simulator found wrong with the control plane once, of both its forms."""

from __future__ import annotations

import pytest

from engine.core.store import open_client
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, KeptRule, Want


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
