"""A message that waited for its time, and that the store no longer has, is told as lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from django.test import Client
from pytest_django import Settings

from engine.bus.delay_entries import place_of
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import Cancelled
from engine.core.clock import ManualClock, SystemClock
from engine.core.facts import FactBatch, NullFacts
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.messages import delayed_checking
from hbus_console.messages.checking import GRACE_MS
from hbus_console.messages.delayed_checking import DelayedEvidenceCheck
from hbus_console.messages.models import LedgerCheck, LedgerEvent, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics import catalog, delayed
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, fact_log, store
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


def cancelled() -> set[tuple[str, str]]:
    return set(LedgerEvent.objects.filter(kind="cancelled").values_list("message_id", "subscription"))


def cancel(message_id: str) -> None:
    message = LedgerMessage.objects.get(message_id=message_id)
    assert bus.delays().cancel(message.topic, message.source, message_id) is Cancelled.CANCELLED


def test_what_was_cancelled_is_told_as_that_once_and_not_as_lost(
    waiting: Waiting, book: Callable[[], None], prefix: str, sign_in: Callable[..., Client]
) -> None:
    gone, kept = publish(delay_s=3_600), publish(delay_s=3_600)
    book()
    cancel(gone)
    waiting.look()
    waiting.look()
    assert lost() == set()
    assert cancelled() == {(gone, "billing"), (gone, "partner-sync")}
    assert LedgerEvent.objects.filter(kind="cancelled").count() == 2
    assert (LedgerCheck.objects.get().lost, sum(batch.count for batch in waiting.counted)) == (0, 2)
    # Nobody misses it any more, so nothing is remembered of it.
    assert store.client().exists(f"{prefix}:{{delays}}:cancelled") == 0
    assert open_messages() == [kept]
    life = " ".join(sign_in("admin").get(f"/messages/{gone}").content.decode().split())
    assert "It was cancelled while it waited for its due time" in life
    assert "Cancelled before its time came for" in life
    assert "Due, and published" not in life
    listed = sign_in("admin").get("/api/v1/messages", {"id": gone}).json()["results"]
    assert [(each["outcome"]["cancelled"], each["outcome"]["lost"]) for each in listed] == [
        (["billing", "partner-sync"], [])
    ]


def test_what_is_accepted_anew_after_a_cancellation_waits_and_may_be_lost(
    waiting: Waiting, book: Callable[[], None], prefix: str, sign_in: Callable[..., Client]
) -> None:
    again = publish(delay_s=3_600, message_id="again")
    book()
    cancel(again)
    # It is missed now, and when all that was told is booked it is not.
    waiting.duty.tick()
    publish(delay_s=3_600, message_id="again")
    book()
    waiting.look()
    assert (lost(), cancelled()) == (set(), set())
    cancel(again)
    waiting.look()
    assert {message_id for message_id, _ in cancelled()} == {again}
    publish(delay_s=3_600, message_id="again")
    book()
    LedgerEvent.objects.filter(kind="delayed").update(at_ms=waiting.clock.now_ms() + 1)
    assert "It waits for its due time" in sign_in("admin").get(f"/messages/{again}").content.decode()
    forget(prefix, again)
    waiting.look()
    assert {message_id for message_id, _ in lost()} == {again}


def test_what_was_meant_for_a_topic_that_was_deleted_is_not_told_as_lost_in_its_namesake(
    waiting: Waiting, book: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = publish(topic="stay.completed", delay_s=0.001)
    book()
    row = Topic.objects.get(name="stay.completed")
    row.delete()
    row.pk = Topic.objects.order_by("-pk").values_list("pk", flat=True)[0] + 2
    row.save(force_insert=True)
    catalog.changed()
    monkeypatch.setattr(bus.delays(), "_clock", ManualClock(SystemClock().now_ms() + 10_000))
    DelayMover(bus.delays(), shared_producer).tick()
    book()
    waiting.look()
    assert (lost(), cancelled()) == (set(), {(orphan, "")})
    # The mover has told it, and the check adds nothing.
    (told,) = LedgerEvent.objects.filter(kind="cancelled")
    assert "was deleted; the one of this name now is another" in told.detail


def test_what_went_with_its_topic_is_told_also_where_its_fact_was_lost(
    waiting: Waiting, book: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = publish(topic="stay.completed", delay_s=3_600)
    book()
    with monkeypatch.context() as lossy:
        lossy.setattr(fact_log, "emitter", NullFacts)
        Topic.objects.get(name="stay.completed").delete()
        delayed.cancel_all("stay.completed")
    waiting.look()
    assert (lost(), cancelled()) == (set(), {(orphan, "")})


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
