"""Order per key: one lane a key, one delivery of a lane at a time, and what a failed head does to its lane."""

from __future__ import annotations

import heapq
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from itertools import count
from queue import Empty, SimpleQueue

from engine.bus.consuming.in_flight import InFlight
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import decode
from engine.core.clock import Clock


class KeyedDispatcher:
    """A feed that keeps the order of each key. A delivery without a key has a lane of its own.

    A head that failed is tried again *here* after its backoff, while its lease is extended; the store's attempt count
    does not move, so a crash in the middle starts its count again from what the store knows. With ``pass_on`` it goes
    back to the store instead, and the next of its key comes first.

    The store alone puts messages back in order. So while one of a key is on its way there, and while the key is parked,
    whatever is read of it is given to ``set_aside``, which returns it to the store under the verdict ``PARK``.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        set_aside: Callable[[Sequence[InFlight]], None],
        is_parked: Callable[[str], bool],
        pass_on: bool = False,
    ) -> None:
        self._clock = clock
        self._set_aside = set_aside
        self._is_parked = is_parked
        self._pass_on = pass_on
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[InFlight]] = {}
        #: How many of a key are on their way back.
        self._returning: Counter[str] = Counter()
        self._ready: SimpleQueue[InFlight | None] = SimpleQueue()
        self._later: list[tuple[float, int, InFlight]] = []
        self._tie = count()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self.take = self._ready.get

    def offer(self, batch: Sequence[InFlight]) -> None:
        for held in batch:
            held.key = _key_of(held)
        aside: list[InFlight] = []
        with self._lock:
            for held in batch:
                key = held.key
                if not key:
                    self._ready.put(held)
                elif key in self._returning or self._is_parked(key):
                    self._return(held)
                    aside.append(held)
                elif (lane := self._lanes.get(key)) is not None:
                    lane.append(held)
                else:
                    self._lanes[key] = deque((held,))
                    self._ready.put(held)
        if aside:
            self._set_aside(aside)

    def done(self, held: InFlight) -> None:
        if not held.key:
            return
        with self._lock:
            lane = self._lanes[held.key]
            lane.popleft()
            if lane:
                self._ready.put(lane[0])
            else:
                del self._lanes[held.key]

    def retry(self, held: InFlight, after_s: float) -> bool:
        if self._pass_on:
            return False
        with self._lock:
            if self._closed.is_set():
                return False
            heapq.heappush(self._later, (self._clock.monotonic() + after_s, next(self._tie), held))
        self._changed.set()
        return True

    def park(self, head: InFlight) -> list[InFlight]:
        """End the lane of a head that a worker has; what waited behind it, which has to be set aside after it."""
        with self._lock:
            followers = list(self._lanes.pop(head.key))[1:]
            for held in (head, *followers):
                self._return(held)
            return followers

    def let_go(self, head: InFlight) -> None:
        """End the lane of a head that is not settled here: it comes again, and nothing of its key may overtake it."""
        if head.key:
            followers = self.park(head)
            self.answered(head)
            self.put_aside(followers)

    def put_aside(self, followers: Sequence[InFlight]) -> None:
        """Send back what :meth:`park` has returned."""
        if followers:
            self._set_aside(followers)

    def answered(self, held: InFlight) -> None:
        """The store has taken back (or refused) what was on its way to it."""
        if not held.returning:
            return
        with self._lock:
            held.returning = False
            self._returning[held.key] -= 1
            if not self._returning[held.key]:
                del self._returning[held.key]

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        """Take back what no worker has begun, of these partitions or of all. It counts as on its way to the store."""
        with self._lock:
            idle = {id(held): held for _, _, held in self._later if _among(held, partitions)}
            self._later = [entry for entry in self._later if id(entry[2]) not in idle]
            heapq.heapify(self._later)
            # What tells a worker to end stays, too.
            staying: list[InFlight | None] = []
            while True:
                try:
                    held = self._ready.get_nowait()
                except Empty:
                    break
                if held is not None and _among(held, partitions):
                    idle[id(held)] = held
                else:
                    staying.append(held)
            for held in staying:
                self._ready.put(held)
            taken = [held for held in idle.values() if not held.key]
            for key, lane in list(self._lanes.items()):
                if not _among(lane[0], partitions):
                    continue
                begun = None if id(lane[0]) in idle else lane.popleft()
                taken.extend(lane)
                if begun is None:
                    del self._lanes[key]
                else:
                    self._lanes[key] = deque((begun,))
            for held in taken:
                self._return(held)
            return taken

    def close(self, workers: int) -> None:
        with self._lock:
            self._closed.set()
        self._changed.set()
        self.dismiss(workers)

    def dismiss(self, workers: int) -> None:
        for _ in range(workers):
            self._ready.put(None)

    def ready(self) -> int:
        return self._ready.qsize()

    def blocked(self) -> int:
        with self._lock:
            return len(self._later) + sum(len(lane) - 1 for lane in self._lanes.values())

    def _return(self, held: InFlight) -> None:
        if held.key and not held.returning:
            held.returning = True
            self._returning[held.key] += 1

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


def _among(held: InFlight, partitions: Collection[int] | None) -> bool:
    return partitions is None or held.delivery.partition in partitions


def _key_of(held: InFlight) -> str:
    if held.message is None:
        try:
            held.message = decode(held.delivery.body)
        except MalformedEnvelope:
            # It dies in the worker, with its cause; without a key it holds nobody up.
            return ""
    return held.message.partitionkey
