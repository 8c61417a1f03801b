"""One key at a time: the dispatcher of subscriptions that are ordered by key."""

from __future__ import annotations

import heapq
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from queue import SimpleQueue

from engine.bus.consuming.dispatch import InFlight, Lane, drained
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import decode
from engine.core.clock import Clock

#: How many of one lane may be handled and not yet confirmed by the store. Few, because when their consumer dies they
#: run again after one another's successors; not one, because the store is told of many at once.
LANE_AHEAD = 16
#: How many deliveries may wait for an earlier one of their key, or for their next attempt, and how many bytes of
#: envelopes, before partitions are left out of what is read.
BLOCKED_MOST, BLOCKED_BYTES = 2_000, 64 * 1024 * 1024


class KeyedDispatcher:
    """Keeps the order of each key in its partition: one lane for it, and one delivery of a lane at a time. What has no
    key has none, nor has a copy for another subscription than the ``group``.

    A head that failed is tried again *here* after its backoff, while its lease is extended; the store counts each
    further attempt when it begins. With ``pass_on`` it goes back to the store instead, and the next of its key comes
    first. So does what has no key: nothing waits behind it.

    A lane is never more than :data:`LANE_AHEAD` ahead of the store: it stands until decisions are confirmed.

    The store alone puts messages back in order. So what a read brings of a lane of which something was on its way there
    at any moment since the read began goes back too, under the verdict ``PARK``: the store may have answered the read
    before it had that back, and the reader before this process. So does what is read of a parked key.
    """

    def __init__(
        self, clock: Clock, *, group: str, is_parked: Callable[[int, str], bool], pass_on: bool = False
    ) -> None:
        self._clock = clock
        self._group = group
        self._is_parked = is_parked
        self._pass_on = pass_on
        self._lock = threading.Lock()
        self._lanes: dict[Lane, deque[InFlight]] = {}
        #: The size of all envelopes in them.
        self._bytes = 0
        #: How many of a lane are on their way back.
        self._returning: Counter[Lane] = Counter()
        #: Lanes of which something was, at some moment since the last read began.
        self._unsure: set[Lane] = set()
        #: Told when all of a lane is back.
        self._is_back = threading.Condition(self._lock)
        #: How many of a lane were handled and are not confirmed.
        self._ahead: Counter[Lane] = Counter()
        #: Those that wait for that.
        self._standing: set[Lane] = set()
        #: Called when one begins to, and when the reader waits.
        self.hurry: Callable[[], None] = lambda: None
        self._ready: SimpleQueue[InFlight | None] = SimpleQueue()
        self._later: list[tuple[float, int, InFlight]] = []
        self._tie = count()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self.take = self._ready.get

    def begin_read(self, wait_s: float) -> bool:
        with self._lock:
            if self._returning and not self._all_back():
                self.hurry()
                if not self._is_back.wait_for(self._all_back, wait_s):
                    return False
            self._unsure = set(self._returning)
        return True

    def offer(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        by_lane: dict[Lane, list[InFlight]] = defaultdict(list)
        for held in batch:
            held.key = key = self._key_of(held)
            if key:
                held.lane = lane = (held.delivery.partition, key)
                by_lane[lane].append(held)
            else:
                self._ready.put(held)
        aside: list[InFlight] = []
        with self._lock:
            for lane, followers in by_lane.items():
                if lane in self._unsure or self._is_parked(*lane):
                    for held in followers:
                        self._return(held)
                    aside += followers
                    continue
                self._bytes += _size(followers)
                if (waiting := self._lanes.get(lane)) is not None:
                    waiting.extend(followers)
                else:
                    self._lanes[lane] = waiting = deque(followers)
                    self._go_on(lane, waiting)
        return aside

    def firsts(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        seen: set[Lane | int] = set()
        found = []
        for held in batch:
            key = self._key_of(held)
            lane = (held.delivery.partition, key) if key else id(held)
            if lane not in seen:
                seen.add(lane)
                found.append(held)
        return found

    def refuse(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        for held in batch:
            if key := self._key_of(held):
                held.key, held.lane = key, (held.delivery.partition, key)
        with self._lock:
            for held in batch:
                self._return(held)
        return batch

    def done(self, held: InFlight) -> None:
        lane, lanes = held.lane, self._lanes
        if lane is None:
            return
        with self._lock:
            waiting = lanes[lane]
            self._bytes -= len(waiting.popleft().delivery.body)
            self._count_ahead(lane, 1)
            if waiting:
                self._go_on(lane, waiting)
            else:
                del lanes[lane]

    def retry(self, held: InFlight, after_s: float) -> bool:
        return not self._pass_on and held.lane is not None and self.keep(held, after_s)

    def keep(self, held: InFlight, after_s: float) -> bool:
        with self._lock:
            if self._closed.is_set():
                return False
            heapq.heappush(self._later, (self._clock.monotonic() + after_s, next(self._tie), held))
        self._changed.set()
        return True

    def park(self, head: InFlight) -> Sequence[InFlight]:
        assert head.lane is not None
        with self._lock:
            waiting = self._lanes.pop(head.lane)
            self._bytes -= _size(waiting)
            followers = list(waiting)[1:]
            for held in (head, *followers):
                self._return(held)
            return followers

    def answered(self, *deliveries: InFlight) -> None:
        with self._lock:
            for held in deliveries:
                lane = held.lane
                if lane is None:
                    continue
                if held.returning:
                    held.returning = False
                    self._returning[lane] -= 1
                    if not self._returning[lane]:
                        del self._returning[lane]
                        self._is_back.notify_all()
                else:
                    self._count_ahead(lane, -1)
                    if lane in self._standing:
                        self._standing.discard(lane)
                        self._go_on(lane, self._lanes[lane])

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        """See :meth:`Dispatcher.withdraw`. What is taken back counts as on its way to the store."""
        with self._lock:
            idle = {id(held): held for _, _, held in self._later if _among(held, partitions)}
            self._later = [entry for entry in self._later if id(entry[2]) not in idle]
            heapq.heapify(self._later)
            for held in drained(self._ready):
                if held is not None and _among(held, partitions):
                    idle[id(held)] = held
                else:
                    # What tells a worker to end stays, too.
                    self._ready.put(held)
            taken = [held for held in idle.values() if held.lane is None]
            for lane, waiting in list(self._lanes.items()):
                if not _among(waiting[0], partitions):
                    continue
                begun = None if id(waiting[0]) in idle or lane in self._standing else waiting.popleft()
                self._standing.discard(lane)
                self._bytes -= _size(waiting)
                taken.extend(waiting)
                if begun is None:
                    del self._lanes[lane]
                else:
                    self._lanes[lane] = deque((begun,))
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
            return self._blocked()

    def crowded(self) -> frozenset[int]:
        with self._lock:
            if self._blocked() < BLOCKED_MOST and self._bytes < BLOCKED_BYTES:
                return frozenset()
            waiting: Counter[int] = Counter()
            weight: Counter[int] = Counter()
            for (partition, _), behind in self._lanes.items():
                waiting[partition] += len(behind) - 1
                weight[partition] += _size(behind) - len(behind[0].delivery.body)
            for lane in self._standing:
                weight[lane[0]] += len(self._lanes[lane][0].delivery.body)
            for _, _, held in self._later:
                waiting[held.delivery.partition] += 1
                weight[held.delivery.partition] += len(held.delivery.body)
            return frozenset(
                partition
                for partition in waiting
                if waiting[partition] >= BLOCKED_MOST // len(waiting)
                or weight[partition] >= BLOCKED_BYTES // len(waiting)
            )

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

    def _blocked(self) -> int:
        return len(self._later) + len(self._standing) + sum(len(lane) - 1 for lane in self._lanes.values())

    def _go_on(self, lane: Lane, waiting: deque[InFlight]) -> None:
        if self._ahead[lane] < LANE_AHEAD:
            self._ready.put(waiting[0])
        else:
            self._standing.add(lane)
            self.hurry()

    def _count_ahead(self, lane: Lane, more: int) -> None:
        # The store may answer before the worker has said that it is done.
        self._ahead[lane] += more
        if not self._ahead[lane]:
            del self._ahead[lane]

    def _return(self, held: InFlight) -> None:
        if held.lane is not None and not held.returning:
            held.returning = True
            self._returning[held.lane] += 1
            self._unsure.add(held.lane)

    def _key_of(self, held: InFlight) -> str:
        if held.message is None:
            try:
                held.message = decode(held.delivery.body)
            except MalformedEnvelope:
                # It dies in the worker, with its cause; without a key it holds nobody up.
                return ""
        if held.message.hbustarget not in ("", self._group):
            # It is settled unhandled, and is neither to wait behind those of its key nor to be set aside with them.
            return ""
        return held.message.partitionkey

    def _all_back(self) -> bool:
        # What comes of a parked key goes back whenever it comes: nobody need wait for it.
        return all(self._is_parked(*lane) for lane in self._returning)


def _size(deliveries: Iterable[InFlight]) -> int:
    return sum([len(held.delivery.body) for held in deliveries])


def _among(held: InFlight, partitions: Collection[int] | None) -> bool:
    return partitions is None or held.delivery.partition in partitions
