"""A topic that is deleted takes along what waits there for its due time: said beforehand, done, and told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.bus.delay_mover import DelayMover
from engine.bus.delays import Whereabouts
from engine.bus.options import PublishOptions
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import Unavailable
from engine.core.facts import FactBatch
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics import delayed, transport_objects
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, fact_log
from tests.hbus_console.topics.conftest import GOVERNOR

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

OTHER = "booking.created.v2"


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[FactBatch]:
    class Seen:
        def emit(self, batches: list[FactBatch]) -> None:
            seen.extend(batches)

    seen: list[FactBatch] = []
    monkeypatch.setattr(fact_log, "emitter", Seen)
    return seen


def later(topic: str, delay_s: float = 3_600) -> tuple[str, str, str]:
    receipt = shared_producer().publish(topic, {"n": 1}, PublishOptions(delay_s=delay_s))
    return topic, "/hbus/console", receipt.message_id


def test_what_waits_is_cancelled_and_told_and_the_audit_says_how_much(
    topic: Topic, committed: Callable[..., None], emitted: list[FactBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(lambda: topics.create_topic(SYSTEM, TopicDraft(name=OTHER, owner="Reservations")))
    monkeypatch.setattr(delayed, "_AT_ONCE", 2)
    mine, others = [later(topic.name) for _ in range(5)], later(OTHER)
    del emitted[:]
    committed(lambda: topics.delete_topic(GOVERNOR, topic.name, topic.name, "old"))
    assert bus.delays().standings(mine) == [Whereabouts.CANCELLED] * 5
    assert bus.delays().standings([others]) == [Whereabouts.KEPT]
    rows = [(batch.kind, batch.subject, row) for batch in emitted for row in batch.rows()]
    assert {(kind, str(subject)) for kind, subject, _ in rows} == {("cancelled", "topic:booking.created")}
    assert sorted(row["message_id"] for _, _, row in rows) == sorted(message_id for _, _, message_id in mine)
    assert {(row["source"], row["detail"]) for _, _, row in rows} == {("/hbus/console", "Its topic was deleted.")}
    assert AuditEntry.objects.get(action="topic.delete").after == {"cancels_delayed": 5}


def test_a_topic_made_anew_under_its_name_gets_nothing_of_it(topic: Topic, committed: Callable[..., None]) -> None:
    later(topic.name, delay_s=1)
    committed(lambda: topics.delete_topic(GOVERNOR, topic.name, topic.name, "old"))
    committed(lambda: topics.create_topic(SYSTEM, TopicDraft(name=topic.name, owner="Reservations")))
    bus.delays()._clock = ManualClock(SystemClock().now_ms() + 60_000)
    DelayMover(bus.delays(), shared_producer).tick()
    assert bus.admin().depth(topic.name).messages == 0
    assert bus.delays().count() == 0


def test_while_the_store_is_away_no_namesake_is_made_and_the_keeper_cancels_it_afterwards(
    topic: Topic, committed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = later(topic.name)

    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    with monkeypatch.context() as cut:
        cut.setattr(type(bus.delays()), "places_in", away)
        committed(lambda: topics.delete_topic(GOVERNOR, topic.name, topic.name, "old"))
    assert AuditEntry.objects.get(action="topic.delete").after == {"cancels_delayed": "unknown"}
    assert bus.delays().standings([kept]) == [Whereabouts.KEPT]
    transport_objects.remove(StoreRemoval.objects.get())
    assert bus.delays().standings([kept]) == [Whereabouts.CANCELLED]


def test_what_a_topic_that_moved_leaves_behind_takes_nothing_along(topic: Topic) -> None:
    kept = later(topic.name)
    transport_objects.remove(StoreRemoval.objects.create(topic=topic.name, transport="redis_stream"))
    assert bus.delays().standings([kept]) == [Whereabouts.KEPT]


def test_page_and_api_say_beforehand_how_many_wait(
    topic: Topic, calling: Callable[..., Any], signed_in: Callable[..., Client], committed: Callable[..., None]
) -> None:
    for _ in range(3):
        later(topic.name)
    page = " ".join(signed_in(Role.GOVERNOR).get(f"/topics/{topic.name}/settings/").content.decode().split())
    assert "3 messages wait for their due time: each is cancelled with it, and told as that." in page
    answer = calling(Role.VIEWER)("GET", f"topics/{topic.name}/delayed")
    assert answer.json() == {"topic": topic.name, "waiting": 3, "refused": 0, "refused_since": None, "refused_why": ""}


def test_where_the_store_does_not_answer_the_page_says_that_nobody_knows(
    topic: Topic, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(type(bus.delays()), "places_in", away)
    page = " ".join(signed_in(Role.GOVERNOR).get(f"/topics/{topic.name}/settings/").content.decode().split())
    assert "How many messages wait here for their due time cannot be told now" in page
