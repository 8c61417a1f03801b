"""A message that waited for its time, and that the store no longer has, is told as lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from django.test import Client
from pytest_django import Settings

from engine.bus.delay_mover import DelayMover
from engine.bus.delays import place_of
from engine.core.clock import ManualClock, SystemClock
from engine.core.facts import FactBatch
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.messages import delayed_checking
from hbus_console.messages.checking import GRACE_MS
from hbus_console.messages.delayed_checking import DelayedEvidenceCheck
from hbus_console.messages.models import LedgerCheck, LedgerEvent, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import TOPIC, publish
from tests.hbus_console.messages.test_delivery_checking import open_messages

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


class Waiting:
    """The duty, and the times at which it looks."""

    def __init__(self, prefix: str) -> None:
        self.clock = ManualClock(SystemClock().now_ms())
        self.counted: list[FactBatch] = []
        self.duty = DelayedEvidenceCheck(
            bus.delays, lambda: FactReader(store.client(), prefix).end()[0], self._count, clock=self.clock
        )

    def look(self, times: int = 3) -> None:
        for _ in range(times):
            self.duty.tick()
            self.clock.advance(2 * GRACE_MS / 1000)

    def _count(self, told: Sequence[FactBatch]) -> None:
        self.counted += told


@pytest.fixture
def waiting(installation: None, prefix: str) -> Waiting:
    LedgerCheck.objects.create(topic=TOPIC, until_ms=1)
    return Waiting(prefix)


def lost() -> set[tuple[str, str]]:
    return set(LedgerEvent.objects.filter(kind="lost").values_list("message_id", "subscription"))


def forget(prefix: str, *message_ids: str) -> None:
    """As an emptied store does."""
    places = [
        place_of(message.topic, message.source, message.message_id)
        for message in LedgerMessage.objects.filter(message_id__in=message_ids)
    ]
    for part in ("waiting", "moving"):
        store.client().zrem(f"{prefix}:{{delays}}:{part}", *places)
    store.client().hdel(f"{prefix}:{{delays}}:entries", *places)


def test_what_waited_and_is_gone_is_told_once(
    waiting: Waiting, book: Callable[[], None], prefix: str, sign_in: Callable[..., Client]
) -> None:
    gone, kept = publish(delay_s=3_600), publish(delay_s=3_600)
    book()
    waiting.look()
    assert lost() == set()
    forget(prefix, gone)
    waiting.look()
    assert lost() == {(gone, "billing"), (gone, "partner-sync")}
    assert open_messages() == [kept]
    assert (LedgerCheck.objects.get().lost, sum(batch.count for batch in waiting.counted)) == (1, 2)
    page = " ".join(sign_in("admin").get(f"/topics/{TOPIC}/audit/").content.decode().split())
    assert "1 that waited for its time was lost</a>: the store no longer has it." in page
    life = sign_in("admin").get(f"/messages/{gone}").content.decode()
    assert "It waits for its due time" not in life
    # It was accepted, and never published.
    assert "Accepted from" in life
    assert "Due, and published" not in life
    waiting.look()
    assert (LedgerEvent.objects.filter(kind="lost").count(), LedgerCheck.objects.get().lost) == (2, 1)


def test_what_is_published_meanwhile_is_not_lost(waiting: Waiting, book: Callable[[], None]) -> None:
    publish(delay_s=0.001)
    book()
    late = ManualClock(SystemClock().now_ms() + 10_000)
    bus.delays()._clock = late
    DelayMover(bus.delays(), shared_producer).tick()
    # Its fact is not booked yet.
    for _ in range(2):
        waiting.duty.tick()
        waiting.clock.advance(1)
    assert lost() == set()
    book()
    waiting.look()
    assert lost() == set()


def test_all_of_many_are_asked_for_in_pages(
    waiting: Waiting, book: Callable[[], None], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed_checking, "PAGE", 3)
    sent = [publish(delay_s=3_600) for _ in range(8)]
    book()
    forget(prefix, *sent[5:])
    waiting.look(4)
    assert {message_id for message_id, _ in lost()} == set(sent[5:])


def test_of_a_topic_that_nobody_reads_it_is_told_as_well(
    waiting: Waiting, book: Callable[[], None], prefix: str, sign_in: Callable[..., Client]
) -> None:
    gone = publish(topic="stay.completed", delay_s=3_600)
    book()
    forget(prefix, gone)
    waiting.look()
    assert lost() == {(gone, "")}
    assert "It waits for its due time" not in sign_in("admin").get(f"/messages/{gone}").content.decode()


def test_without_a_ledger_nothing_is_asked(waiting: Waiting, settings: Settings) -> None:
    settings.HBUS_LEDGER = False
    waiting.look()
    assert lost() == set()
