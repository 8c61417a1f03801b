"""Another number of threads, set on the page or over the API, reaches the consumer that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from engine.bus import handlers
from hbus_console.consumers.host import SubscriptionHost
from hbus_console.consumers.wanted import WantedSubscriptions
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.topics.test_acts import POLICY

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

KEY = ("booking.created", "billing")
PATIENCE_S = 60.0


class Gate:
    """A handler that holds what it is given until opened; counts how many it held at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self._changed = threading.Condition()
        self._inside = 0
        self.begun = 0

    def __call__(self, event: dict[str, Any]) -> None:
        self._count(1)
        self.open.wait(PATIENCE_S)
        self._count(-1)

    def holds(self, number: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._inside == number, PATIENCE_S)

    def _count(self, by: int) -> None:
        with self._changed:
            self._inside += by
            self.begun += by > 0
            self._changed.notify_all()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, topic: Topic) -> Gate:
    monkeypatch.setattr(handlers, "_registered", {})
    made = Gate()

    @handlers.subscription(topic=KEY[0], group=KEY[1], concurrency=2)
    def bill(event: dict[str, Any]) -> None:
        made(event)

    return made


@pytest.fixture
def host(gate: Gate, committed: Callable[..., None]) -> Iterator[SubscriptionHost]:
    """A worker's host, turned by hand, whose two threads are held in the handler; four messages wait."""
    made = SubscriptionHost(WantedSubscriptions())
    committed(made.reconcile)
    for number in range(6):
        shared_producer().publish(KEY[0], {"n": number})
    assert gate.holds(2)
    yield made
    gate.open.set()
    made.stop(5)


def test_threads_asked_for_over_the_api_start_and_end_in_the_running_consumer(
    host: SubscriptionHost, gate: Gate, calling: Callable[..., Callable[..., Any]]
) -> None:
    call, running = calling(), host.statuses()[KEY]
    assert call("PATCH", "topics/booking.created/subscriptions/billing", {"concurrency": 5}).status_code == 200
    host.reconcile()
    # Nothing has ended, so those beyond two run in new threads of the same consumer
    assert gate.holds(5)
    assert (host.statuses()[KEY].concurrency, gate.begun) == (5, 5)
    call("PATCH", "topics/booking.created/subscriptions/billing", {"concurrency": 1})
    host.reconcile()
    # Fewer drop nothing: what is in hand ends, and no attempt is counted for it
    assert host.statuses()[KEY].in_flight == 5
    gate.open.set()
    assert gate.holds(0)
    status = host.statuses()[KEY]
    assert (status.concurrency, status.failed, status.name) == (1, 0, running.name)


def test_threads_asked_for_on_the_page_start_in_the_running_consumer(
    host: SubscriptionHost, gate: Gate, signed_in: Callable[..., Client]
) -> None:
    row = Subscription.objects.get()
    form = {**POLICY, "backoff_s": ", ".join(map(str, row.backoff_s)), "owner": "", "revision": str(row.revision)}
    answer = signed_in().post(
        "/subscriptions/booking.created/billing/settings/",
        {**form, "concurrency": "3"},
    )
    assert answer.status_code == 302, answer.content.decode()
    host.reconcile()
    # A consumer that was replaced would have waited for the two and begun three anew
    assert gate.holds(3)
    assert gate.begun == 3
