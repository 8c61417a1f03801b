"""A group in memory: its place in the log, its leases, its retries and its dead letters."""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

from engine.bus.transport import Attempt, DeadEntry, Delivery, Lag, Settlement, Verdict
from engine.bus.transports.memory.log import PRIORITIES, Cursors, Entry, TopicLog, number_of, position_of

#: Names every handing-out in this process, so that an old receipt never fits a new lease.
_tokens = count(1)


class State(Enum):
    LEASED = auto()
    RETRYING = auto()
    RELEASED = auto()


class Held(msgspec.Struct):
    """One message that was handed out and is not settled."""

    entry: Entry
    state: State = State.RELEASED
    #: When it may be handed out again; 0 for released ones, which therefore come first.
    due_ms: int = 0
    token: int = 0
    consumer: str = ""
    handed_ms: int = 0
    failed: int = 0
    history: tuple[Attempt, ...] = ()


class Group:
    """Not thread-safe: the transport's lock guards it."""

    def __init__(self, log: TopicLog, start: str) -> None:
        self.paused = False
        self.counts: Counter[str] = Counter()
        self.dead: dict[str, DeadEntry] = {}
        self._log = log
        self._letters = count(1)
        self.move(start)

    def move(self, position: str) -> None:
        """Make exactly what lies after ``position`` unsettled."""
        cursors = self._log.cursors(position)
        self._cursors = list(cursors)
        self._held: dict[int, Held] = {}
        #: (due, number, token); a row whose token is no longer the message's is stale.
        self._queue: list[tuple[int, int, int]] = []

    def lease(self, limit: int, *, now_ms: int, lease_ms: int, consumer: str) -> list[Delivery]:
        deliveries: list[Delivery] = []
        while len(deliveries) < limit and (number := self._pop_due(now_ms)) is not None:
            held = self._held[number]
            if held.state is State.LEASED:
                self._lapse(held)
            deliveries.append(self._hand_out(held, now_ms, lease_ms, consumer))
        for rank in range(3):
            for entry in self._log.after(rank, self._cursors[rank], limit - len(deliveries)):
                self._cursors[rank] = entry.number
                held = self._held[entry.number] = Held(entry)
                deliveries.append(self._hand_out(held, now_ms, lease_ms, consumer))
        return deliveries

    def settle(self, settlement: Settlement, now_ms: int) -> bool:
        number, token = _parts(settlement.receipt)
        held = self._held.get(number)
        if held is None:
            return False
        if settlement.verdict is Verdict.ACK:
            del self._held[number]
            self.counts["settled"] += 1
            return True
        if not _owns(held, token):
            return False
        if settlement.verdict is Verdict.DEAD:
            self._bury(held, settlement.dead)
        elif settlement.verdict is Verdict.RETRY:
            held.failed += 1
            if settlement.attempt is not None:
                held.history = (*held.history, settlement.attempt)
            self._requeue(held, State.RETRYING, now_ms + max(0, settlement.after_ms))
            self.counts["retried"] += 1
        else:
            self._requeue(held, State.RELEASED, 0)
            self.counts["released"] += 1
        return True

    def extend(self, receipt: str, *, now_ms: int, lease_ms: int) -> bool:
        number, token = _parts(receipt)
        held = self._held.get(number)
        if held is None or not _owns(held, token):
            return False
        held.due_ms = now_ms + lease_ms
        self._push(held)
        return True

    def next_due_ms(self) -> int | None:
        """When the next message may be handed out again; ``None`` when none waits for that."""
        return min((held.due_ms for held in self._held.values()), default=None)

    def oldest_unsettled(self, rank: int) -> Entry | None:
        """The oldest entry of one priority that is not settled."""
        held = (each.entry for each in self._held.values() if each.entry.priority is PRIORITIES[rank])
        new = self._log.after(rank, self._cursors[rank], 1)
        return min((*held, *new), key=lambda entry: entry.number, default=None)

    def checkpoint(self) -> str:
        oldest = [self.oldest_unsettled(rank) for rank in range(3)]
        cursors: Cursors = (self._cursors[0], self._cursors[1], self._cursors[2])
        return ",".join(
            position_of(cursor if entry is None else min(cursor, entry.number - 1))
            for cursor, entry in zip(cursors, oldest, strict=True)
        )

    def lag(self, now_ms: int) -> Lag:
        states = Counter(
            State.RETRYING if held.state is State.LEASED and held.due_ms <= now_ms else held.state
            for held in self._held.values()
        )
        oldest = [entry.at_ms for rank in range(3) if (entry := self.oldest_unsettled(rank)) is not None]
        return Lag(
            waiting=states[State.RELEASED] + sum(self._log.count_after(rank, self._cursors[rank]) for rank in range(3)),
            in_flight=states[State.LEASED],
            retrying=states[State.RETRYING],
            dead=len(self.dead),
            oldest_ms=min(oldest, default=None),
            paused=self.paused,
        )

    def _pop_due(self, now_ms: int) -> int | None:
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            due_ms, number, token = heappop(queue)
            held = self._held.get(number)
            if held is not None and held.token == token and held.due_ms == due_ms:
                return number
        return None

    def _hand_out(self, held: Held, now_ms: int, lease_ms: int, consumer: str) -> Delivery:
        held.state, held.consumer, held.handed_ms, held.token = State.LEASED, consumer, now_ms, next(_tokens)
        held.due_ms = now_ms + lease_ms
        self._push(held)
        return Delivery(
            receipt=f"{held.entry.position}|{held.token}",
            position=held.entry.position,
            body=held.entry.body,
            attempt=held.failed + 1,
            history=held.history,
            priority=held.entry.priority,
        )

    def _lapse(self, held: Held) -> None:
        held.failed += 1
        duration_us = max(0, held.due_ms - held.handed_ms) * 1000
        lapsed = Attempt(held.failed, held.due_ms, duration_us, held.consumer, "lease ran out")
        held.history = (*held.history, lapsed)
        self.counts["lapsed"] += 1

    def _requeue(self, held: Held, state: State, due_ms: int) -> None:
        held.state, held.due_ms = state, due_ms
        self._push(held)

    def _push(self, held: Held) -> None:
        # Rows of what was settled before it was due are left behind; they go when they outnumber the living.
        if len(self._queue) > 1_000 + 2 * len(self._held):
            self._queue = [_row(each) for each in self._held.values() if each is not held]
            heapify(self._queue)
        heappush(self._queue, _row(held))

    def _bury(self, held: Held, record: bytes) -> None:
        del self._held[held.entry.number]
        letter = position_of(next(self._letters))
        self.dead[letter] = DeadEntry(letter, held.entry.position, held.entry.body, record)
        self.counts["dead"] += 1


def _row(held: Held) -> tuple[int, int, int]:
    return held.due_ms, held.entry.number, held.token


def _owns(held: Held, token: int) -> bool:
    return held.state is State.LEASED and held.token == token


def _parts(receipt: str) -> tuple[int, int]:
    position, _, token = receipt.partition("|")
    return number_of(position), int(token)
