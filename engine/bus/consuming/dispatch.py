"""From the store's hands to the workers': what is in flight in this process, and who may have what next."""

from __future__ import annotations

import heapq
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from engine.bus.context import Context
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message, decode
from engine.bus.transport import Attempt, Delivery
from engine.core.clock import Clock

#: How many of one key may be handled and not yet confirmed by the store. Few, because when their consumer dies they run
#: again after one another's successors; not one, because the store is told of many at once.
LANE_AHEAD = 16


class InFlight(msgspec.Struct, eq=False, gc=False):
    """One delivery in flight. Written by one thread at a time; ``lost`` may be set by any."""

    delivery: Delivery
    #: Monotonic seconds, from before the request that leased or extended it was sent.
    leased_at: float
    attempt: int
    history: tuple[Attempt, ...]
    #: Set once the store said that the lease had passed to another.
    lost: bool = False
    key: str = ""
    #: On its way back to the store, where the order is made again: whatever comes of its key meanwhile goes back too.
    returning: bool = False
    #: The one message that an open breaker lets through to be tried.
    probe: bool = False
    message: Message | None = None
    context: Context | None = None
    #: When its handler returned well, and how long that took.
    at_ms: int = 0
    duration_us: int = 0

    def lose(self) -> None:
        """Note that it is not ours any more, and tell the handler that may be running."""
        self.lost = True
        if self.context is not None:
            self.context.lease_lost = True


class InFlightTable:
    """All of it, by position. ``take`` is called by one thread, ``drop`` of one delivery by one at a time."""

    def __init__(self) -> None:
        self._held: dict[str, InFlight] = {}
        #: Held from the sending of decisions until what the store has taken is dropped: it hands out again at once.
        self.settling = threading.Lock()

    def take(self, deliveries: Iterable[Delivery], leased_at: float) -> list[InFlight]:
        """Note ``deliveries`` and return those that are new.

        A delivery of what is held already (its lease had run out unnoticed) renews the lease instead: it must not run
        twice at once in this process. Waits while such a one is with the store, which may have had it back and handed
        it out again before this process knows.
        """
        fresh = []
        held_now = self._held
        for delivery in deliveries:
            position = delivery.position
            if position in held_now and self._renew(delivery, leased_at):
                continue
            held_now[position] = held = InFlight(delivery, leased_at, delivery.attempt, delivery.history)
            fresh.append(held)
        return fresh

    def _renew(self, delivery: Delivery, leased_at: float) -> bool:
        with self.settling:
            known = self._held.get(delivery.position)
            if known is None:
                return False
            known.delivery = delivery
            known.leased_at = leased_at
            known.lost = False
            if known.context is not None:
                known.context.lease_lost = False
            return True

    def drop(self, *deliveries: InFlight) -> None:
        """Forget these."""
        held_now = self._held
        for held in deliveries:
            position = held.delivery.position
            if held_now.get(position) is held:
                del held_now[position]

    def everything(self) -> Sequence[InFlight]:
        """A snapshot."""
        return list(self._held.copy().values())

    def __len__(self) -> int:
        return len(self._held)


