from __future__ import annotations

import random
from typing import Any

import pytest

from engine.bus.dead import RetryDecider
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.core.clock import JITTER_FLOOR
from engine.core.errors import BadInput


def pauses(retry: RetryPolicy, rng: Any, *attempts: int) -> list[float]:
    decider = RetryDecider(SubscriptionPolicy("t", "g", retry), consumer="c", handler="h", rng=rng)
    return [decider.pause_s(ValueError(), attempt) for attempt in attempts]


def test_tiers_follow_each_other_and_the_last_repeats() -> None:
    class Full:
        def random(self) -> float:
            return 1.0

    assert pauses(RetryPolicy(10, (1, 5, 30)), Full(), 1, 2, 3, 4, 9) == [1, 5, 30, 30, 30]


def test_jitter_spreads_over_the_upper_half_of_a_tier() -> None:
    drawn = pauses(RetryPolicy(5, (10,)), random.Random(3), *[1] * 1_000)
    assert 10 * JITTER_FLOOR <= min(drawn) < 5.2
    assert 9.8 < max(drawn) <= 10


@pytest.mark.parametrize(
    ("attempts", "backoff", "field"),
    [
        (0, (1,), "max_attempts"),
        (101, (1,), "max_attempts"),
        (5, (), "backoff_s"),
        (5, (0,), "backoff_s"),
        (5, (86_401,), "backoff_s"),
    ],
)
def test_bounds_are_named(attempts: int, backoff: tuple[float, ...], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        RetryPolicy(attempts, backoff)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [("concurrency", 0), ("concurrency", 257), ("lease_s", 0.9), ("lease_s", 3_601), ("ordering", "sometimes")],
)
def test_a_subscriptions_bounds_are_named(field: str, value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        SubscriptionPolicy("t", "g", **{field: value})
    assert refused.value.field == field
    assert refused.value.remedy
