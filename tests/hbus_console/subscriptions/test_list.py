"""The sentence on top of the list of subscriptions: that all keep up is said only where each of them does."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urljoin

import pytest
from django.test import Client

from engine.bus.breaker_board import Pauses
from engine.core.clock import SystemClock
from hbus_console.messages.models import FlowSample, LagSample
from hbus_console.subscriptions import services
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.traffic.flow import BUCKET_MS
from hbus_console.wiring import bus
from tests.hbus_console.kept import kept
from tests.hbus_console.subscriptions.test_draining import ONE, stamp
from tests.hbus_console.topics.conftest import EDITOR
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
    return lambda query="": " ".join(client.get(urljoin("/subscriptions/", query)).content.decode().split())


def sampled(parked: int = 0, retrying: int = 0) -> None:
    now_ms = SystemClock().now_ms()
    kept(now_ms)
    LagSample.objects.all().delete()
    LagSample.objects.create(
        at_ms=now_ms, topic=ONE[0], subscription=ONE[1], waiting=0, in_flight=0, retrying=retrying, parked=parked
    )


def failed(attempts: int) -> None:
    """So many of the last half minute, and none succeeded."""
    now_ms = SystemClock().now_ms()
    bucket_ms = now_ms - now_ms % BUCKET_MS - BUCKET_MS
    FlowSample.objects.create(bucket_ms=bucket_ms, topic=ONE[0], subscription=ONE[1], retried=attempts)


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


@pytest.mark.parametrize("retried", [0, 3])
def test_nowhere_is_it_said_of_one_whose_attempts_fail(retried: int, lead: Callable[..., str]) -> None:
    about = f"/topics/{ONE[0]}/"
    assert "keeps up" in lead(about)
    sampled(retrying=6)
    failed(retried)
    said = lead()
    assert "1 whose attempts fail" in said
    assert '<span class="badge warn">retrying</span>' in said
    assert WELL not in said
    waits = "6 messages wait to be tried again" + ("; every attempt of the last half minute failed" if retried else "")
    assert f"billing does not keep up: {waits}." in lead(about)


def test_nor_on_its_own_page(
    topic: Topic, committed: Callable[..., None], signed_in: Callable[..., Client], prefix: str
) -> None:
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))
    Subscription.objects.update(handler_name="hotel.bill")
    stamp(prefix, "c1", in_flight=0, age_ms=-300_000)
    sampled()
    client = signed_in()

    def answer() -> str:
        said: str = client.get(f"/subscriptions/{ONE[0]}/{ONE[1]}/").context["page"].answer
        return said

    assert answer() == "It keeps up and settles 0 messages a second."
    failed(3)
    assert answer() == "Every attempt of the last half minute failed."


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
