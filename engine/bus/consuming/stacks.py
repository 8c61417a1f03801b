"""Stack traces on their way into the evidence: a failure that repeats carries its own once a minute."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

from engine.core.clock import Clock

#: Seconds after which one is told again: a fact may be lost on its way, and the evidence forgets with time.
AGAIN_S = 60.0
#: The most that are told within that time; failures beyond them have none.
MOST = 256


class StacksTold:
    """What one consumer has told of lately. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since = clock.monotonic()
        self._told = set[str]()

    def of(self, stacks: Sequence[str]) -> tuple[list[str], list[str]]:
        """For each of ``stacks`` its id, and its text where that was not told lately; empty where it has none."""
        ids, texts = list[str](), list[str]()
        with self._lock:
            now = self._clock.monotonic()
            if now - self._since >= AGAIN_S:
                self._since, self._told = now, set()
            for stack in stacks:
                mark = _id_of(stack) if stack else ""
                known = mark in self._told
                if mark and not known and len(self._told) >= MOST:
                    mark = ""
                ids.append(mark)
                texts.append(stack if mark and not known else "")
                if mark:
                    self._told.add(mark)
        return ids, texts


def _id_of(stack: str) -> str:
    return hashlib.blake2b(stack.encode("utf-8", "replace"), digest_size=8).hexdigest()
