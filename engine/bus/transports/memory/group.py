"""A group in memory: its place in the log, its leases, its retries and its dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

from engine.bus.transport import Attempt, DeadEntry, Delivery, Lag, Settlement, Verdict
from engine.bus.transports.memory.log import PRIORITIES, Cursors, Entry, TopicLog, number_of, position_of, suffix_of

#: Names every handing-out in this process, so that an old receipt never fits a new lease.
_tokens = count(1)


#: Names every dead letter, so that none gets the name of one that its group of before has left.
_letters = count(1)

#: When what is parked is due: never.
NEVER_MS = 2**62


class State(Enum):
    PARKED = auto()
    LEASED = auto()
    RETRYING = auto()
    RELEASED = auto()


class PendingEntry(msgspec.Struct):
    """One message that was handed out and is not settled."""

    entry: Entry
    state: State = State.RELEASED
    #: When it may be handed out again; 0 for released ones, which therefore come first.
    due_ms: int = 0
    token: int = 0
    consumer: str = ""
    handed_ms: int = 0
    failed: int = 0
    #: The attempt after these has begun, as its holder in an ordered group has said.
    begun: bool = False
    history: tuple[Attempt, ...] = ()


class Group:
    """Not thread-safe: the transport's lock guards it."""

    def __init__(self, log: TopicLog, start: str, dead: dict[str, DeadEntry], partition: int = 0) -> None:
        self.partition = partition
        self.paused = False
        #: Of the partition's owner; 0 before the first.
        self.epoch = 0
        #: When the leases of the owner before end.
        self.read_from_ms = 0
        #: Key -> the record of its head's failure.
        self.parked: dict[str, bytes] = {}
        #: Key -> the number of that head: what is set aside later may lie before it, where it was tried again.
        self._heads: dict[str, int] = {}
        #: Key -> the numbers of its messages that were set aside.
        self.aside: dict[str, set[int]] = {}
        self.counts: Counter[str] = Counter()
        self.dead = dead
        self._log = log
        self.move(start)

    def move(self, position: str) -> None:
        """Make exactly what lies after ``position`` unsettled."""
        cursors = self._log.cursors(position, self.partition)
        self.parked.clear()
        self._heads.clear()
        self.aside.clear()
        self._cursors = list(cursors)
        self._held: dict[int, PendingEntry] = {}
        #: (due, number, token); a row whose token is no longer the message's is stale.
        self._queue: list[tuple[int, int, int]] = []

    def lease(self, limit: int, *, now_ms: int, lease_ms: int, consumer: str, in_order: bool = False) -> list[Delivery]:
        """Hand out what is due, then what is new; ``in_order`` puts the former in the order of publishing."""
        deliveries: list[Delivery] = []
        for number in self._due_in_order(limit, now_ms) if in_order else self._due(limit, now_ms):
            held = self._held[number]
            if held.state is State.LEASED:
                self._lapse(held, in_order=in_order)
            deliveries.append(self._hand_out(held, now_ms, lease_ms, consumer))
        for rank in range(3):
            for entry in self._log.after(rank, self._cursors[rank], limit - len(deliveries), self.partition):
                self._cursors[rank] = entry.number
                held = self._held[entry.number] = PendingEntry(entry)
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
        elif settlement.verdict is Verdict.BEGIN:
            self._note_before(held, settlement)
            held.begun = held.begun or held.failed == settlement.number - 1
        elif settlement.verdict is Verdict.RETRY:
            self._note_failure(held, held.failed + 1, settlement.attempt)
            self._requeue(held, State.RETRYING, now_ms + max(0, settlement.after_ms))
            self.counts["retried"] += 1
        elif settlement.verdict is Verdict.PARK:
            return self._park(held, settlement)
        else:
            self._note_before(held, settlement)
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
        due = (held.due_ms for held in self._held.values() if held.state is not State.PARKED)
        return min(due, default=None)

    def take_over(self, epoch: int, now_ms: int) -> None:
        """A new owner: it waits for what the one before was given and has not settled."""
        self.epoch = epoch
        leased = (held.due_ms for held in self._held.values() if held.state is State.LEASED)
        self.read_from_ms = max((due_ms for due_ms in leased if due_ms > now_ms), default=0)

    def unpark(self, key: str, head: str) -> tuple[int, Entry | None]:
        """End the parking of a key: how many come again, and its head."""
        record, failed = self.parked.pop(key), self._held.get(self._heads.pop(key))
        if failed is not None and head == "dead":
            self._bury(failed, record)
        elif failed is not None and head == "skip":
            del self._held[failed.entry.number]
            self.counts["skipped"] += 1
        elif failed is not None:
            failed.failed, failed.begun, failed.history = 0, False, ()
        again = [self._held[number] for number in self.aside.pop(key) if number in self._held]
        for held in again:
            self._requeue(held, State.RELEASED, 0)
        return len(again), failed.entry if failed else None

    def entries_aside(self, key: str) -> list[Entry]:
        """What was set aside with a key, its head first and the others in order."""
        first = self._heads.get(key)
        numbers = sorted(self.aside.get(key, ()), key=lambda number: (number != first, number))
        return [self._held[number].entry for number in numbers if number in self._held]

    def is_open(self, entry: Entry) -> bool:
        """Whether it is not settled."""
        return entry.number in self._held or entry.number > self._cursors[PRIORITIES.index(entry.priority)]

    def oldest_unsettled(self, rank: int) -> Entry | None:
        """The oldest entry of one priority that is not settled."""
        held = (each.entry for each in self._held.values() if each.entry.priority is PRIORITIES[rank])
        new = self._log.after(rank, self._cursors[rank], 1, self.partition)
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
            waiting=states[State.RELEASED]
            + sum(self._log.count_after(rank, self._cursors[rank], self.partition) for rank in range(3)),
            in_flight=states[State.LEASED],
            retrying=states[State.RETRYING],
            dead=len(self.dead),
            oldest_ms=min(oldest, default=None),
            paused=self.paused,
            parked=states[State.PARKED],
        )

    def _park(self, held: PendingEntry, settlement: Settlement) -> bool:
        """Set aside with its key, or put back where the key is not parked."""
        key, number = settlement.key, held.entry.number
        if settlement.dead:
            self._note_failure(held, held.failed + 1, settlement.attempt)
            self.parked.setdefault(key, settlement.dead)
            self._heads.setdefault(key, number)
        else:
            self._note_before(held, settlement)
            if key not in self.parked:
                self._requeue(held, State.RELEASED, 0)
                self.counts["released"] += 1
                return False
        self.aside.setdefault(key, set()).add(number)
        held.state, held.due_ms = State.PARKED, NEVER_MS
        self.counts["parked"] += 1
        return True

    def _note_before(self, held: PendingEntry, settlement: Settlement) -> None:
        if held.failed < settlement.number - 1:
            self._note_failure(held, settlement.number - 1, settlement.attempt)

    def _due(self, limit: int, now_ms: int) -> Iterator[int]:
        for _ in range(limit):
            number = self._pop_due(now_ms)
            if number is None:
                return
            yield number

    def _due_in_order(self, limit: int, now_ms: int) -> list[int]:
        # A lease that was extended in the moment it was given has two rows alike.
        found = set()
        while (number := self._pop_due(now_ms)) is not None:
            found.add(number)
        numbers = sorted(found)
        for number in numbers[limit:]:
            heappush(self._queue, _row(self._held[number]))
        return numbers[:limit]

    def _pop_due(self, now_ms: int) -> int | None:
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            due_ms, number, token = heappop(queue)
            held = self._held.get(number)
            if held is not None and held.token == token and held.due_ms == due_ms:
                return number
        return None

    def _hand_out(self, held: PendingEntry, now_ms: int, lease_ms: int, consumer: str) -> Delivery:
        if held.begun:
            # Its holder could not say what came of it.
            self._note_failure(held, held.failed + 1, None)
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
            partition=self.partition,
        )

    def _lapse(self, held: PendingEntry, *, in_order: bool) -> None:
        self.counts["lapsed"] += 1
        if in_order and held.failed and not held.begun:
            # It waited behind others: whoever begins a second attempt says so before.
            return
        duration_us = max(0, held.due_ms - held.handed_ms) * 1000
        lapsed = Attempt(held.failed + 1, held.due_ms, duration_us, held.consumer, "lease ran out")
        self._note_failure(held, held.failed + 1, lapsed)

    def _note_failure(self, held: PendingEntry, failed: int, attempt: Attempt | None) -> None:
        held.failed, held.begun = failed, False
        if attempt is not None:
            held.history = (*held.history, attempt)

    def _requeue(self, held: PendingEntry, state: State, due_ms: int) -> None:
        held.state, held.due_ms = state, due_ms
        self._push(held)

    def _push(self, held: PendingEntry) -> None:
        # Rows of what was settled before it was due are left behind; they go when they outnumber the living.
        if len(self._queue) > 1_000 + 2 * len(self._held):
            self._queue = [_row(each) for each in self._held.values() if each is not held]
            heapify(self._queue)
        heappush(self._queue, _row(held))

    def _bury(self, held: PendingEntry, record: bytes) -> None:
        del self._held[held.entry.number]
        letter = position_of(next(_letters)) + suffix_of(self.partition)
        self.dead[letter] = DeadEntry(letter, held.entry.position, held.entry.body, record)
        self.counts["dead"] += 1


def _row(held: PendingEntry) -> tuple[int, int, int]:
    return held.due_ms, held.entry.number, held.token


def _owns(held: PendingEntry, token: int) -> bool:
    return held.state is State.LEASED and held.token == token


def _parts(receipt: str) -> tuple[int, int]:
    position, _, token = receipt.partition("|")
    return number_of(position), int(token)
