from __future__ import annotations

from typing import Any

import pytest

from engine.core.clock import ManualClock
from hbus_console.accounts.permissions import Actor
from hbus_console.ledger import services
from hbus_console.ledger.attention import Sentence
from hbus_console.ledger.models import FlowSample, LagSample, Notice
from hbus_console.topics.models import Topic
from tests.hbus_console.ledger.conftest import person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

CLOCK = ManualClock()
NOW = CLOCK.now_ms()
MINUTE = 60_000


def said(actor: Actor | None = None) -> list[Sentence]:
    return services.attention(actor or person("viewer"), clock=CLOCK)


def notice(kind: str, ago_ms: int = MINUTE, **more: Any) -> None:
    Notice.objects.create(kind=kind, at_ms=NOW - ago_ms, **more)


def lag(waiting: int = 0, ago_ms: int = 0) -> None:
    LagSample.objects.create(
        at_ms=NOW - ago_ms, topic="a.b", subscription="g", waiting=waiting, in_flight=0, retrying=0
    )


def test_nothing_to_say_is_nothing_said() -> None:
    lag()
    assert said() == []


def test_a_lost_store_is_said_until_it_is_back() -> None:
    notice("store_lost", 5 * MINUTE, detail="Connection refused.")
    assert [(each.tone, each.text) for each in said()] == [("bad", "The store cannot be reached")]
    notice("store_back", MINUTE)
    assert said() == []


def test_a_lost_group_is_said_until_its_lag_could_be_read_again() -> None:
    notice("group_lost", 5 * MINUTE, topic="a.b", subscription="g", detail="its consumer will make it anew")
    notice("group_lost", 4 * MINUTE, topic="a.b", subscription="g")
    assert [each.text for each in said()] == ["g on a.b is gone from the store"]
    lag()
    assert said() == []


def test_a_keeper_that_is_away_is_noticed_by_its_silence() -> None:
    lag(ago_ms=2 * MINUTE)
    assert "Nobody has looked at the subscriptions for 2 m" in said()[0].text


def test_held_retention_is_said_while_something_is_unsettled() -> None:
    notice("retention_held", topic="a.b", subscription="g", count=7, detail="7 messages are past retention and stay.")
    lag(waiting=7)
    assert [(each.tone, each.text) for each in said()] == [("warn", "Retention of a.b is held back")]
    LagSample.objects.all().delete()
    lag(waiting=0)
    assert said() == []


def test_dropped_evidence_is_added_up_for_a_day() -> None:
    notice("facts_dropped", count=30)
    notice("facts_dropped", 2 * MINUTE, count=12)
    notice("facts_dropped", 25 * 60 * MINUTE, count=999)
    assert said()[0].text == "42 facts are missing from the evidence"
    # It concerns the whole installation, not one namespace.
    assert said(person("viewer", "a.*")) == []


def test_a_topic_that_was_busy_and_fell_silent_is_named() -> None:
    bucket = NOW - NOW % 10_000
    FlowSample.objects.create(topic="a.b", bucket_ms=bucket - 20 * MINUTE, published=100)
    FlowSample.objects.create(topic="a.rare", bucket_ms=bucket - 20 * MINUTE, published=10)
    FlowSample.objects.create(topic="a.busy", bucket_ms=bucket - 20 * MINUTE, published=100)
    FlowSample.objects.create(topic="a.busy", bucket_ms=bucket - MINUTE, published=1)
    assert [(each.tone, each.text) for each in said()] == [("info", "a.b has gone silent")]


def test_a_scope_hides_what_concerns_other_topics() -> None:
    Topic.objects.create(name="a.b")
    notice("group_lost", topic="a.b", subscription="g")
    notice("retention_held", topic="a.b", subscription="g")
    assert said(person("viewer", "other.*")) == []
    assert len(said(person("viewer", "a.*"))) == 2
    assert said(Actor(name="nobody")) == []
