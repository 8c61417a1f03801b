"""Somebody else's hand at the keys of quotas: whose they are goes on by itself, others as if nothing had been."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.core.store import open_client
from engine.quota import Book, QuotaNode, Rule, Source
from engine.quota.planes.redis import RedisControlPlane

Spoil = Callable[[redis.Redis, str, QuotaNode], object]
BOOK = Book(version=1, rules=(Rule(id="each", limit=10.0, burst=10.0),))


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return open_client(redis_url)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def node(client: redis.Redis, prefix: str, clock: ManualClock) -> QuotaNode:
    plane = RedisControlPlane(client, prefix, now=lambda: clock.now_ms() / 1000)
    plane.keep_rules(*BOOK.kept())
    clock.advance(1_000)
    made = QuotaNode("n", plane, clock=clock, book=BOOK)
    made.turn()
    return made


def _admitted(node: QuotaNode, clock: ManualClock, tenant: str, seconds: float = 5.0) -> int:
    admitted = 0
    for _ in range(round(seconds / 0.02)):
        admitted += node.limiter("api", "search", tenant).reserve(1, 0).ok
        node.turn()
        clock.advance(0.02)
    return admitted


def _replaced(key: str) -> Spoil:
    def spoil(client: redis.Redis, quota: str, node: QuotaNode) -> None:
        name = f"{quota}:{key}"
        client.delete(name)
        client.set(name, "x")

    return spoil


def _told(client: redis.Redis, quota: str, node: QuotaNode) -> None:
    (name,) = client.keys(f"{quota}:told:*")
    client.delete(name)
    client.lpush(name, "x")


@pytest.mark.parametrize(
    "spoil",
    [
        _replaced("bucket:each/t"),
        _replaced("claims:each/t"),
        _replaced("nodes:each/t"),
        _told,
        lambda client, quota, node: client.hset(f"{quota}:claims:each/t", "o@z", "junk"),
        lambda client, quota, node: client.hset(f"{quota}:bucket:each/t", "at", "nan"),
    ],
)
def test_a_key_that_is_none_of_ours_is_felt_by_whose_it_is_alone(
    client: redis.Redis, prefix: str, clock: ManualClock, node: QuotaNode, spoil: Spoil
) -> None:
    assert _admitted(node, clock, "t", 0.2)
    spoil(client, f"{prefix}:{{quota}}", node)
    assert _admitted(node, clock, "t") <= 10 * 5 + 10
    assert 10 * 5 <= _admitted(node, clock, "other") <= 10 * 5 + 10
    assert node.limiter("api", "search", "other").status().source is Source.PERMIT
    assert node.away_since is None
    node.stop()


@pytest.mark.parametrize("version", ["abc", None])
def test_rules_that_are_none_of_ours_are_said_and_everybody_goes_on_alone(
    client: redis.Redis, prefix: str, clock: ManualClock, node: QuotaNode, version: str | None
) -> None:
    rules = f"{prefix}:{{quota}}:rules"
    if version is None:
        _replaced("rules")(client, f"{prefix}:{{quota}}", node)
    else:
        client.hset(rules, "version", version)
    assert _admitted(node, clock, "t") <= 10 * 5
    assert node.away_since is not None
    with pytest.raises(Unavailable, match="none of ours"):
        RedisControlPlane(client, prefix).version()
    client.delete(rules)
    _admitted(node, clock, "t", 30.0)
    assert node.away_since is None, "it has put them back"
    assert 10 * 5 - 10 <= _admitted(node, clock, "t") <= 10 * 5 + 10
