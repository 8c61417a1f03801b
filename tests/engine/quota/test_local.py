"""The limiter of one process: threads, waiting, closing, newer rules."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Iterator

import pytest

from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput
from engine.quota import Closed, LocalLimiter, Source

THREADS = 8


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_eight_threads_get_what_there_is_and_no_more(hurried: None) -> None:
    limiter = LocalLimiter(10, 1_000, clock=ManualClock())
    admitted = [0] * THREADS

    def ask(number: int) -> None:
        admitted[number] = sum(limiter.allow() for _ in range(2_000))

    _together(ask)
    assert sum(admitted) == 1_000


def test_threads_that_take_several_at_once_get_whole_ones(hurried: None) -> None:
    limiter = LocalLimiter(10, 1_000, clock=ManualClock())
    taken = [0] * THREADS

    def ask(number: int) -> None:
        n = 1 + number % 4
        taken[number] = sum(n for _ in range(1_000) if limiter.allow(n))

    _together(ask)
    assert sum(taken) == 1_000


def test_the_clock_is_read_inside_the_lock(hurried: None) -> None:
    """In golang.org/x/time/rate the limit is exceeded by threads that come with times read before they waited."""
    clock = SystemClock()
    limiter = LocalLimiter(2_000, 1, clock=clock)
    begun = clock.monotonic()
    admitted = [0] * THREADS

    def ask(number: int) -> None:
        for _ in range(3_000):
            admitted[number] += limiter.allow()

    _together(ask)
    assert sum(admitted) <= 1 + 2_000 * (clock.monotonic() - begun)


def test_it_waits_until_there_are_enough() -> None:
    clock = ManualClock()
    limiter = LocalLimiter(10, 2, clock=clock)
    assert limiter.allow(2)
    done: list[bool] = []
    waiting = threading.Thread(target=lambda: done.append(limiter.wait(1)))
    waiting.start()
    while limiter.tokens() > -1:
        pass
    assert not done
    clock.advance(0.1)
    waiting.join(10)
    assert done == [True]


def test_it_does_not_wait_in_vain() -> None:
    limiter = LocalLimiter(10, 2, clock=ManualClock())
    assert limiter.allow(2)
    assert not limiter.wait(2, timeout=0.1)
    assert not limiter.wait(3)
    assert limiter.tokens() == 0


def test_closing_wakes_those_who_wait_and_gives_back_what_they_took() -> None:
    limiter = LocalLimiter(1, 1, clock=ManualClock())
    assert limiter.allow()
    ends: list[str] = []

    def wait() -> None:
        try:
            limiter.wait()
        except Closed as closed:
            ends.append(closed.title)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while limiter.tokens() > -1:
        pass
    limiter.close()
    waiting.join(10)
    assert ends == ["Closed"]
    assert limiter.tokens() == 0
    with pytest.raises(Closed):
        limiter.allow()


def test_in_an_event_loop() -> None:
    async def run() -> None:
        limiter = LocalLimiter(10, 1)
        assert await limiter.wait_async()
        assert await limiter.wait_async()
        assert not await limiter.wait_async(timeout=0.000_1)
        slow = LocalLimiter(0.001, 1)
        assert await slow.wait_async()
        task = asyncio.create_task(slow.wait_async())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slow.tokens() == pytest.approx(0, abs=0.01)
        other = asyncio.create_task(slow.wait_async())
        await asyncio.sleep(0)
        threading.Thread(target=slow.close).start()
        with pytest.raises(Closed):
            await other

    asyncio.run(run())


def test_a_reservation_is_given_back_once() -> None:
    limiter = LocalLimiter(10, 4, clock=ManualClock())
    assert limiter.allow(4)
    reservation = limiter.reserve(2)
    assert reservation.ok
    assert reservation.delay_s == pytest.approx(0.2)
    reservation.cancel()
    reservation.cancel()
    assert limiter.tokens() == 0
    assert not limiter.reserve(5).ok
    assert not limiter.reserve(1, max_wait=0).ok


def test_what_was_not_used_is_refunded_up_to_the_burst() -> None:
    limiter = LocalLimiter(1, 3, clock=ManualClock())
    assert limiter.allow(2)
    limiter.refund(1)
    assert limiter.tokens() == 2
    limiter.refund(9)
    assert limiter.tokens() == 3


def test_newer_rules_hold_at_once_and_older_ones_never() -> None:
    clock = ManualClock()
    limiter = LocalLimiter(10, 10, clock=clock, version=3)
    assert limiter.allow(6)
    assert limiter.apply(100, 20, 5)
    assert not limiter.apply(1, 1, 4)
    assert not limiter.apply(1, 1, 5)
    clock.advance(0.1)
    status = limiter.status()
    assert (status.limit, status.burst, status.version, status.source) == (100, 20, 5, Source.LOCAL)
    assert status.tokens == pytest.approx(14)


def test_an_infinite_limit_lets_everything_pass() -> None:
    limiter = LocalLimiter(math.inf, 0, clock=ManualClock())
    assert all(limiter.allow(10**6) for _ in range(100))
    assert limiter.reserve(10**9).delay_s == 0


@pytest.mark.parametrize(("limit", "burst"), [(-1, 1), (1, -1), (math.nan, 1), (1, math.nan), (1, math.inf)])
def test_what_cannot_be_a_limit_is_refused(limit: float, burst: float) -> None:
    with pytest.raises(BadInput):
        LocalLimiter(limit, burst)


def test_less_than_nothing_cannot_be_taken() -> None:
    limiter = LocalLimiter(1, 1)
    for ask in (limiter.allow, limiter.reserve, limiter.wait, limiter.refund):
        with pytest.raises(BadInput):
            ask(-1)
    assert limiter.allow(0)


def _together(work: object) -> None:
    assert callable(work)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
