"""The simulated day loses nothing, and its queues are those one can work out by hand."""

from __future__ import annotations

import pytest

from hbus_console.bench.growth.day import BURST_AT_S, BURST_S, Outage, Park, arrivals, live, park
from hbus_console.bench.growth.plan import DAY_S, Demand
from tests.hbus_console.bench.growth.test_plan import COSTS, DEMAND

#: So much of everything that nothing ever waits.
PLENTY = Park(store_us=1e12, deliveries=1e12, booked=1e12)


def test_a_day_has_its_messages_and_its_peak() -> None:
    curve = list(arrivals(DEMAND))
    assert len(curve) == DAY_S
    assert sum(curve) == pytest.approx(DEMAND.per_day)
    burst = curve[BURST_AT_S : BURST_AT_S + BURST_S]
    assert min(burst) == max(burst) == max(curve)
    assert max(curve) == pytest.approx(DEMAND.most, rel=0.02)


def test_with_plenty_nothing_waits_and_nothing_is_lost() -> None:
    day = live(COSTS, DEMAND, PLENTY)
    assert day.published == pytest.approx(DEMAND.per_day)
    assert day.delivered == pytest.approx(DEMAND.per_day * DEMAND.groups)
    for queue in (day.refused, day.waiting, day.unbooked):
        assert queue.most == pytest.approx(0, abs=1)
        assert queue.oldest_s == 0


def test_what_was_planned_carries_the_peak() -> None:
    day = live(COSTS, DEMAND, park(COSTS, DEMAND))
    assert day.refused.oldest_s == day.waiting.oldest_s == 0
    assert day.delivered == pytest.approx(DEMAND.per_day * DEMAND.groups)


def test_a_minute_without_consumers_is_a_minute_of_backlog_and_drains() -> None:
    flat = Demand(per_day=1_000 * DAY_S, peak=1.5, groups=1)
    at_s = 30_000
    coming = list(arrivals(flat))
    day = live(COSTS, flat, PLENTY, [Outage("consumers", at_s, 60)])
    assert day.waiting.most == pytest.approx(sum(coming[at_s : at_s + 60]))
    assert day.waiting.oldest_s == 60
    assert day.waiting.clear_s == at_s + 60
    assert day.refused.most == pytest.approx(0, abs=1)
    assert day.delivered == pytest.approx(flat.per_day)


def test_a_store_that_is_away_leaves_messages_with_their_publishers() -> None:
    day = live(COSTS, DEMAND, park(COSTS, DEMAND), [Outage("stores", 40_000, 30)])
    assert day.refused.oldest_s == 30
    assert day.refused.most == pytest.approx(sum(list(arrivals(DEMAND))[40_000:40_030]))
    assert day.published == pytest.approx(DEMAND.per_day)


def test_what_is_not_enough_leaves_a_backlog_at_midnight() -> None:
    enough = park(COSTS, DEMAND)
    scarce = Park(enough.store_us, DEMAND.mean * DEMAND.groups * 0.9, enough.booked)
    day = live(COSTS, DEMAND, scarce)
    assert day.delivered < DEMAND.per_day * DEMAND.groups
    assert day.waiting.clear_s == DAY_S
