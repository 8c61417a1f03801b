"""Whether the store answers, said once when it stops and once when it is back; and how long to wait between tries."""

from __future__ import annotations

import logging
import random
import threading

from engine.core.clock import Clock
from engine.core.facts import Emitter, Fact

#: Seconds before the first repetition, and at most between two.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_log = logging.getLogger(__name__)


class Backoff:
    """Growing pauses with jitter. Used by one thread."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._tries = 0

    def next_s(self) -> float:
        """The next pause in seconds."""
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**self._tries)
        self._tries = min(self._tries + 1, 16)
        return pause_s * (0.5 + self._rng.random() / 2)

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._tries = 0


class StoreHealth:
    """Shared by all threads of a consumer. Thread-safe."""

    def __init__(self, *, topic: str, group: str, node: str, facts: Emitter, clock: Clock) -> None:
        self._topic = topic
        self._group = group
        self._node = node
        self._facts = facts
        self._clock = clock
        self._lock = threading.Lock()
        self.lost = False
        #: The last trouble of any kind, for the status; kept until the next.
        self.last_error = ""
        self.last_error_ms = 0
        #: When the store was back after it was lost.
        self.recovered_ms = 0

    def trouble(self, error: BaseException | str) -> None:
        """Remember what went wrong."""
        self.last_error_ms = self._clock.now_ms()
        self.last_error = error if isinstance(error, str) else f"{type(error).__name__}: {error}"

    def away(self, error: Exception) -> None:
        """The store did not answer."""
        self.trouble(error)
        with self._lock:
            if self.lost:
                return
            self.lost = True
        _log.error("consumer %s of %s/%s lost its store: %s", self._node, self._topic, self._group, error)
        self._say("store_lost", str(error))

    def answered(self) -> None:
        """The store answered. Costs nothing while all is well."""
        if not self.lost:
            return
        with self._lock:
            if not self.lost:
                return
            self.lost = False
        self.recovered_ms = self._clock.now_ms()
        _log.warning("consumer %s of %s/%s has its store back", self._node, self._topic, self._group)
        self._say("store_back", "")

    def _say(self, kind: str, error: str) -> None:
        self._facts.emit(
            [
                Fact(
                    kind,
                    self._clock.now_ms(),
                    topic=self._topic,
                    subscription=self._group,
                    node=self._node,
                    error=error[:500],
                )
            ]
        )
