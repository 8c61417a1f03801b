"""Order per key: one lane a key, one delivery of a lane at a time, and a failed head blocks its lane."""

from __future__ import annotations

import heapq
import re
import threading
from collections import deque
from collections.abc import Sequence
from itertools import count
from queue import Empty, SimpleQueue

from engine.bus.consuming.held import Held
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import decode
from engine.bus.transport import Delivery
from engine.core.clock import Clock

_NUMBERS = re.compile(r"\d+")


def in_order(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Sorted by position. Positions of an ordered transport grow when read as numbers."""
    return sorted(deliveries, key=lambda delivery: [int(part) for part in _NUMBERS.findall(delivery.position)])


class KeyLanes:
    """A feed that keeps the order of each key. A delivery without a key has a lane of its own.

    A head that failed is tried again *here* after its backoff, while its lease is extended; the store's attempt count
    does not move, so a crash in the middle starts its count again from what the store knows.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[Held]] = {}
        self._ready: SimpleQueue[Held | None] = SimpleQueue()
        self._later: list[tuple[float, int, Held]] = []
        self._tie = count()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self.take = self._ready.get

    def offer(self, batch: Sequence[Held]) -> None:
        for held in batch:
            held.key = _key_of(held)
        with self._lock:
            for held in batch:
                lane = self._lanes.get(held.key) if held.key else None
                if lane is not None:
                    lane.append(held)
                    continue
                if held.key:
                    self._lanes[held.key] = deque((held,))
                self._ready.put(held)

    def done(self, held: Held) -> None:
        if not held.key:
            return
        with self._lock:
            lane = self._lanes[held.key]
            lane.popleft()
            if lane:
                self._ready.put(lane[0])
            else:
                del self._lanes[held.key]

    def retry(self, held: Held, after_s: float) -> bool:
        with self._lock:
            if self._closed.is_set():
                return False
            heapq.heappush(self._later, (self._clock.monotonic() + after_s, next(self._tie), held))
        self._changed.set()
        return True

    def withdraw(self) -> list[Held]:
        with self._lock:
            idle = {id(held): held for _, _, held in self._later}
            self._later.clear()
            while True:
                try:
                    held = self._ready.get_nowait()
                except Empty:
                    break
                if held is not None:
                    idle[id(held)] = held
            taken = [held for held in idle.values() if not held.key]
            for key, lane in list(self._lanes.items()):
                begun = None if id(lane[0]) in idle else lane.popleft()
                taken.extend(lane)
                if begun is None:
                    del self._lanes[key]
                else:
                    self._lanes[key] = deque((begun,))
            return taken

    def close(self, workers: int) -> None:
        with self._lock:
            self._closed.set()
        self._changed.set()
        for _ in range(workers):
            self._ready.put(None)

    def ready(self) -> int:
        return self._ready.qsize()

    def blocked(self) -> int:
        with self._lock:
            return len(self._later) + sum(len(lane) - 1 for lane in self._lanes.values())

    def run_timer(self) -> None:
        """Give heads back to the workers when their backoff is over; ends after :meth:`close`."""
        while not self._closed.is_set():
            self._changed.clear()
            with self._lock:
                now = self._clock.monotonic()
                while self._later and self._later[0][0] <= now:
                    self._ready.put(heapq.heappop(self._later)[2])
                pause_s = self._later[0][0] - now if self._later else 60.0
            self._clock.wait(self._changed, pause_s)


def _key_of(held: Held) -> str:
    if held.message is None:
        try:
            held.message = decode(held.delivery.body)
        except MalformedEnvelope:
            # It dies in the worker, with its cause; without a key it holds nobody up.
            return ""
    return held.message.partitionkey
