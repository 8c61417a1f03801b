"""What the kit may do to the stores of our own transports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import redis

from engine.bus.conformance.delays import MakeDelays
from engine.bus.conformance.lost_answers import Lose
from engine.bus.delays import RedisDelays
from tests.engine.bus.transports.proxy import Proxy


class Restartable(Protocol):
    def start(self) -> object: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


def restarting(store: Restartable, *, gently: bool = False) -> Callable[[], None]:
    """Kill it, or end it gently, and start it on what it kept."""

    def restart() -> None:
        if gently:
            store.stop()
        else:
            store.kill()
        store.start()

    return restart


def cutting(proxy: Proxy) -> Callable[[], AbstractContextManager[None]]:
    """Everything that asks meanwhile reaches the store, and the way back is cut."""

    @contextmanager
    def cut() -> Iterator[None]:
        proxy.mode = "cut"
        try:
            yield
        finally:
            proxy.mode = "pass"

    return cut


def losing(proxy: Proxy) -> Lose:
    """Everything that asks meanwhile reaches the store, and one of its replies is lost on the way back."""

    @contextmanager
    def lose(number: int) -> Iterator[Callable[[], bool]]:
        proxy.lose_in = number
        try:
            yield lambda: proxy.lose_in is None
        finally:
            proxy.lose_in = None

    return lose


def delays_on(redis_url: str, prefix: str) -> MakeDelays:
    """Delayed messages in the tests' Valkey."""
    return lambda clock: RedisDelays(redis.Redis.from_url(redis_url), prefix, clock=clock)
