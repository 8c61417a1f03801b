from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import redis
from prometheus_client import REGISTRY
from pytest_django import Settings

from engine.bus.breaker_board import RedisBreakers
from engine.core.errors import Unavailable
from hbus_console.consumers.breakers import BreakerGauge
from hbus_console.keeper.duties import all_duties
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store

pytestmark = pytest.mark.django_db


@pytest.fixture
def topic(settings: Settings, prefix: str) -> Iterator[Topic]:
    """With one subscription that has a breaker and one that has none; named like no other test's."""
    store.close()
    settings.HBUS_PREFIX = prefix
    made = Topic.objects.create(name=prefix)
    Subscription.objects.create(topic=made, group="with")
    Subscription.objects.create(topic=made, group="without", breaker_failures=0)
    yield made
    store.close()


def value(topic: Topic, group: str, state: str) -> float | None:
    return REGISTRY.get_sample_value("hbus_breaker_state", {"topic": topic.name, "subscription": group, "state": state})


def test_the_keeper_shows_how_each_breaker_stands(topic: Topic) -> None:
    (duty,) = (duty for duty in all_duties() if isinstance(duty, BreakerGauge))
    duty.tick()
    assert (value(topic, "with", "closed"), value(topic, "with", "open")) == (1, 0)
    bus.breakers().force_open(topic.name, "with", "partner is down")
    duty.tick()
    assert (value(topic, "with", "closed"), value(topic, "with", "open")) == (0, 1)
    assert value(topic, "without", "closed") is None


def test_while_the_store_is_away_nobody_claims_to_know(topic: Topic) -> None:
    BreakerGauge(bus.breakers).tick()
    away = RedisBreakers(redis.Redis.from_url("redis://127.0.0.1:1/0"), "x")
    with pytest.raises(Unavailable):
        BreakerGauge(lambda: away).tick()
    assert math.isnan(value(topic, "with", "closed") or 0)
