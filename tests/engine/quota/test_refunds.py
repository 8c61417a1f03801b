"""What is given back goes to the bucket that sold it, or to none."""

from __future__ import annotations

import pytest

from engine.quota import Rule
from engine.quota.distributed import DistributedLimiter
from engine.quota.gate import QuotaGate
from engine.quota.uses import Uses
from tests.engine.quota.cluster import Cluster

KEY = ("api", "search", "t")
WIDE = Rule(id="wide", limit=1e-6, burst=1_000.0)
NARROW = Rule(id="narrow", limit=1e-6, burst=10.0)


@pytest.fixture
def cluster() -> Cluster:
    """One node, and full buckets that hardly anything comes into."""
    made = Cluster(1, [WIDE])
    made.clock.advance(1e10)
    made.nodes[0].turn()
    return made


@pytest.fixture
def limiter(cluster: Cluster) -> DistributedLimiter:
    return cluster.nodes[0].limiter(*KEY)


def turn(cluster: Cluster, seconds: float = 8.0) -> None:
    for _ in range(round(seconds / 0.05)):
        cluster.clock.advance(0.05)
        cluster.nodes[0].turn()


def take(cluster: Cluster, limiter: DistributedLimiter, n: int) -> None:
    for _ in range(200):
        if limiter.reserve(n, 0).ok:
            return
        turn(cluster, 0.05)
    raise AssertionError("there was none")


def sold(cluster: Cluster, rule: str) -> float:
    """What of this rule's bucket is neither there nor prepaid."""
    buckets = cluster.plane._allocator._buckets
    (state,) = [state for (name, _), state in buckets.items() if name == rule]
    return {"wide": 1_000.0, "narrow": 10.0}[rule] - state.tokens


def test_it_goes_back_to_the_bucket_that_sold_it(cluster: Cluster, limiter: DistributedLimiter) -> None:
    stock = limiter.stock
    take(cluster, limiter, 8)
    limiter.refund(8, stock)
    turn(cluster)
    assert sold(cluster, "wide") == pytest.approx(0, abs=0.1)


def test_a_bucket_of_other_rules_is_not_paid_what_another_sold(cluster: Cluster, limiter: DistributedLimiter) -> None:
    stock = limiter.stock
    take(cluster, limiter, 8)
    cluster.publish(NARROW)
    turn(cluster)
    take(cluster, limiter, 9)
    limiter.refund(8, stock)
    turn(cluster)
    assert sold(cluster, "narrow") == pytest.approx(9, abs=0.1)


def test_a_bucket_that_was_made_anew_is_not_paid_what_the_old_one_sold(
    cluster: Cluster, limiter: DistributedLimiter
) -> None:
    stock = limiter.stock
    take(cluster, limiter, 8)
    cluster.plane._allocator._buckets.clear()
    cluster.clock.advance(1e10)
    turn(cluster)
    take(cluster, limiter, 9)
    limiter.refund(8, stock)
    turn(cluster)
    assert limiter.stock is not stock
    assert sold(cluster, "wide") == pytest.approx(9, abs=0.1)


def test_what_the_first_request_took_after_a_reload_goes_back(cluster: Cluster, limiter: DistributedLimiter) -> None:
    take(cluster, limiter, 8)
    cluster.publish(NARROW)
    turn(cluster)
    # Nobody has asked the new bucket yet.
    stock = limiter.stock
    take(cluster, limiter, 9)
    limiter.refund(9, stock)
    turn(cluster)
    assert sold(cluster, "narrow") == pytest.approx(0, abs=0.1)


def test_a_gate_gives_back_to_whom_it_took_from(cluster: Cluster, limiter: DistributedLimiter) -> None:
    gate = QuotaGate(cluster.nodes[0], Uses(), now_ms=cluster.clock.now_ms)
    stock = limiter.stock
    take(cluster, limiter, 8)
    cluster.publish(NARROW)
    turn(cluster)
    take(cluster, limiter, 9)
    gate.take_back(limiter, KEY, 8, stock)
    turn(cluster)
    assert sold(cluster, "narrow") == pytest.approx(9, abs=0.1)
