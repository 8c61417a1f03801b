"""A publisher that was killed told of nothing: whoever repeats its publish makes the row of the ledger."""

from __future__ import annotations

import pytest

from engine.bus.config import BusConfig
from engine.bus.facts import Fact, batches
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer, ReceiptStatus
from engine.bus.registry import open_transport
from engine.core.facts import MemoryFacts
from hbus_console.evidence.booking import Booking
from hbus_console.messages.models import FlowSample, LedgerMessage
from tests.engine.bus.test_publish_path import OneTopic
from tests.hbus_console.messages.conftest import AT

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

LATER = AT + 60_000


def published(source: str = "/crm") -> Fact:
    return Fact("published", AT, "a", "", "m", "", "m", source=source, type="t", position="7-0", duration_us=900)


def repeated(group: str = "", source: str = "/crm", position: str = "7-0") -> Fact:
    return Fact(
        "deduplicated", LATER, "a", group, "m", "", "m", source=source, type="t", position=position, duration_us=500
    )


def book(*facts: Fact) -> None:
    rows = Booking()
    rows.add(batches(list(facts)))
    rows.write()


def rows() -> list[tuple[str, str, int, int]]:
    found = LedgerMessage.objects.order_by("id")
    return [(row.source, row.position, row.published_ms, row.stored_us) for row in found]


@pytest.mark.parametrize("kind", ["memory", "redis_stream"])
def test_the_repeat_of_an_untold_publish_is_booked_as_the_message_that_is_stored(
    kind: str, redis_url: str, prefix: str
) -> None:
    transport = open_transport(BusConfig(type=kind, url=redis_url, prefix=prefix))
    transport.admin.create_topic("a")
    lost, told = MemoryFacts(), MemoryFacts()
    once = PublishOptions(idempotency_key="order-7", key="k")
    first, again = (
        Producer(lambda _: transport, OneTopic(), source="/crm", facts=facts).publish("a", {"n": 1}, once)
        for facts in (lost, told)
    )
    assert again.status is ReceiptStatus.DUPLICATE

    booking = Booking()
    booking.add(told.batches)
    booking.write()

    row = LedgerMessage.objects.get()
    assert (row.message_id, row.position, row.topic, row.key) == (first.message_id, first.position, "a", "k")
    assert row.correlation_id == first.message_id
    transport.close()


def test_what_is_told_late_after_all_is_the_same_row() -> None:
    book(repeated())
    assert rows() == [("/crm", "7-0", LATER, 0)]
    book(published())
    assert rows() == [("/crm", "7-0", AT, 900)]


@pytest.mark.parametrize("source", ["/crm", "/another"])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_repeat_of_what_was_told_changes_nothing(source: str, at_once: bool) -> None:
    if at_once:
        book(repeated(source=source), published())
    else:
        book(published())
        book(repeated(source=source))
    book(repeated(source=source))
    assert rows() == [("/crm", "7-0", AT, 900)]


def test_many_repeats_make_one_row_and_count_as_no_publish() -> None:
    book(repeated(), repeated(source="/another"))
    book(repeated())
    assert rows() == [("/crm", "7-0", LATER, 0)]
    assert [(flow.published, flow.deduplicated) for flow in FlowSample.objects.all()] == [(0, 3)]


@pytest.mark.parametrize("fact", [repeated("billing"), repeated(position="")])
def test_a_delivery_repeated_or_a_repeat_without_a_position_tells_of_no_stored_message(fact: Fact) -> None:
    book(fact)
    assert rows() == []
