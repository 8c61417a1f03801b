"""Leases: ownership for a while, with an epoch that grows with each new owner."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import Protocol

import redis

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Unavailable
from engine.core.scripts import ScriptFolder
from engine.core.store.answered import answered

_LUA = files("engine.core") / "lua"


class Ownership(Protocol):
    """What an owner needs of a lease. All methods are thread-safe and raise ``Unavailable``."""

    @property
    def ttl_s(self) -> float:
        """How long it lasts without renewal."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the last acquisition; 0 before the first. Writes made under the lease carry it."""
        ...

    @property
    def held(self) -> bool:
        """Whether it is certainly still ours, judged by our own clock without asking anybody."""
        ...

    @property
    def clean(self) -> bool:
        """Whether the owner before us released it (or there was none), rather than letting it run out."""
        ...

    def acquire(self) -> int:
        """Try to take it: the new epoch, or 0 while another holds it. The current epoch when it is ours already."""
        ...

    def renew(self) -> bool:
        """Renew to the full length; ``False`` when it was lost, and then it is not held any more."""
        ...

    def release(self) -> None:
        """Give it up at once, so that another need not wait."""
        ...


#: Makes the lease of a name; whoever hosts engine parts supplies one.
LeaseSource = Callable[[str], Ownership]


class Lease:
    """An :class:`Ownership` in Redis.

    Validity is counted on the monotonic clock from *before* a request is sent, so that we never believe longer than
    the store does. Two leases of the same owner name exclude each other: each object adds a token of its own.
    """

    def __init__(
        self, client: redis.Redis, prefix: str, name: str, *, owner: str, ttl_s: float, clock: Clock | None = None
    ) -> None:
        if not 0.001 <= ttl_s <= 86_400:
            raise BadInput("A lease lasts from 1 ms to a day.", remedy="30 seconds is usual.", field="ttl_s")
        self._clock = clock or SystemClock()
        self._client = client
        self._scripts = ScriptFolder(client, _LUA)
        self._holder_key = f"{prefix}:{{lease:{name}}}:holder"
        self._epoch_key = f"{prefix}:{{lease:{name}}}:epoch"
        self._released_key = f"{prefix}:{{lease:{name}}}:released"
        self._owner = f"{owner}#{secrets.token_hex(4)}"
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._epoch = 0
        self._clean = False
        self._valid_until = float("-inf")

    @property
    def ttl_s(self) -> float:
        return self._ttl_s

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def held(self) -> bool:
        return self._clock.monotonic() < self._valid_until

    @property
    def clean(self) -> bool:
        return self._clean

    def acquire(self) -> int:
        with self._lock:
            if self.held:
                return self._epoch
            sent = self._clock.monotonic()
            epoch, clean = self._scripts.call(
                "acquire",
                [self._holder_key, self._epoch_key, self._released_key],
                [self._owner, round(self._ttl_s * 1000)],
            )
            if epoch:
                self._epoch = epoch
                self._clean = bool(clean)
                self._valid_until = sent + self._ttl_s
            return int(epoch)

    def renew(self) -> bool:
        with self._lock:
            if not self.held:
                return False
            sent = self._clock.monotonic()
            renewed = self._scripts.call(
                "renew", [self._holder_key], [self._owner, self._epoch, round(self._ttl_s * 1000)]
            )
            self._valid_until = sent + self._ttl_s if renewed else float("-inf")
            return bool(renewed)

    def release(self) -> None:
        with self._lock:
            if self._epoch:
                self._valid_until = float("-inf")
                self._scripts.call("release", [self._holder_key, self._released_key], [self._owner, self._epoch])

    def holder(self) -> str:
        """Who holds it now, for an operator to read; empty when nobody does."""
        try:
            with answered():
                value = self._client.get(self._holder_key)
        except Unavailable:
            return ""
        text = value.decode() if isinstance(value, bytes) else str(value or "")
        return text.partition("#")[0]
