"""A control plane in this process's memory: for one process alone, and for trying things."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from engine.core.clock import Clock, SystemClock
from engine.quota.allocator import Allocator
from engine.quota.plane import KeptBook
from engine.quota.protocol import Alloc, KeptRule, Want


class MemoryControlPlane:
    """A :class:`~engine.quota.plane.ControlPlane` that ends with its process."""

    def __init__(self, clock: Clock | None = None, now: Callable[[], float] | None = None) -> None:
        moments = clock or SystemClock()
        self._now = now or (lambda: moments.now_ms() / 1000)
        self._lock = threading.Lock()
        self._allocator = Allocator(self._now())
        self._book: KeptBook | None = None

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        with self._lock:
            return [self._allocator.want(want, self._now()) for want in wants]

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        with self._lock:
            kept = self._allocator.keep_rules(book.version, rules)
            if kept:
                self._book = book
            return kept

    def version(self) -> int:
        with self._lock:
            return self._allocator.version

    def book(self) -> KeptBook | None:
        with self._lock:
            return self._book
