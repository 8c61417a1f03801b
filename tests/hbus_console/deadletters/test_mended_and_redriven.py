"""From a failing handler to a settled copy: every part is the real one, on the real store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.bus.consumer import Consumer
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.core.clock import ManualClock
from hbus_console.deadletters import services
from hbus_console.deadletters.collector import DeadLetterCollector
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages import services as ledger
from hbus_console.outbox.relay import OutboxRelay
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import bus, fact_log, store
from tests.hbus_console.messages.conftest import TOPIC, book, installation, person, publish, wait_until

__all__ = ["book", "installation"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


class UnknownRoomCode(Exception):
    """What the partner says about a room it does not know."""


class Partner:
    """A handler that knows one room too few, until it is mended."""

    def __init__(self) -> None:
        self.mended = threading.Event()
        self.handled: list[str] = []

    def __call__(self, message: Any, context: Any) -> None:
        if not self.mended.is_set():
            raise UnknownRoomCode("'DBL-SEA'")
        self.handled.append(message.id)


@contextmanager
def consuming(group: str, handler: Any) -> Iterator[None]:
    policy = SubscriptionPolicy(TOPIC, group, RetryPolicy(max_attempts=3, backoff_s=(0.02,)), concurrency=1)
    consumer = Consumer(bus.transport(), policy, handler, name="n1", facts=fact_log.emitter())
    consumer.start()
    try:
        yield
    finally:
        consumer.stop(5.0)


def test_after_mending_the_cause_the_copy_is_settled_where_it_died_and_nowhere_else(
    book: Callable[[], None], django_capture_on_commit_callbacks: Any
) -> None:
    operator, partner, billed = person("operator"), Partner(), []
    # Given a message that one subscription settles and another cannot handle
    sent = publish(key="booking/48213", correlation_id="req-9f21c0")
    with consuming("billing", lambda message, _: billed.append(message.id)), consuming("partner-sync", partner):
        wait_until(lambda: bus.admin().lag(TOPIC, "partner-sync").dead == 1)
        wait_until(lambda: billed == [sent])
    DeadLetterCollector(bus.admin).tick()
    letter = DeadLetter.objects.get()
    assert (letter.message_id, letter.subscription, letter.attempts) == (sent, "partner-sync", 3)

    # When a person mends the cause and redrives it
    partner.mended.set()
    with django_capture_on_commit_callbacks(execute=True):
        copy = services.redrive(operator, letter.pk, "room code map 2.4.2 deployed").letter.redriven_as
    OutboxRelay(shared_producer, store.client, wait_s=0.01, clock=ManualClock()).tick()
    with consuming("billing", lambda message, _: billed.append(message.id)), consuming("partner-sync", partner):
        wait_until(lambda: partner.handled == [copy])
        wait_until(lambda: bus.admin().lag(TOPIC, "billing").unsettled == 0)
        wait_until(lambda: bus.admin().lag(TOPIC, "partner-sync").unsettled == 0)
    book()

    # Then the others have not seen it, and the timeline tells the whole story
    assert billed == [sent]
    told = [moment.sentence for moment in ledger.timeline(operator, sent)]
    assert told[0].startswith("Published by")
    assert any(sentence.startswith("Settled by billing") for sentence in told)
    assert any(sentence.startswith("Dead in partner-sync · UnknownRoomCode: … · 3 attempts") for sentence in told)
    assert told[-2] == "Redrive asked by ops-lisbon · “room code map 2.4.2 deployed”"
    assert told[-1].startswith(
        f"Redriven as {copy} · new id, caused by this one · settled by partner-sync at attempt 1"
    )
    life = ledger.life(operator, copy)
    assert life.cause is not None
    assert life.cause.message_id == sent
    assert life.correlation_id == "req-9f21c0"
    assert life.settled_in == {"partner-sync"}
