"""A subscription that nobody takes messages for is not called active, on any page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.clock import SystemClock
from hbus_console.messages.models import LagSample
from hbus_console.subscriptions import standing
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.kept import kept
from tests.hbus_console.subscriptions.test_draining import stamp

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

PAGES = ("/subscriptions/", "/topics/booking.created/", "/subscriptions/booking.created/billing/")


@pytest.fixture
def page(topic: Topic, signed_in: Callable[..., Client]) -> Callable[[str], str]:
    Subscription.objects.create(topic=topic, group="billing", handler_name="hotel.bill")
    now_ms = SystemClock().now_ms()
    kept(now_ms)
    LagSample.objects.create(
        at_ms=now_ms, topic=topic.name, subscription="billing", waiting=0, in_flight=0, retrying=0, oldest_ms=None
    )
    client = signed_in()
    return lambda path: " ".join(client.get(path).content.decode().split())


@pytest.mark.parametrize("path", PAGES)
def test_each_page_says_that_nobody_runs_it_until_somebody_does(
    path: str, page: Callable[[str], str], prefix: str
) -> None:
    alone, active = '<span class="badge bad">no consumer</span>', '<span class="badge ok">active</span>'
    assert (alone in page(path), active in page(path)) == (True, False)
    stamp(prefix, "c1", in_flight=0)
    assert (alone in page(path), active in page(path)) == (False, True)
    stamp(prefix, "c1", in_flight=0, age_ms=60_000)
    assert (alone in page(path), active in page(path)) == (True, False)


def test_the_list_counts_them_and_can_be_narrowed_to_them(page: Callable[[str], str], prefix: str) -> None:
    assert "1 without a consumer" in page("/subscriptions/")
    assert "all keep up" not in page("/subscriptions/")
    assert ">billing</a>" in page("/subscriptions/?state=no+consumer")
    stamp(prefix, "c1", in_flight=0)
    assert "all keep up" in page("/subscriptions/")
    assert ">billing</a>" not in page("/subscriptions/?state=no+consumer")


def test_its_page_counts_who_is_silent_apart_and_promises_no_flow(page: Callable[[str], str], prefix: str) -> None:
    path = PAGES[2]
    stamp(prefix, "c1", in_flight=0)
    assert '<span class="meta">1 runs it</span>' in page(path)
    assert "Deliveries flow." in page(path)
    stamp(prefix, "c1", in_flight=0, age_ms=60_000)
    assert '<span class="meta">0 run it, <span class="text-bad">1 silent</span></span>' in page(path)
    assert "Deliveries flow." not in page(path)
    # When its loop moved last nobody knows by now.
    assert '<td class="num from-700">–</td> <td class="num hot-bad">' in page(path)
    assert '0 running, <span class="text-bad">2 silent</span>' in page("/cluster/")


def test_while_nobody_can_tell_nothing_is_said_of_it(
    page: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing.probes, "obstacle", lambda: "the store is away")
    assert "no consumer</span>" not in page("/subscriptions/")
