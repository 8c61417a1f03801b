"""The sentence on top of the list of subscriptions: that all keep up is said only where each of them does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.bus.breaker_board import Pauses
from engine.core.clock import SystemClock
from hbus_console.messages.models import LagSample
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.kept import kept
from tests.hbus_console.subscriptions.test_draining import ONE, stamp
from tests.hbus_console.ui.conftest import dead_letters

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

WELL = "all keep up, no dead letter waits"


@pytest.fixture
def lead(topic: Topic, signed_in: Callable[..., Client], prefix: str) -> Callable[..., str]:
    """What the page says, of one that a consumer runs and for which nothing waits."""
    Subscription.objects.create(topic=topic, group=ONE[1], handler_name="hotel.bill", breaker_failures=5)
    sampled()
    # However slow the machine is, it does not fall silent.
    stamp(prefix, "c1", in_flight=0, age_ms=-300_000)
    client = signed_in()
    return lambda query="": " ".join(client.get(f"/subscriptions/{query}").content.decode().split())


def sampled(parked: int = 0) -> None:
    now_ms = SystemClock().now_ms()
    kept(now_ms)
    LagSample.objects.all().delete()
    LagSample.objects.create(
        at_ms=now_ms, topic=ONE[0], subscription=ONE[1], waiting=0, in_flight=0, retrying=0, parked=parked
    )


def test_it_is_said_where_it_is_so(lead: Callable[..., str]) -> None:
    assert WELL in lead()


def test_not_beside_a_breaker_that_is_open_or_tries_one_message(lead: Callable[..., str]) -> None:
    board = bus.breakers()
    board.trip(*ONE, "c1", "away", Pauses(60_000, 60_000))
    said = lead()
    assert "1 with an open breaker" in said
    assert WELL not in said
    board.force_trial(*ONE)
    assert board.probe(*ONE, "c1").state == "probing"
    said = lead()
    assert "1 with an open breaker" in said
    assert WELL not in said


def test_not_beside_parked_keys(lead: Callable[..., str]) -> None:
    sampled(parked=3)
    said = lead()
    assert "1 with parked keys" in said
    assert WELL not in said


def test_not_beside_one_without_a_handler(lead: Callable[..., str]) -> None:
    Subscription.objects.update(handler_name="")
    said = lead()
    assert "1 without a handler" in said
    assert WELL not in said


def test_not_beside_dead_letters(lead: Callable[..., str]) -> None:
    dead_letters(1, *ONE)
    assert WELL not in lead()


def test_of_a_narrowed_list_it_is_said_of_what_fits(lead: Callable[..., str]) -> None:
    assert "1 subscription of those you may see fits" in lead("?q=bill")
    assert "of those you may see" not in lead()
