"""Who waits for tokens gets its turn, however many come after it who want less."""

from __future__ import annotations

import threading

import pytest

from engine.quota import Rule
from engine.quota.distributed import DistributedLimiter
from engine.quota.line import Line
from engine.quota.purse import Lot, Purse
from engine.quota.waiters import Fate, ThreadWaiter
from tests.engine.quota.cluster import STEP_S, Cluster

RATE = 20.0


def step(cluster: Cluster, limiter: DistributedLimiter, times: int) -> int:
    """Somebody asks for one token after the other meanwhile; how many were had."""
    had = 0
    for _ in range(times):
        had += sum(limiter.reserve(1, 0).ok for _ in range(3))
        cluster.nodes[0].turn()
        cluster.clock.advance(STEP_S)
    return had


@pytest.fixture
def busy() -> tuple[Cluster, DistributedLimiter]:
    """A limiter at which all that comes is spent as it comes."""
    cluster = Cluster(1, [Rule(id="all", limit=RATE, burst=100.0)])
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    step(cluster, limiter, 2_000)
    return cluster, limiter


def waits(limiter: DistributedLimiter, n: int, timeout: float | None = None) -> tuple[threading.Thread, list[bool]]:
    ends: list[bool] = []
    before = len(limiter._line)
    waiting = threading.Thread(target=lambda: ends.append(limiter.wait(n, timeout)))
    waiting.start()
    while len(limiter._line) == before:
        pass
    return waiting, ends


def test_who_waits_for_many_is_not_overtaken_for_ever(busy: tuple[Cluster, DistributedLimiter]) -> None:
    cluster, limiter = busy
    waiting, ends = waits(limiter, 80)
    head = limiter._line.head
    # Longer than a permit lasts, and a little more for what was held when it came.
    small = step(cluster, limiter, round(1.1 * 80 / RATE / STEP_S))
    assert head is not None
    assert head.fate is Fate.SERVED
    waiting.join(10)
    assert ends == [True]
    assert small <= 0.15 * 80
    # And those who want less get all of it again.
    assert step(cluster, limiter, 400) == pytest.approx(RATE * 2, abs=6)


def test_what_was_collected_goes_back_when_nobody_waits_for_it_any_more(
    busy: tuple[Cluster, DistributedLimiter],
) -> None:
    cluster, limiter = busy
    waiting, ends = waits(limiter, 90, timeout=400 * STEP_S)
    step(cluster, limiter, 399)
    head = limiter._line.head
    assert head is not None
    assert 30 <= head.got < 90
    got = head.got
    # Its patience ends.
    cluster.clock.advance(2 * STEP_S)
    waiting.join(10)
    assert ends == [False]
    # It is had by others, beside what comes.
    assert step(cluster, limiter, 400) == pytest.approx(RATE * 2 + got, rel=0.15)


def filled(n: int) -> Purse:
    purse = Purse()
    purse.put(Lot("a", n, 100.0, n))
    return purse


def test_who_came_first_is_first() -> None:
    line = Line()
    line.owed = 5
    first, second = ThreadWaiter(10, True), ThreadWaiter(1, True)
    line.join(first)
    line.owed += 7
    line.join(second)
    assert line.pending() == 23
    # What was promised before it, then the first; what was promised meanwhile, then the second.
    for n, owed, got in ((4, 8, 0), (3, 7, 2), (8, 7, 10), (6, 1, 10)):
        assert line.serve(filled(n), 0.0) == n
        assert (line.owed, first.got) == (owed, got)
    assert (first.fate, second.fate) == (Fate.SERVED, Fate.WAITING)
    assert line.serve(filled(9), 0.0) == 2
    assert second.fate is Fate.SERVED


def test_who_is_in_a_hurry_takes_all_or_nothing() -> None:
    line = Line()
    line.join(hurried := ThreadWaiter(3, False))
    purse = filled(2)
    assert line.serve(purse, 0.0) == 0
    assert (purse.left(), hurried.got) == (2, 0)


def test_without_the_control_plane_those_who_come_later_leave_what_comes_to_who_waits() -> None:
    cluster = Cluster(1, [Rule(id="all", limit=4.0, burst=4.0, fallback=1.0)])
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    step(cluster, limiter, 1_000)
    cluster.wires[0].cut = True
    step(cluster, limiter, 2_000)
    waiting, ends = waits(limiter, 3)
    head = limiter._line.head
    assert step(cluster, limiter, round(0.8 / STEP_S)) <= 1
    assert head is not None
    assert head.fate is Fate.SERVED
    waiting.join(10)
    assert ends == [True]
