"""Python's limiters as peers: each in its cheapest form, on its own memory, with a limit that refuses nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import count, repeat
from typing import Any

from engine.core.errors import ConfigurationError
from hbus_console.bench.loops import Ask, Cost, alone, without_collector

LIMIT = 10**9
#: DRF keeps every moment of the window, and reads and writes them all each time: it is measured with this many at most.
DRF_WINDOW = 100


def limits(calls: int) -> Cost:
    from limits import RateLimitItemPerHour
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), RateLimitItemPerHour(LIMIT)
    return _warm(partial(limiter.hit, item, "tenant"), calls)


def pyrate_limiter(calls: int) -> Cost:
    from pyrate_limiter import Duration, InMemoryBucket, Limiter, Rate

    limiter = Limiter(InMemoryBucket([Rate(LIMIT, Duration.HOUR)]))
    try:
        return _warm(partial(limiter.try_acquire, "tenant", blocking=False), calls)
    finally:
        limiter.close()


def throttled_py(calls: int) -> Cost:
    from throttled import Throttled, per_hour
    from throttled.constants import RateLimiterType

    throttle = Throttled(key="tenant", using=RateLimiterType.FIXED_WINDOW.value, quota=per_hour(LIMIT))
    return _warm(throttle.limit, calls)


def token_bucket(calls: int) -> Cost:
    from token_bucket import Limiter, MemoryStorage

    limiter = Limiter(LIMIT, LIMIT, MemoryStorage())
    return _warm(partial(limiter.consume, "tenant"), calls)


def aiolimiter(calls: int) -> Cost:
    from aiolimiter import AsyncLimiter

    async def nothing() -> None:
        pass

    async def run() -> Cost:
        # A limiter belongs to the loop that it is first used in.
        acquire = AsyncLimiter(LIMIT, 1.0).acquire
        await acquire()
        began = time.thread_time_ns()
        for _ in repeat(None, calls):
            await nothing()
        ready = time.thread_time_ns()
        for _ in repeat(None, calls):
            await acquire()
        ended = time.thread_time_ns()
        return Cost(((ended - ready) - (ready - began)) / calls)

    with without_collector():
        return asyncio.run(run())


def drf(calls: int) -> Cost:
    from django.core.cache.backends.locmem import LocMemCache
    from rest_framework.throttling import SimpleRateThrottle

    number = count()

    class Throttle(SimpleRateThrottle):
        cache = LocMemCache("bench-quota", {})
        rate = f"{DRF_WINDOW * 2}/hour"

        def get_cache_key(self, request: Any, view: Any) -> str:
            return f"tenant{next(number) // DRF_WINDOW}"

    throttle = Throttle()
    # It looks neither at the request nor at the view.
    nothing: Any = None
    return _warm(partial(throttle.allow_request, nothing, nothing), calls)


def _warm(ask: Ask, calls: int) -> Cost:
    ask()
    return alone(ask, calls)


#: Peer -> (its module; what measures so many calls; how many times dearer than ours it is expected, to make fewer).
PEERS: Mapping[str, tuple[str, Callable[[int], Cost], int]] = {
    "limits": ("limits", limits, 10),
    "pyrate-limiter": ("pyrate_limiter", pyrate_limiter, 20),
    "throttled-py": ("throttled", throttled_py, 20),
    "aiolimiter": ("aiolimiter", aiolimiter, 2),
    "token-bucket": ("token_bucket", token_bucket, 2),
    "DRF SimpleRateThrottle": ("rest_framework", drf, 50),
}


def check(peer: str) -> None:
    """Raises :class:`ConfigurationError` where the peer's package is not installed."""
    if find_spec(PEERS[peer][0]) is None:
        raise ConfigurationError("not installed", remedy="Install requirements-dev.txt.", field="peer")
