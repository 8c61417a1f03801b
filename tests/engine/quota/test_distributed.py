"""A limiter on its node, with real threads and a real loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from engine.core.errors import BadInput
from engine.core.store import open_client
from engine.quota import Book, Closed, QuotaNode, Rule, Source
from engine.quota.distributed import DistributedLimiter
from engine.quota.plane import ControlPlane
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from tests.engine.quota.cluster import Wire

THREADS = 8


class Later:
    """Real time, after a pause that a test asks for."""

    def __init__(self) -> None:
        self.paused = 0.0

    def __call__(self) -> float:
        return 1_000.0 + self.paused + time.monotonic()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture(params=["memory", "redis"])
def plane(request: pytest.FixtureRequest, redis_url: str, prefix: str, later: Later) -> ControlPlane:
    if request.param == "memory":
        return MemoryControlPlane(now=later)
    return RedisControlPlane(open_client(redis_url), prefix, now=later)


@pytest.fixture
def limited(plane: ControlPlane, later: Later) -> Iterator[Callable[..., DistributedLimiter]]:
    """Makes limiters of nodes that share one limit, whose bucket is full."""
    nodes: list[QuotaNode] = []

    def make(limit: float, burst: float, *, over: ControlPlane | None = None) -> DistributedLimiter:
        plane.keep_rules(*Book(version=1, rules=(Rule(id="all", limit=limit, burst=burst),)).kept())
        later.paused = 1e9
        node = QuotaNode(f"n{len(nodes)}", over or plane)
        node.start()
        nodes.append(node)
        return node.limiter("api", "search", "globetrek")

    yield make
    for node in nodes:
        node.stop()


@pytest.fixture
def hurried() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_the_first_who_asks_is_let_in(limited: Callable[..., DistributedLimiter]) -> None:
    limiter = limited(10, 5)
    assert limiter.allow()
    status = limiter.status()
    assert (status.source, status.limit, status.burst, status.version) == (Source.PERMIT, 10, 5, 1)
    assert status.permit
    assert 0 < status.expires_s <= 5


def test_threads_on_two_nodes_get_what_there_is_and_no_more(
    limited: Callable[..., DistributedLimiter], hurried: None
) -> None:
    limiters = [limited(1e-6, 500), limited(1e-6, 500)]
    admitted = [0] * THREADS
    ends_at = time.monotonic() + 60

    def ask(number: int) -> None:
        sizes = (1, 1, 2, 3)
        turn = 0
        while sum(admitted) < 497 and time.monotonic() < ends_at:
            turn += 1
            n = sizes[turn % 4]
            if limiters[number % 2].allow(n):
                admitted[number] += n

    _together(ask)
    assert 497 <= sum(admitted) <= 500
    # What is left is less than anybody asked for, or prepaid to the other.
    for _ in range(50):
        for limiter in limiters:
            admitted[0] += limiter.allow()
    assert sum(admitted) <= 500


def test_it_waits_for_what_comes(limited: Callable[..., DistributedLimiter]) -> None:
    limiter = limited(50, 1)
    begun = time.monotonic()
    assert all(limiter.wait(timeout=30) for _ in range(20))
    assert time.monotonic() - begun > 0.2
    assert not limiter.wait(50)
    assert not limiter.wait(1_000, timeout=30)


def test_in_an_event_loop(limited: Callable[..., DistributedLimiter]) -> None:
    limiter = limited(100, 5)

    async def run() -> None:
        assert all(await asyncio.gather(*(limiter.wait_async(timeout=30) for _ in range(20))))
        while limiter.allow():
            pass
        task = asyncio.create_task(limiter.wait_async(5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await limiter.wait_async(timeout=30)

    asyncio.run(run())


def test_closing_wakes_those_who_wait(limited: Callable[..., DistributedLimiter]) -> None:
    limiter = limited(1e-6, 1)
    assert limiter.allow()
    ends: list[str] = []

    def wait() -> None:
        try:
            limiter.wait()
        except Closed as closed:
            ends.append(closed.title)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not limiter._line:
        pass
    limiter.close()
    waiting.join(10)
    assert ends == ["Closed"]
    with pytest.raises(Closed):
        limiter.allow()


def test_a_reservation_is_promised_and_forgotten(limited: Callable[..., DistributedLimiter]) -> None:
    limiter = limited(10, 4)
    assert limiter.allow(4)
    assert not limiter.reserve(1, 0).ok
    while not limiter.reserve(1, 5).ok:
        pass
    reservation = limiter.reserve(2, 5)
    assert reservation.ok
    assert 0 < reservation.delay_s <= 5
    owed = limiter._line.owed
    reservation.cancel()
    reservation.cancel()
    assert limiter._line.owed == owed - 2


def test_what_was_not_used_goes_back_for_others(limited: Callable[..., DistributedLimiter]) -> None:
    first, second = limited(1e-6, 4), limited(1e-6, 4)
    assert first.allow(4)
    first.refund(4)
    assert second.wait(4, timeout=30)


def test_without_an_answer_the_first_token_is_had_in_time(
    limited: Callable[..., DistributedLimiter], plane: ControlPlane
) -> None:
    wire = Wire(plane)
    limiter = limited(10, 5, over=wire)
    wire.cut = True
    begun = time.monotonic()
    assert limiter.allow()
    assert time.monotonic() - begun < 5
    assert not limiter.allow()
    status = limiter.status()
    assert status.source is Source.FALLBACK
    wire.cut = False
    assert limiter.wait(timeout=30)
    while limiter.status().source is not Source.PERMIT:
        limiter.allow()


def test_less_than_nothing_cannot_be_taken(limited: Callable[..., DistributedLimiter]) -> None:
    limiter = limited(1, 1)
    for ask in (limiter.allow, limiter.reserve, limiter.wait, limiter.refund):
        with pytest.raises(BadInput):
            ask(-1)


def _together(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
