"""The thread by which a role process says that it is alive."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any, cast

import msgspec
import redis
import structlog

from engine.core.clock import Clock, SystemClock
from hbus_console.nodes.clocks import measure
from hbus_console.nodes.stamps import FORGET_AFTER_MS, Stamp, key

#: How often a process stamps.
BEAT_S = 2.0

_log = structlog.get_logger(__name__)


class NodeBeat:
    """Stamps this process from a thread of its own, every :data:`BEAT_S` seconds, until stopped.

    ``turned_ms`` tells when the role's own loop last turned (epoch milliseconds); that, not the beat thread's life, is
    what gets stamped, so that a hung loop falls silent. Without it the time of the beat is stamped.
    ``detail`` is called for each stamp and must be quick and thread-safe; what it returns must be JSON-able.
    With the store away it keeps trying and says so once.
    """

    def __init__(
        self,
        store: redis.Redis,
        prefix: str,
        *,
        name: str,
        role: str,
        slot: str = "0",
        clock: Clock | None = None,
        detail: Callable[[], dict[str, Any]] = dict,
        turned_ms: Callable[[], int] | None = None,
    ) -> None:
        self._store = store
        self._key = key(prefix)
        self._name = name
        self._role = role
        self._slot = slot
        self._clock = clock or SystemClock()
        self._detail = detail
        self._turned_ms = turned_ms or self._clock.now_ms
        self._started_ms = self._clock.now_ms()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False

    def start(self) -> NodeBeat:
        """Drop what others left more than a day ago, stamp once, and go on stamping."""
        self._thread = threading.Thread(target=self._run, name="node-beat", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop stamping and take the entry away: this node left in good order."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._store.hdel(self._key, self._name)
        except redis.RedisError as error:
            _log.warning("node entry not removed", node=self._name, error=str(error))

    def beat(self) -> None:
        """Stamp once. Raises ``redis.RedisError``."""
        stamp = Stamp(
            role=self._role,
            pid=os.getpid(),
            host=socket.gethostname(),
            slot=self._slot,
            started_ms=self._started_ms,
            stamp_ms=self._turned_ms(),
            detail=self._detail(),
            clock=measure(self._store, self._clock),
        )
        self._store.hset(self._key, self._name, cast("str", msgspec.json.encode(stamp)))

    def forget_gone(self) -> None:
        """Remove entries nobody has stamped for a day. Raises ``redis.RedisError``."""
        oldest_ms = self._clock.now_ms() - FORGET_AFTER_MS
        for name, raw in cast("dict[bytes, bytes]", self._store.hgetall(self._key)).items():
            if msgspec.json.decode(raw, type=Stamp).stamp_ms < oldest_ms:
                self._store.hdel(self._key, cast("str", name))

    def _run(self) -> None:
        swept = False
        while True:
            try:
                if not swept:
                    self.forget_gone()
                    swept = True
                self.beat()
            except redis.RedisError as error:
                if not self._failing:
                    _log.warning("node stamp not written", node=self._name, error=str(error))
                self._failing = True
            else:
                if self._failing:
                    _log.info("node stamp written again", node=self._name)
                self._failing = False
            if self._clock.wait(self._stop, BEAT_S):
                return
