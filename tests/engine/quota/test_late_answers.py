"""Wants whose answers come late or never: no token is granted twice, and none is lost without a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from engine.core.errors import Unavailable
from engine.quota import Rule
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.protocol import Alloc, Answer, Want
from tests.engine.quota.cluster import Cluster, Wire

RULE = Rule(id="all", limit=1e-6, burst=1_000.0)


class Late(Wire):
    """Keeps questions back when told to, and lets them through long after."""

    def __init__(self, plane: MemoryControlPlane) -> None:
        super().__init__(plane)
        self.keeps = False
        self.kept: list[Want] = []
        self.last: list[Want] = []

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        self.last = list(wants)
        if self.keeps:
            self.kept += wants
            raise Unavailable("It is under way.")
        return super().want(wants)


@pytest.fixture
def cluster() -> Cluster:
    """One node, and a full bucket that hardly anything comes into."""
    made = Cluster(1, [RULE])
    made.clock.advance(1e10)
    made.wires[0] = wire = Late(made.plane)
    made.nodes[0]._plane = wire
    made.nodes[0].turn()
    return made


def wire_of(cluster: Cluster) -> Late:
    wire = cluster.wires[0]
    assert isinstance(wire, Late)
    return wire


def left(cluster: Cluster) -> float:
    (state,) = cluster.plane._allocator._buckets.values()
    return state.tokens


def pass_time(cluster: Cluster, seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        cluster.clock.advance(0.05)
        cluster.nodes[0].turn()


def until(cluster: Cluster, truth: Callable[[], bool]) -> None:
    for _ in range(400):
        if truth():
            return
        cluster.clock.advance(0.05)
        cluster.nodes[0].turn()
    raise AssertionError("it did not happen")


def cut_off_for(cluster: Cluster, seconds: float) -> list[Want]:
    """What was asked meanwhile, and is under way for ever."""
    wire = wire_of(cluster)
    wire.keeps = True
    pass_time(cluster, seconds)
    wire.keeps = False
    return wire.kept


def test_what_a_question_that_came_too_late_was_granted_is_there_again(cluster: Cluster) -> None:
    node, limiter = cluster.nodes[0], cluster.nodes[0].limiter("api", "search", "t")
    until(cluster, lambda: limiter.reserve(1, 0).ok)
    wire_of(cluster).keeps = True
    assert not limiter.reserve(900, 0).ok
    # Its permit would have ended by then: the node has given it up.
    (late, *_) = [want for want in cut_off_for(cluster, 7) if want.asked >= 900]
    sold = cluster.plane.want([late])[0].granted
    assert sold >= 900
    assert left(cluster) < 100
    until(cluster, lambda: node.away_since is None)
    pass_time(cluster, 8)
    # All is there again but for the one that was spent, or two, where one was spent alone.
    assert left(cluster) >= 997.9


def test_a_question_that_comes_after_a_later_one_changes_nothing(cluster: Cluster) -> None:
    node, limiter = cluster.nodes[0], cluster.nodes[0].limiter("api", "search", "t")
    until(cluster, lambda: limiter.reserve(1, 0).ok)
    limiter.refund(1)
    late = cut_off_for(cluster, 7)[0]
    assert late.returned
    until(cluster, lambda: node.away_since is None)
    pass_time(cluster, 1)
    before, newest = left(cluster), wire_of(cluster).last[-1]
    assert newest.number > late.number
    assert cluster.plane.want([late])[0].answer is Answer.LATE
    # And the newest is known all the same.
    assert cluster.plane.want([newest])[0].id == newest.id
    assert left(cluster) == before
