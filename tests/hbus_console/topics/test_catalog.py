"""The catalog: fresh, cheap, and steady while the database is away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import OperationalError
from pytest_django import DjangoAssertNumQueries

from engine.bus.errors import UnknownTopic
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console.access.permissions import SYSTEM
from hbus_console.schemas import services as schemas
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics import catalog
from hbus_console.topics import services as topic_services
from hbus_console.topics.catalog import FRESH_S, GRACE_S, DjangoCatalog
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def topics(clock: ManualClock) -> DjangoCatalog:
    return DjangoCatalog(clock)


def test_a_policy_says_what_the_row_says(topic: Topic, topics: DjangoCatalog) -> None:
    Topic.objects.update(classification="confidential", max_bytes=500, ttl_s=60, idempotency_window_s=90)
    schemas.add_schema(SYSTEM, topic.name, {"type": "object"})
    policy = topics.topic(topic.name)
    assert (policy.owner, policy.classification, policy.max_bytes, policy.ttl_s, policy.idempotency_window_s) == (
        "Reservations",
        "confidential",
        500,
        60,
        90,
    )
    assert policy.schema is not None
    assert policy.schema.uri == "urn:hbus:schema:booking.created:1"


def test_an_unknown_topic_names_the_remedy(topics: DjangoCatalog) -> None:
    with pytest.raises(UnknownTopic, match="Create it with an owner"):
        topics.topic("no.such")


def test_one_query_serves_all_topics_for_two_seconds(
    topic: Topic, topics: DjangoCatalog, clock: ManualClock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    topic_services.create_topic(SYSTEM, TopicDraft(name="b", owner="Reservations", schema={"type": "object"}))
    topics.topic("b")
    clock.advance(FRESH_S)
    with django_assert_num_queries(1):
        topics.topic("b")
        topics.topic(topic.name)
    with django_assert_num_queries(0):
        topics.topic("b")


def test_a_change_by_another_process_is_seen_after_two_seconds(
    topic: Topic, topics: DjangoCatalog, clock: ManualClock
) -> None:
    assert topics.topic(topic.name).max_bytes == 1024 * 1024
    Topic.objects.update(max_bytes=500)
    clock.advance(FRESH_S / 2)
    assert topics.topic(topic.name).max_bytes == 1024 * 1024
    clock.advance(FRESH_S / 2)
    assert topics.topic(topic.name).max_bytes == 500


def test_a_change_by_this_process_is_seen_at_once_and_again_after_the_commit(
    topic: Topic, topics: DjangoCatalog, committed: Callable[..., None]
) -> None:
    topics.topic(topic.name)

    def change_and_look() -> None:
        topic_services.change_topic(SYSTEM, topic.name, {"max_bytes": 500})
        assert topics.topic(topic.name).max_bytes == 500
        # What a second thread would have cached from before the commit.
        Topic.objects.update(max_bytes=600)
        assert topics.topic(topic.name).max_bytes == 500

    committed(change_and_look)
    assert topics.topic(topic.name).max_bytes == 600


def test_while_the_database_is_away_what_is_known_holds_for_a_minute(
    topic: Topic, topics: DjangoCatalog, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.topic(topic.name)
    asked: list[None] = []

    def away(self: DjangoCatalog) -> None:
        asked.append(None)
        raise OperationalError("gone")

    monkeypatch.setattr(DjangoCatalog, "_read", away)
    clock.advance(FRESH_S)
    for _ in range(5):
        assert topics.topic(topic.name).owner == "Reservations"
    assert len(asked) == 1
    clock.advance(GRACE_S)
    with pytest.raises(Unavailable):
        topics.topic(topic.name)


def test_with_nothing_known_a_database_that_is_away_is_said(
    topics: DjangoCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: DjangoCatalog) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(DjangoCatalog, "_read", away)
    with pytest.raises(Unavailable):
        topics.topic("any")


def test_a_stored_schema_that_no_longer_compiles_refuses_everything(topic: Topic, topics: DjangoCatalog) -> None:
    SchemaVersion.objects.create(topic=topic, version=1, body={"type": "objct"}, created_by="old release")
    catalog.changed()
    policy = topics.topic(topic.name)
    assert policy.schema is not None
    problem = policy.schema.problem({})
    assert problem is not None
    assert "cannot be checked" in problem[1]