class Dispatcher(Protocol):
    """Hands deliveries to workers. Thread-safe.

    Some calls return deliveries that must not be handled now: the caller gives them back to the store, which puts them
    in order again, by :meth:`Settler.set_aside <engine.bus.consuming.settler.Settler.set_aside>`.
    """

    def offer(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        """Add what was read, in order; returns what must go back."""
        ...

    def take(self) -> InFlight | None:
        """The next delivery to handle; blocks. ``None`` tells the worker to end."""
        ...

    def done(self, held: InFlight) -> None:
        """A worker has finished with ``held``, whatever came of it."""
        ...

    def retry(self, held: InFlight, after_s: float) -> bool:
        """Keep ``held`` for another attempt here; ``False`` when the store shall hand it out again."""
        ...

    def park(self, head: InFlight) -> Sequence[InFlight]:
        """A worker has ``head``, and gives it back with its key; returns what waited behind it and must go after it."""
        ...

    def answered(self, *deliveries: InFlight) -> None:
        """The store has taken, or refused, what was decided about these."""
        ...

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        """Take back what no worker has begun, of these partitions or of all."""
        ...

    def close(self, workers: int) -> None:
        """Let that many workers end once the rest is taken."""
        ...

    def dismiss(self, workers: int) -> None:
        """Let that many workers end when they come for more; the others go on."""
        ...

    def ready(self) -> int:
        """How many wait for a worker and could be taken now."""
        ...

    def blocked(self) -> int:
        """How many wait for another delivery, not for a worker."""
        ...


class FifoDispatcher:
    """First come, first served."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[InFlight | None] = SimpleQueue()
        self.take = self._queue.get

    def offer(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        put = self._queue.put
        for held in batch:
            put(held)
        return ()

    def done(self, held: InFlight) -> None:
        return

    def retry(self, held: InFlight, after_s: float) -> bool:
        return False

    def park(self, head: InFlight) -> Sequence[InFlight]:
        return ()

    def answered(self, *deliveries: InFlight) -> None:
        return

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        taken = _drained(self._queue)
        found = [held for held in taken if held is not None]
        # What tells a worker to end stays.
        self.dismiss(len(taken) - len(found))
        return found

    def close(self, workers: int) -> None:
        self.dismiss(workers)

    def dismiss(self, workers: int) -> None:
        for _ in range(workers):
            self._queue.put(None)

    def ready(self) -> int:
        return self._queue.qsize()

    def blocked(self) -> int:
        return 0


class KeyedDispatcher:
    """Keeps the order of each key: one lane a key, and one delivery of a lane at a time. What has no key has its own.

    A head that failed is tried again *here* after its backoff, while its lease is extended; the store counts each
    further attempt when it begins. With ``pass_on`` it goes back to the store instead, and the next of its key comes
    first.

    A lane is never more than :data:`LANE_AHEAD` ahead of the store: it stands until decisions are confirmed.

    The store alone puts messages back in order. So while one of a key is on its way there, and while the key is parked,
    whatever is read of it has to go back too, under the verdict ``PARK``.
    """

    def __init__(self, clock: Clock, *, is_parked: Callable[[str], bool], pass_on: bool = False) -> None:
        self._clock = clock
        self._is_parked = is_parked
        self._pass_on = pass_on
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[InFlight]] = {}
        #: How many of a key are on their way back.
        self._returning: Counter[str] = Counter()
        #: How many of a key were handled and are not confirmed.
        self._ahead: Counter[str] = Counter()
        #: Keys whose lanes wait for that.
        self._standing: set[str] = set()
        #: Called when one begins to.
        self.hurry: Callable[[], None] = lambda: None
        self._ready: SimpleQueue[InFlight | None] = SimpleQueue()
        self._later: list[tuple[float, int, InFlight]] = []
        self._tie = count()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self.take = self._ready.get

    def offer(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        by_key: dict[str, list[InFlight]] = defaultdict(list)
        for held in batch:
            held.key = key = _key_of(held)
            by_key[key].append(held)
        aside: list[InFlight] = []
        for held in by_key.pop("", ()):
            self._ready.put(held)
        with self._lock:
            for key, followers in by_key.items():
                if key in self._returning or self._is_parked(key):
                    for held in followers:
                        self._return(held)
                    aside += followers
                elif (lane := self._lanes.get(key)) is not None:
                    lane.extend(followers)
                else:
                    self._lanes[key] = lane = deque(followers)
                    self._go_on(key, lane)
        return aside

    def done(self, held: InFlight) -> None:
        if not held.key:
            return
        key, lanes = held.key, self._lanes
        with self._lock:
            lane = lanes[key]
            lane.popleft()
            self._count_ahead(key, 1)
            if lane:
                self._go_on(key, lane)
            else:
                del lanes[key]

    def retry(self, held: InFlight, after_s: float) -> bool:
        if self._pass_on:
            return False
        with self._lock:
            if self._closed.is_set():
                return False
            heapq.heappush(self._later, (self._clock.monotonic() + after_s, next(self._tie), held))
        self._changed.set()
        return True

    def park(self, head: InFlight) -> Sequence[InFlight]:
        with self._lock:
            followers = list(self._lanes.pop(head.key))[1:]
            for held in (head, *followers):
                self._return(held)
            return followers

    def answered(self, *deliveries: InFlight) -> None:
        with self._lock:
            for held in deliveries:
                key = held.key
                if held.returning:
                    held.returning = False
                    self._returning[key] -= 1
                    if not self._returning[key]:
                        del self._returning[key]
                elif key:
                    self._count_ahead(key, -1)
                    if key in self._standing:
                        self._standing.discard(key)
                        self._go_on(key, self._lanes[key])

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        """See :meth:`Dispatcher.withdraw`. What is taken back counts as on its way to the store."""
        with self._lock:
            idle = {id(held): held for _, _, held in self._later if _among(held, partitions)}
            self._later = [entry for entry in self._later if id(entry[2]) not in idle]
            heapq.heapify(self._later)
            for held in _drained(self._ready):
                if held is not None and _among(held, partitions):
                    idle[id(held)] = held
                else:
                    # What tells a worker to end stays, too.
                    self._ready.put(held)
            taken = [held for held in idle.values() if not held.key]
            for key, lane in list(self._lanes.items()):
                if not _among(lane[0], partitions):
                    continue
                begun = None if id(lane[0]) in idle or key in self._standing else lane.popleft()
                self._standing.discard(key)
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
            return len(self._later) + len(self._standing) + sum(len(lane) - 1 for lane in self._lanes.values())

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

    def _go_on(self, key: str, lane: deque[InFlight]) -> None:
        if self._ahead[key] < LANE_AHEAD:
            self._ready.put(lane[0])
        else:
            self._standing.add(key)
            self.hurry()

    def _count_ahead(self, key: str, more: int) -> None:
        # The store may answer before the worker has said that it is done.
        self._ahead[key] += more
        if not self._ahead[key]:
            del self._ahead[key]

    def _return(self, held: InFlight) -> None:
        if held.key and not held.returning:
            held.returning = True
            self._returning[held.key] += 1


def _drained(queue: SimpleQueue[InFlight | None]) -> list[InFlight | None]:
    """Everything that is in it now, in order."""
    found = []
    while True:
        try:
            found.append(queue.get_nowait())
        except Empty:
            return found


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
