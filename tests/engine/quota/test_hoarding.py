"""What is prepaid to those who do not come again: little, for a moment. Others find it, and no more than the limit."""

from __future__ import annotations

from collections.abc import Callable

from engine.quota import Rule, Whose
from tests.engine.quota.cluster import STEP_S, Cluster

NODES, LIMIT, BURST = 8, 1_000.0, 200.0
SHARED = Rule(id="all", limit=LIMIT, burst=BURST, whose=Whose.TOGETHER)


class Crowd:
    """So many requests a second, at one node after the other, and the most that was let in beyond the limit."""

    def __init__(self) -> None:
        self.cluster = Cluster(NODES, [SHARED])
        self.number = 0

    def comes(self, seconds: float, rate: float, tenant_of: Callable[[int], str]) -> tuple[int, float]:
        """How many were let in, and how many beyond the limit in the worst window."""
        total, beyond, most, due = 0, 0.0, 0.0, 0.0
        for _ in range(round(seconds / STEP_S)):
            admitted, due = 0, due + rate * STEP_S
            while due >= 1:
                due, self.number = due - 1, self.number + 1
                node = self.cluster.nodes[self.number % NODES]
                admitted += node.limiter("api", "search", tenant_of(self.number)).reserve(1, 0).ok
            for node in self.cluster.nodes:
                node.turn()
            self.cluster.clock.advance(STEP_S)
            total, beyond = total + admitted, max(0.0, beyond) + admitted - LIMIT * STEP_S
            most = max(most, beyond)
        return total, most

    @property
    def held(self) -> int:
        return sum(status.left for node in self.cluster.nodes for _, status in node.statuses())


def test_a_flood_of_tenants_that_come_once_hoards_nothing() -> None:
    crowd = Crowd()
    crowd.comes(8, 1_500, lambda number: f"once {number}")
    assert crowd.held <= 0.65 * 1_500
    admitted, beyond = crowd.comes(8, 3_000, lambda number: f"t{number % 5}")
    assert beyond <= BURST + 0.65 * 1_500
    assert 0.95 * LIMIT * 8 <= admitted <= LIMIT * 8 + BURST + 0.65 * 1_500


def test_what_those_hold_who_come_all_the_time_is_a_moments_worth() -> None:
    crowd = Crowd()
    _, beyond = crowd.comes(5, 3_000, lambda number: f"t{number % 5}")
    assert crowd.held <= 0.05 * LIMIT
    assert beyond <= BURST


def test_the_last_tokens_are_there_for_eight_nodes() -> None:
    cluster = Cluster(NODES, [Rule(id="last", limit=1e-6, burst=24.0)])
    cluster.clock.advance(1e9)
    admitted = 0
    for number in range(16):
        limiter = cluster.nodes[number % NODES].limiter("api", "search", "ada")
        for _ in range(2):
            if limiter.reserve(1, 0).ok:
                admitted += 1
                break
            for node in cluster.nodes:
                node.turn()
        for _ in range(25):
            cluster.clock.advance(STEP_S)
            for node in cluster.nodes:
                node.turn()
    assert admitted >= 11


def test_who_comes_seldom_costs_two_wants_at_most() -> None:
    cluster = Cluster(1, [Rule(id="each", limit=10.0, burst=10.0)])
    node, wire = cluster.nodes[0], cluster.wires[0]
    cluster.clock.advance(100)
    for _ in range(20):
        limiter = node.limiter("api", "search", "ada")
        limiter.reserve(1)
        for _ in range(1_900):
            node.turn()
            cluster.clock.advance(STEP_S)
    assert wire.wants <= 40
