from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from engine.bus import handlers
from engine.bus.consumer import Consumer
from engine.core.errors import ConfigurationError
from hbus_console.consumers.factory import consumer_for
from hbus_console.consumers.policies import handler_of
from hbus_console.consumers.role import run
from hbus_console.consumers.wanted import ELSEWHERE, NAMED, NO_HANDLER, WantedSubscriptions, idle_report
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import key
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.policy import policy_of
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import store

KEY = ("booking.created", "counting")


def count(event: dict[str, Any]) -> None:
    """A handler."""


@pytest.fixture(autouse=True)
def _own_keys(
    settings: Settings, prefix: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setattr(handlers, "_registered", {})
    store.close()
    settings.HBUS_PREFIX = prefix
    catalog.changed()
    team = Team.objects.create(name="Reservations", contact="x")
    Topic.objects.create(name=KEY[0], team=team)
    yield
    store.close()


def row(**changes: Any) -> Subscription:
    topic = Topic.objects.get(name=KEY[0])
    return Subscription.objects.create(**({"topic": topic, "group": KEY[1], "backoff_s": [1, 2]} | changes))


def declare(**more: Any) -> None:
    handlers.subscription(topic=KEY[0], group=KEY[1], **more)(count)


def test_a_declaration_becomes_a_row_and_is_wanted() -> None:
    declare(concurrency=3)
    wanted = WantedSubscriptions()()
    assert wanted.keys() == {KEY}
    assert not wanted[KEY].paused
    assert Subscription.objects.get().concurrency == 3
    consumer = wanted[KEY].make()
    assert isinstance(consumer, Consumer)
    consumer.start()
    assert consumer.stop(2).clean


def test_a_row_without_a_handler_here_is_told_and_not_wanted() -> None:
    row()
    wanted = WantedSubscriptions()
    assert wanted() == {}
    assert wanted.problems == {KEY: "this worker has no handler registered for it"}
    with pytest.raises(ConfigurationError, match="No handler is registered"):
        consumer_for(Subscription.objects.select_related("topic").get())


def test_a_worker_hosts_the_topics_that_are_its_and_leaves_the_others_to_others(settings: Settings) -> None:
    declare()
    settings.HBUS_CONSUME_TOPICS = ("booking.*", "rates")
    assert WantedSubscriptions()().keys() == {KEY}
    settings.HBUS_CONSUME_TOPICS = ("booking",)
    wanted = WantedSubscriptions()
    assert wanted() == {}
    assert wanted.problems == {KEY: ELSEWHERE}
    assert len(idle_report({(f"t{number}", "g"): ELSEWHERE for number in range(2 * NAMED)})["idle"]) == 2 * NAMED
    # It is declared here all the same: it is not gone from the code.
    assert Subscription.objects.get().handler_name
    settings.HBUS_CONSUME_TOPICS = ()
    assert WantedSubscriptions()().keys() == {KEY}


def test_topics_that_are_named_badly_are_refused_before_the_worker_starts(settings: Settings) -> None:
    settings.HBUS_CONSUME_TOPICS = ("booking.*", "book*")
    with pytest.raises(ConfigurationError, match="HBUS_CONSUME_TOPICS: 'book\\*' is not a scope") as refused:
        run(0)
    assert refused.value.field == "HBUS_CONSUME_TOPICS"


def test_a_declaration_without_its_topic_waits() -> None:
    handlers.subscription(topic="not.there", group="x")(count)
    wanted = WantedSubscriptions()
    assert wanted() == {}
    assert wanted.problems == {("not.there", "x"): "its topic does not exist yet"}


@pytest.mark.parametrize("paused", [Topic, Subscription])
def test_the_pause_of_the_subscription_and_of_its_topic_both_count(paused: type[Topic | Subscription]) -> None:
    declare()
    wanted = WantedSubscriptions()
    wanted()
    paused.objects.update(paused=True)
    assert wanted()[KEY].paused


@pytest.mark.parametrize(
    ("model", "changes", "differs"),
    [
        (Subscription, {"concurrency": 9}, False),
        (Subscription, {"breaker_failures": 9}, True),
        (Subscription, {"max_handler_s": 9}, True),
        (Subscription, {"max_attempts": 9}, True),
        (Subscription, {"lease_s": 9}, True),
        (Subscription, {"description": "other words", "revision": 9}, False),
        (Topic, {"ordering": "key"}, True),
        (Topic, {"description": "other words", "revision": 9}, False),
    ],
)
def test_only_what_a_consumer_has_built_in_makes_another_version(
    model: type[Topic | Subscription], changes: dict[str, Any], differs: bool
) -> None:
    declare()
    wanted = WantedSubscriptions()
    before = wanted()[KEY].version
    policies = ["concurrency", "max_attempts", "lease_s", "breaker_failures", "max_handler_s"]
    held = {"held_fields": policies} if model is Subscription else {}
    model.objects.update(**changes, **held)
    assert (wanted()[KEY].version != before) is differs


def test_the_policy_is_the_rows() -> None:
    made = row(concurrency=2, max_attempts=7, lease_s=11, transactional=True)
    policy = policy_of(made)
    assert (policy.topic, policy.group, policy.concurrency, policy.lease_s) == (*KEY, 2, 11)
    assert (policy.retry.max_attempts, policy.retry.backoff_s, policy.transactional) == (7, (1, 2), True)


def test_an_ordered_topic_gets_a_consumer_with_an_owner() -> None:
    Topic.objects.update(ordering="key")
    declare()
    consumer = WantedSubscriptions()()[KEY].make()
    consumer.start()
    assert consumer.stop(2).clean


def test_a_webhook_needs_no_code() -> None:
    made = row(handler="webhook", webhook_url="https://partner.example/hook?key=s3cret", webhook_secret="whsec_x")
    assert WantedSubscriptions()().keys() == {KEY}
    assert handler_of(made).name == "webhook https://partner.example/hook"


def test_a_report_names_the_first_without_a_handler_and_counts_the_others() -> None:
    reasons = {(f"t{number:04}", "g"): NO_HANDLER for number in range(4_000)}
    reasons["z.last", "g"] = "drained on this worker"
    told = idle_report(reasons)
    assert told["idle_unnamed"] == 4_000 - NAMED
    assert told["idle"][0] == {"topic": "t0000", "group": "g", "why": NO_HANDLER}
    assert told["idle"][-1] == {"topic": "z.last", "group": "g", "why": "drained on this worker"}
    assert len(json.dumps(told)) < 3_000


def test_a_worker_of_other_apps_leaves_a_handler_to_the_one_that_runs_it(settings: Settings) -> None:
    declare()
    assert WantedSubscriptions()().keys() == {KEY}
    handlers._registered.clear()
    line = {"topic": KEY[0], "group": KEY[1], "state": "running"}
    beat = NodeBeat(
        store.client(), settings.HBUS_PREFIX, name="h:consumer:1", role="consumer", detail=lambda: {"consumers": [line]}
    )
    beat.beat()
    other = WantedSubscriptions()
    assert other() == {}
    assert Subscription.objects.get().handler_name
    store.client().delete(key(settings.HBUS_PREFIX))
    assert other() == {}
    assert not Subscription.objects.get().handler_name
