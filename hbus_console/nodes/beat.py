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
from engine.core.error_text import words_of
from engine.core.utf8 import sayable
from hbus_console.nodes.clocks import measure
from hbus_console.nodes.stamps import FORGET_AFTER_MS, Stamp, key, read_stamps

#: How often a process stamps.
BEAT_S = 2.0

_log = structlog.get_logger(__name__)


class NodeBeat:
    """Stamps this process from a thread of its own, every :data:`BEAT_S` seconds, until stopped.

    ``turned_ms`` tells when the role's own loop last turned (epoch milliseconds); that, not the beat thread's life, is
    what gets stamped, so that a hung loop falls silent. Without it the time of the beat is stamped.
    ``detail`` is called for each stamp and must be quick and thread-safe; what it returns must be JSON-able.
    When that fails, the stamp goes without. With the store away it keeps trying and says so once.
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
        self._prefix = prefix
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
        self._speechless = False

    def start(self) -> NodeBeat:
        """Stamp once, drop what others left more than a day ago, and go on stamping."""
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
            _log.warning("node entry not removed", node=self._name, error=words_of(error))

    def beat(self) -> None:
        """Stamp once. Raises ``redis.RedisError``."""
        stamp = Stamp(
            role=self._role,
            pid=os.getpid(),
            host=socket.gethostname(),
            slot=self._slot,
            started_ms=self._started_ms,
            stamp_ms=self._turned_ms(),
            detail=self._told(),
            clock=measure(self._store, self._clock),
            beat_ms=self._clock.now_ms(),
        )
        self._store.hset(self._key, self._name, cast("str", msgspec.json.encode(stamp)))

    def _told(self) -> dict[str, Any]:
        """The detail, as JSON can say it. Without it the process is still alive."""
        try:
            told = cast("dict[str, Any]", sayable(msgspec.to_builtins(self._detail())))
            msgspec.json.encode(told)
        except Exception as error:  # noqa: BLE001 - whatever a role tells, it lives
            if not self._speechless:
                _log.exception("node stamp goes without detail", node=self._name, error=type(error).__name__)
            self._speechless = True
            return {}
        self._speechless = False
        return told

    def forget_gone(self) -> None:
        """Remove entries nobody has stamped for a day, and those that nobody can read: who lives stamps again.

        Raises ``redis.RedisError``.
        """
        oldest_ms = self._clock.now_ms() - FORGET_AFTER_MS
        for name, stamp in read_stamps(self._store, self._prefix):
            if stamp is None or stamp.stamp_ms < oldest_ms:
                self._store.hdel(self._key, cast("str", name))

    def _run(self) -> None:
        swept = False
        while True:
            try:
                self.beat()
                if not swept:
                    self.forget_gone()
                    swept = True
            except Exception as error:  # noqa: BLE001 - and logged
                # A thread that has died of anything would make a process that lives look dead.
                if not self._failing:
                    expected = isinstance(error, redis.RedisError)
                    words = words_of(error)
                    _log.warning("node stamp not written", node=self._name, error=words, exc_info=not expected)
                self._failing = True
            else:
                if self._failing:
                    _log.info("node stamp written again", node=self._name)
                self._failing = False
            if self._clock.wait(self._stop, BEAT_S):
                return
