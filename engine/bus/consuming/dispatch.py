"""From the store's hands to the workers': how much may be in this process, what is, and who may have what next."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

import msgspec

from engine.bus.context import Context
from engine.bus.message import Message
from engine.bus.transport import Attempt, Delivery

#: What keeps one order: a key in one partition. In another, where only foreign writers put it, somebody else may read
#: the same key, and it is parked by itself.
Lane = tuple[int, str]

#: Reading ahead covers this much work of all handler threads, in seconds.
HORIZON_S = 0.1
#: The most deliveries in hand and not yet handled.
MOST = 1_500
#: The most bytes of envelopes in hand and not yet handled, as far as their mean size tells.
MOST_BYTES = 64 * 1024 * 1024
#: How fast the mean follows: a tenth of each new duration.
WEIGHT = 0.1
#: While handlers take less than this, in seconds, they get as many as they can be given: how much less is all the same.
FAST_S = 1e-5


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
    #: Where order asks for it, and it has a key.
    lane: Lane | None = None
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
        #: Held while partitions change hands, from before the store is asked until what was leased under past epochs
        #: has been let go, and while what was read is added: the reader may have read under new epochs before that.
        self.moving = threading.Lock()
        #: How often partitions were lost. Written under ``moving``.
        self.losses = 0

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


class Prefetch:
    """Slow handlers get one delivery a thread, so that others may have the rest; no-op handlers get a full pipe."""

    def __init__(self, concurrency: int) -> None:
        #: Handler threads to feed; may change.
        self.concurrency = concurrency
        self._mean_s: float | None = None
        self._mean_bytes = 0.0
        #: What took less, in seconds, need not be observed.
        self.least_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Learn from one finished handler. Called from many threads; a lost update does no harm."""
        mean_s = self._mean_s
        self._mean_s = mean_s = duration_s if mean_s is None else mean_s + (duration_s - mean_s) * WEIGHT
        self.least_s = FAST_S if mean_s < FAST_S else 0.0

    def weigh(self, messages: int, size: int) -> None:
        """Learn from one read of ``messages`` with ``size`` bytes in all. Called from one thread."""
        # The heaviest read counts for a while: a burst of large messages must not meet a light mean.
        self._mean_bytes = max(size / messages, self._mean_bytes * (1 - WEIGHT))

    def fitting(self) -> int:
        """How many may be had in hand for a moment, whoever handles them."""
        return max(1, int(MOST_BYTES / self._mean_bytes)) if self._mean_bytes else self.concurrency

    def limit(self) -> int:
        """How many unhandled deliveries to hold at most; one a thread until something was learnt."""
        if self._mean_s is None:
            return self.concurrency
        ahead = self.concurrency * HORIZON_S / max(self._mean_s, FAST_S)
        room = int(MOST_BYTES / self._mean_bytes) if self._mean_bytes else MOST
        return max(self.concurrency, min(MOST, room, self.concurrency + int(ahead)))


class Dispatcher(Protocol):
    """Hands deliveries to workers. Thread-safe.

    Some calls return deliveries that must not be handled now: the caller gives them back to the store, which puts them
    in order again, by :meth:`Settler.set_aside <engine.bus.consuming.settler.Settler.set_aside>`.
    """

    def begin_read(self, wait_s: float) -> bool:
        """The reader is about to ask; ``False`` when it must not yet, after that many (real) seconds: what the read
        brought would have to go back."""
        ...

    def offer(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        """Add what was read, in order; returns what must go back."""
        ...

    def firsts(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        """Which of what was read, in that order, may be offered though the others are refused afterwards."""
        ...

    def refuse(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        """What was read goes back unseen; returns it."""
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

    def keep(self, held: InFlight, after_s: float) -> bool:
        """Keep what has not begun, and give it to a worker again; ``False`` when it cannot be kept."""
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

    def crowded(self) -> frozenset[int]:
        """The partitions of which too much waits for other deliveries: their share or more of what may wait, once
        so much waits in all."""
        ...


class FifoDispatcher:
    """First come, first served."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[InFlight | None] = SimpleQueue()
        self.take = self._queue.get

    def begin_read(self, wait_s: float) -> bool:
        return True

    def firsts(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        return batch

    def refuse(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        return batch

    def offer(self, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        put = self._queue.put
        for held in batch:
            put(held)
        return ()

    def done(self, held: InFlight) -> None:
        return

    def retry(self, held: InFlight, after_s: float) -> bool:
        return False

    def keep(self, held: InFlight, after_s: float) -> bool:
        return False

    def park(self, head: InFlight) -> Sequence[InFlight]:
        return ()

    def answered(self, *deliveries: InFlight) -> None:
        return

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        taken = drained(self._queue)
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

    def crowded(self) -> frozenset[int]:
        return frozenset()


def drained(queue: SimpleQueue[InFlight | None]) -> list[InFlight | None]:
    """Everything that is in it now, in order."""
    found = []
    while True:
        try:
            found.append(queue.get_nowait())
        except Empty:
            return found
