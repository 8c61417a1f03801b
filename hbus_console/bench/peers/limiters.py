"""Python's limiters as peers: each in its cheapest form, on its own memory, with a limit that refuses nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import count, repeat
from typing import Any, NamedTuple

from engine.core.errors import ConfigurationError
from hbus_console.bench.loops import Ask, CallCost, alone, without_collector

LIMIT = 10**9
#: DRF keeps every moment of the window, and reads and writes them all each time: it is measured with this many at most.
DRF_WINDOW = 100


def limits(calls: int) -> CallCost:
    # What is measured beside may be missing, and then its row says so.
    from limits import RateLimitItemPerHour
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), RateLimitItemPerHour(LIMIT)
    return _warm(partial(limiter.hit, item, "tenant"), calls)


def pyrate_limiter(calls: int) -> CallCost:
    # As above.
    from pyrate_limiter import Duration, InMemoryBucket, Limiter, Rate

    limiter = Limiter(InMemoryBucket([Rate(LIMIT, Duration.HOUR)]))
    try:
        return _warm(partial(limiter.try_acquire, "tenant", blocking=False), calls)
    finally:
        limiter.close()


def throttled_py(calls: int) -> CallCost:
    # As above.
    from throttled import Throttled, per_hour
    from throttled.constants import RateLimiterType

    throttle = Throttled(key="tenant", using=RateLimiterType.FIXED_WINDOW.value, quota=per_hour(LIMIT))
    return _warm(throttle.limit, calls)


def token_bucket(calls: int) -> CallCost:
    # As above.
    from token_bucket import Limiter, MemoryStorage

    limiter = Limiter(LIMIT, LIMIT, MemoryStorage())
    return _warm(partial(limiter.consume, "tenant"), calls)


def aiolimiter(calls: int) -> CallCost:
    # As above.
    from aiolimiter import AsyncLimiter

    async def nothing() -> None:
        pass

    async def run() -> CallCost:
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
        return CallCost(((ended - ready) - (ready - began)) / calls)

    with without_collector():
        return asyncio.run(run())


def drf(calls: int) -> CallCost:
    # As above.
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


def _warm(ask: Ask, calls: int) -> CallCost:
    ask()
    return alone(ask, calls)


class Peer(NamedTuple):
    module: str
    #: Makes so many calls.
    measure: Callable[[int], CallCost]
    #: In which form it is measured.
    form: str
    #: How many times dearer than ours, about: so many times fewer calls take as long.
    dearer: int


#: By their names on PyPI, but for the last.
PEERS: Mapping[str, Peer] = {
    "limits": Peer("limits", limits, "fixed window", 10),
    "pyrate-limiter": Peer("pyrate_limiter", pyrate_limiter, "InMemoryBucket", 20),
    "throttled-py": Peer("throttled", throttled_py, "fixed window", 20),
    "aiolimiter": Peer("aiolimiter", aiolimiter, "acquire() in one loop, without the await", 2),
    "token-bucket": Peer("token_bucket", token_bucket, "without a lock", 2),
    "DRF SimpleRateThrottle": Peer("rest_framework", drf, f"without a lock, {DRF_WINDOW} in its window at most", 50),
}


def check(peer: str) -> None:
    """Raises :class:`ConfigurationError` where the peer's package is not installed."""
    if find_spec(PEERS[peer].module) is None:
        raise ConfigurationError("not installed", remedy="Install requirements-dev.txt.", field="peer")
