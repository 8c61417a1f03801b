"""Seats in Redis: under the prefix ``{quota}:seats:RULE/OWNER``, a sorted set of who sits by when that ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import redis

from engine.core.scripts import Arg, ScriptFolder
from engine.core.store.answered import answered
from engine.quota.seats import SEAT_S, SeatLink

_LUA = files("engine.quota") / "lua"


class RedisSeatPlane:
    """A :class:`~engine.quota.seats.SeatPlane` on the store's own clock; ``now`` takes its place in tests."""

    def __init__(self, client: redis.Redis, prefix: str, *, now: Callable[[], float] | None = None) -> None:
        self._client = client
        self._prefix = f"{prefix}:{{quota}}:seats:"
        self._scripts = ScriptFolder(client, _LUA)
        self._now = now

    def take(self, bucket: str, seat: str, limit: int) -> bool:
        arguments: list[Arg] = [seat, limit, repr(SEAT_S), self._time()]
        return bool(self._scripts.call("take_seat", [self._prefix + bucket], arguments))

    def keep(self, seats: Mapping[str, Sequence[str]]) -> None:
        calls = [([self._prefix + bucket], [repr(SEAT_S), self._time(), *held]) for bucket, held in seats.items()]
        self._scripts.call_each("keep_seats", calls)

    def leave(self, bucket: str, seat: str) -> None:
        with answered():
            self._client.zrem(self._prefix + bucket, seat)

    def seen(self, link: SeatLink) -> Counter[str]:
        """How many seats each node holds now. Raises :class:`~engine.core.errors.Unavailable`."""
        with answered():
            seconds, micros = self._client.time()
            now = seconds + micros / 1e6 if self._now is None else self._now()
            seats: Any = self._client.zrangebyscore(self._prefix + link.bucket, f"({now:.6f}", "+inf")
        return Counter(seat.decode().rsplit(" ", 2)[0] for seat in seats)

    def _time(self) -> str:
        return "" if self._now is None else repr(self._now())
