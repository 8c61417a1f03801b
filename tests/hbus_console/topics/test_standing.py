"""The one word for how a subscription stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.standing import STATES, SubscriptionRow
from hbus_console.topics.models import Topic
from hbus_console.traffic.flow import NOT_KNOWN, LagNow, Rates

NOW_MS = 1_790_000_000_000
LATE = LagNow("t", "g", NOW_MS, waiting=7, in_flight=0, retrying=0, oldest_ms=NOW_MS - 120_000)
KEEPS_UP = replace(LATE, oldest_ms=NOW_MS - 1_000)
ROW = SubscriptionRow(
    Subscription(topic=Topic(name="t"), group="g", handler=Subscription.Handler.CODE, handler_name="h"),
    history=(),
    rates=Rates(),
    lag=KEEPS_UP,
    dead=0,
    now_ms=NOW_MS,
)
PAUSED = Subscription(topic=Topic(name="t"), group="g", handler=Subscription.Handler.CODE, paused=True)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (ROW, "active"),
        (replace(ROW, lag=None), "unknown"),
        (replace(ROW, lag=replace(KEEPS_UP, waiting=None)), "unknown"),
        (replace(ROW, lag=replace(KEEPS_UP, waiting=None, oldest_ms=None)), "unknown"),
        (replace(ROW, lag=replace(LATE, waiting=None)), "behind"),
        (replace(ROW, lag=LATE), "behind"),
        (replace(ROW, lag=replace(LATE, parked=3)), "keys parked"),
        (replace(ROW, lag=replace(KEEPS_UP, parked=3)), "keys parked"),
        (replace(ROW, lag=replace(LATE, parked=3), breaker="open"), "breaker open"),
        (replace(ROW, lag=LATE, breaker="probing"), "breaker probing"),
        (replace(ROW, lag=replace(KEEPS_UP, waiting=1, retrying=2)), "retrying"),
        (replace(ROW, lag=replace(KEEPS_UP, waiting=None, retrying=2)), "retrying"),
        # Of much that flows some is always tried again.
        (replace(ROW, lag=replace(KEEPS_UP, waiting=7, retrying=2)), "active"),
        (replace(ROW, lag=replace(LATE, retrying=2)), "behind"),
        (replace(ROW, rates=Rates(settled=1.0, retried=1.1)), "retrying"),
        (replace(ROW, rates=Rates(settled=1.0, retried=0.9)), "active"),
        (replace(ROW, rates=Rates(dead=0.1)), "retrying"),
        (replace(ROW, rates=NOT_KNOWN), "active"),
        (replace(ROW, served=True), "active"),
        (replace(ROW, served=False), "no consumer"),
        (replace(ROW, lag=replace(LATE, parked=3), served=False), "no consumer"),
        (replace(ROW, subscription=PAUSED, served=False), "paused"),
        (replace(ROW, lag=LATE, subscription=PAUSED), "paused"),
    ],
)
def test_a_state_is_one_of_those_a_list_can_be_narrowed_to(row: SubscriptionRow, word: str) -> None:
    assert row.state == word
    assert word in STATES


def test_what_waits_for_a_person_is_not_called_slow() -> None:
    assert replace(ROW, lag=LATE).behind
    assert not replace(ROW, lag=replace(LATE, parked=3)).behind
    assert not replace(ROW, lag=LATE, subscription=PAUSED).behind


@pytest.mark.parametrize(
    ("retrying", "rates", "said"),
    [
        (0, Rates(settled=3.0), ""),
        (1, Rates(settled=3.0), "1 message waits to be tried again"),
        (6, Rates(retried=0.2), "6 messages wait to be tried again; every attempt of the last half minute failed"),
        (6, NOT_KNOWN, "6 messages wait to be tried again"),
        (0, Rates(settled=1.0, dead=1.5), "most attempts of the last half minute failed"),
    ],
)
def test_what_fails_is_said(retrying: int, rates: Rates, said: str) -> None:
    assert replace(ROW, lag=replace(KEEPS_UP, waiting=0, retrying=retrying), rates=rates).fails == said
