"""Nodes that share a limit: together they admit what it allows, and cut off no more than the bound."""

from __future__ import annotations

import pytest

from engine.quota import OnLoss, Rule, Source, Whose
from engine.quota.planes.memory import MemoryControlPlane
from tests.engine.quota.cluster import Cluster

LIMIT = 200.0


def rule(limit: float = LIMIT, burst: float = LIMIT, fallback: float = 0.5, on_loss: OnLoss = OnLoss.FALLBACK) -> Rule:
    return Rule(id="all", limit=limit, burst=burst, fallback=fallback, on_loss=on_loss)


def test_together_they_admit_the_limit() -> None:
    cluster = Cluster(6, [rule()])
    assert cluster.run(2, 4 * LIMIT) <= LIMIT * 2 + LIMIT
    assert cluster.run(5, 4 * LIMIT) == pytest.approx(LIMIT * 5, rel=0.03)
    assert max(cluster.admitted) < 1.1 * min(cluster.admitted)


def test_below_the_limit_nobody_is_refused() -> None:
    cluster = Cluster(6, [rule()])
    cluster.run(2, 0.8 * LIMIT)
    assert cluster.run(5, 0.8 * LIMIT) == pytest.approx(0.8 * LIMIT * 5, rel=0.01)


def test_what_one_does_not_need_others_may_have() -> None:
    cluster = Cluster(3, [rule()])
    cluster.run(2, [2_000, 10, 10])
    before = list(cluster.admitted)
    cluster.run(5, [2_000, 10, 10])
    gained = [after - was for after, was in zip(cluster.admitted, before, strict=True)]
    assert gained == pytest.approx([(LIMIT - 20) * 5, 50, 50], rel=0.06)


@pytest.mark.parametrize("limit", [0.5, 3.0, 5_000.0])
def test_slow_and_fast_limits_are_reached_and_kept(limit: float) -> None:
    cluster = Cluster(4, [rule(limit, burst=2)])
    cluster.run(4, 8 * limit)
    seconds = max(4.0, 20 / limit)
    assert cluster.run(seconds, 8 * limit) == pytest.approx(limit * seconds, rel=0.08, abs=2)


@pytest.mark.parametrize("fallback", [1.0, 0.5, 0.1])
def test_half_of_them_cut_off_exceed_the_limit_by_what_the_bound_says(fallback: float) -> None:
    cluster = Cluster(8, [rule(fallback=fallback)])
    cluster.run(3, 4 * LIMIT)
    _cut(cluster, 4)
    cluster.run(2, 4 * LIMIT)
    ratio = cluster.run(8, 4 * LIMIT) / (LIMIT * 8)
    assert ratio == pytest.approx(1 + fallback * 4 / 8, rel=0.03)
    assert ratio <= 1 + fallback * 4 / 8 + 0.02


def test_what_was_spent_alone_is_repaid() -> None:
    cluster = Cluster(8, [rule()])
    cluster.run(3, 4 * LIMIT)
    _cut(cluster, 4)
    over = cluster.run(8, 4 * LIMIT) - LIMIT * 8
    _cut(cluster, 0)
    assert cluster.run(8, 4 * LIMIT) == pytest.approx(LIMIT * 8 - over, rel=0.05)


def test_what_nobody_else_took_meanwhile_need_not_be_repaid() -> None:
    cluster = Cluster(8, [rule()])
    cluster.run(3, 0.5 * LIMIT)
    _cut(cluster, 4)
    cluster.run(8, 0.5 * LIMIT)
    _cut(cluster, 0)
    cluster.run(1, 0.5 * LIMIT)
    assert cluster.run(4, 0.5 * LIMIT) == pytest.approx(0.5 * LIMIT * 4, rel=0.02)


@pytest.mark.parametrize(
    ("on_loss", "source", "share"), [(OnLoss.OPEN, Source.OPEN, 1.0), (OnLoss.CLOSED, Source.CLOSED, 0.0)]
)
def test_cut_off_it_does_as_the_rule_says(on_loss: OnLoss, source: Source, share: float) -> None:
    cluster = Cluster(2, [rule(on_loss=on_loss)])
    cluster.run(1, LIMIT)
    _cut(cluster, 2)
    cluster.run(6, 2 * LIMIT)
    assert cluster.run(2, 2 * LIMIT) == pytest.approx(share * 2 * LIMIT * 2, rel=0.01)
    status = cluster.nodes[0].limiter("api", "search", "t").status()
    assert status.source is source
    assert status.cut_off_s == pytest.approx(8, abs=0.5)


def test_a_lost_answer_costs_tokens_and_never_gives_any() -> None:
    cluster = Cluster(2, [rule(fallback=0.0)])
    cluster.run(2, 4 * LIMIT)
    for _ in range(20):
        cluster.wires[0].answers_lost = True
        cluster.run(0.1, 4 * LIMIT)
        cluster.wires[0].answers_lost = False
        cluster.run(0.4, 4 * LIMIT)
    # What was granted and not heard of goes back: without that some two hundred tokens would be lost.
    assert LIMIT * 12 * 0.98 <= sum(cluster.admitted) <= LIMIT * 12 + LIMIT


def test_a_control_plane_that_lost_everything_begins_with_nothing() -> None:
    cluster = Cluster(4, [rule(burst=1_000)])
    cluster.run(5, 4 * LIMIT)
    fresh = MemoryControlPlane(cluster.clock)
    for wire in cluster.wires:
        wire._plane = fresh
    admitted = cluster.run(5, 4 * LIMIT)
    assert fresh.version() == 1
    assert LIMIT * 3.5 <= admitted <= LIMIT * 5 + 4 * 2 * LIMIT * 0.1


def test_newer_rules_hold_within_a_second_everywhere() -> None:
    cluster = Cluster(5, [rule()])
    cluster.run(3, 4 * LIMIT)
    cluster.publish(rule(20.0, burst=20.0))
    cluster.run(1, 4 * LIMIT)
    assert [node.version for node in cluster.nodes] == [2] * 5
    assert {status.limit for node in cluster.nodes for _, status in node.statuses()} == {20.0}
    assert cluster.run(4, 4 * LIMIT) == pytest.approx(80, rel=0.15)


def test_a_rule_that_goes_leaves_no_limit_and_one_that_comes_limits() -> None:
    cluster = Cluster(2, [rule()])
    cluster.run(1, 4 * LIMIT)
    cluster.publish()
    cluster.run(1, 4 * LIMIT)
    assert cluster.run(1, 4 * LIMIT) == 4 * LIMIT
    cluster.publish(rule(20.0, burst=20.0))
    cluster.run(1, 4 * LIMIT)
    assert cluster.run(4, 4 * LIMIT) == pytest.approx(80, rel=0.15)


def test_tenants_have_their_own_and_share_what_is_for_all() -> None:
    own = Rule(id="own", limit=LIMIT, burst=LIMIT)
    shared = Rule(id="shared", limit=LIMIT, burst=LIMIT, whose=Whose.TOGETHER)
    cluster = Cluster(2, [own, shared])
    flood = 0
    quiet = 0
    for _ in range(60):
        flood += cluster.run(0.05, 10 * LIMIT, "flood")
        quiet += cluster.run(0.05, 0.4 * LIMIT, "quiet")
    # Each asks half of the time.
    assert quiet == pytest.approx(0.4 * LIMIT * 3, rel=0.05)
    assert flood + quiet <= LIMIT * 6 + LIMIT


def test_tenants_who_share_a_limit_share_what_may_be_spent_alone() -> None:
    cluster = Cluster(4, [Rule(id="shared", limit=LIMIT, burst=LIMIT, fallback=0.5, whose=Whose.TOGETHER)])

    def run(seconds: float) -> int:
        return sum(cluster.run(0.02, 4 * LIMIT, f"t{number % 8}") for number in range(round(seconds / 0.02)))

    run(3)
    _cut(cluster, 2)
    run(2)
    assert run(6) / (LIMIT * 6) <= 1 + 0.5 * 2 / 4 + 0.03


def test_closing_gives_back_what_was_prepaid() -> None:
    cluster = Cluster(1, [rule(limit=1.0, burst=100.0)])
    assert cluster.run(100, 0) == 0
    assert cluster.run(0.05, 200) > 0
    cluster.nodes[0].stop()
    cluster.nodes[0] = cluster._node(0, cluster.wires[0], 2)
    cluster.run(10, 100)
    assert sum(cluster.admitted) >= 98


def test_stopping_gives_back_all_that_is_prepaid_and_unspent() -> None:
    cluster = Cluster(1, [rule(limit=1e-6, burst=1_000.0)])
    node, wire = cluster.nodes[0], cluster.wires[0]
    cluster.clock.advance(1e10)
    admitted = 0
    for number in range(20):
        limiter = node.limiter("api", "search", f"t{number}")
        while not limiter.reserve(1, 0).ok:
            node.turn()
        admitted += 1
        # One has an answer outstanding, which is lost, and what was prepaid beside it.
        wire.answers_lost = number == 7
        limiter.refund(1)
        admitted -= 1
        cluster.clock.advance(0.2)
        node.turn()
        if wire.answers_lost:
            wire.answers_lost = False
            cluster.clock.advance(1)
            node.turn()
        assert limiter.reserve(1, 0).ok
        admitted += 1
    node.stop()
    buckets = cluster.plane._allocator._buckets
    assert len(buckets) == 20
    assert sum(state.tokens for state in buckets.values()) == pytest.approx(20 * 1_000 - admitted, abs=0.01)


def test_who_is_read_and_not_written_stays_away() -> None:
    cluster = Cluster(2, [rule()])
    cluster.run(2, LIMIT)
    heard: list[bool] = []
    node, wire = cluster.nodes[0], cluster.wires[0]
    node._changed = heard.append
    wire.read_only = True
    cluster.run(10, LIMIT)
    assert heard == [True]
    assert node.limiter("api", "search", "t").status().source is Source.FALLBACK
    wire.read_only = False
    cluster.run(3, LIMIT)
    assert heard == [True, False]
    assert node.limiter("api", "search", "t").status().source is Source.PERMIT


def test_where_nobody_wants_anything_it_is_back_when_it_is_read() -> None:
    cluster = Cluster(1, [rule()])
    cluster.wires[0].cut = True
    cluster.run(2, 0)
    assert cluster.nodes[0].away_since is not None
    cluster.wires[0].cut = False
    cluster.run(3, 0)
    assert cluster.nodes[0].away_since is None


def test_wants_do_not_grow_with_what_is_asked() -> None:
    cluster = Cluster(1, [rule(10_000.0, 10_000.0)])
    cluster.run(2, 100)
    counts = []
    for demand in (500, 5_000):
        before = cluster.wires[0].wants
        cluster.run(2, demand)
        counts.append(cluster.wires[0].wants - before)
    assert counts[1] < 2 * counts[0] + 10


def _cut(cluster: Cluster, first: int) -> None:
    for number, wire in enumerate(cluster.wires):
        wire.cut = number < first
