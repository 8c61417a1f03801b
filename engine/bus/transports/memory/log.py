"""A topic in memory: one numbered log per priority, and what idempotency keys stand for."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter

import msgspec

from engine.bus.transport import Outcome, Outgoing, Priority, Status, Stored
from engine.core.errors import BadInput

PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.LOW)
#: How many idempotency keys are kept at least before those whose window is over are swept out.
SWEEP_LEAST = 1_024

_NUMBER = re.compile(r"(\d{1,18})(?:p[1-9]\d{0,3})?")
_INSTANT = re.compile(r"@(\d{1,16})")
_number = attrgetter("number")
_at_ms = attrgetter("at_ms")

#: The last number that is behind us, per priority: high, normal, low.
Cursors = tuple[int, int, int]


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One message; ``number`` counts through the topic whatever the priority."""

    number: int
    at_ms: int
    body: bytes
    priority: Priority
    partition: int = 0

    @property
    def position(self) -> str:
        return position_of(self.number) + suffix_of(self.partition)

    def stored(self) -> Stored:
        return Stored(self.position, self.at_ms, self.body, self.priority)


class _Remembered(msgspec.Struct, frozen=True, gc=False):
    expires_ms: int
    digest: str
    message_id: str
    #: Empty while the message waits for its due time elsewhere.
    position: str
    due_ms: int = 0


def position_of(number: int) -> str:
    """Fixed width, so that positions sort as text."""
    return f"{number:018d}"


def suffix_of(partition: int) -> str:
    """What names the partition at the end of a position; partition 0 is not named."""
    return f"p{partition}" if partition else ""


def number_of(position: str) -> int:
    """Raises :class:`BadInput` when ``position`` is none."""
    found = _NUMBER.fullmatch(position)
    if not found:
        raise BadInput(
            f"{position!r} is not a position.",
            remedy="Use a position from a page of the topic, a checkpoint, or @ and epoch milliseconds.",
            field="position",
        )
    return int(found[1])


class TopicLog:
    """Not thread-safe: the transport's lock guards it."""

    def __init__(self) -> None:
        self.last_number = 0
        self.deduplicated = 0
        #: By partition, then by priority.
        self._logs: list[tuple[list[Entry], list[Entry], list[Entry]]] = [([], [], [])]
        self._remembered: dict[str, _Remembered] = {}
        self._sweep_at = SWEEP_LEAST

    def append(self, message: Outgoing, now_ms: int) -> Outcome:
        """Store one message unless its idempotency key was seen."""
        key = message.idempotency_key
        known = self._known(message, now_ms)
        if known is not None and (known.status is not Status.HELD or known.message_id != message.message_id):
            return known
        self.last_number += 1
        self.split(message.partition + 1)
        entry = Entry(self.last_number, now_ms, message.body, message.priority, message.partition)
        self._logs[message.partition][PRIORITIES.index(message.priority)].append(entry)
        if key:
            # What was promised for a claim, and may be longer than the topic's window, holds for its message.
            promised_ms = self._remembered[key].expires_ms if known is not None else 0
            expires_ms = max(now_ms + message.idempotency_window_ms, promised_ms)
            found = _Remembered(expires_ms, message.idempotency_digest, message.message_id, entry.position)
            self._remembered[key] = found
            self._sweep(now_ms)
        return Outcome(Status.OK, message.message_id, entry.position)

    def claim(self, message: Outgoing, now_ms: int) -> Outcome:
        """Have its idempotency key stand for a message that is kept elsewhere until it is due."""
        known = self._known(message, now_ms)
        if known is None:
            expires_ms = now_ms + message.idempotency_window_ms
            found = _Remembered(expires_ms, message.idempotency_digest, message.message_id, "", message.due_ms)
            self._remembered[message.idempotency_key] = found
            self._sweep(now_ms)
        if known is None or (known.status is Status.HELD and known.message_id == message.message_id):
            return Outcome(Status.OK, message.message_id)
        return known

    def _known(self, message: Outgoing, now_ms: int) -> Outcome | None:
        """What its idempotency key stands for."""
        seen = self._remembered.get(message.idempotency_key) if message.idempotency_key else None
        if seen is None or seen.expires_ms <= now_ms:
            return None
        if seen.digest != message.idempotency_digest:
            error = "the idempotency key was used before with another body"
            return Outcome(Status.CONFLICT, seen.message_id, seen.position, error)
        if not seen.position:
            self.deduplicated += seen.message_id != message.message_id
            return Outcome(Status.HELD, seen.message_id, due_ms=seen.due_ms)
        self.deduplicated += 1
        return Outcome(Status.DUPLICATE, seen.message_id, seen.position)

    @property
    def partitions(self) -> int:
        return len(self._logs)

    def split(self, partitions: int) -> None:
        """Have at least so many partitions."""
        while len(self._logs) < partitions:
            self._logs.append(([], [], []))

    def find(self, number: int) -> Entry | None:
        for log in chain(*self._logs):
            at = bisect_left(log, number, key=_number)
            if at < len(log) and log[at].number == number:
                return log[at]
        return None

    def after(self, rank: int, number: int, limit: int, partition: int = 0) -> list[Entry]:
        """The oldest entries of one priority behind ``number``."""
        log = self._logs[partition][rank]
        start = bisect_right(log, number, key=_number)
        return log[start : start + limit]

    def count_after(self, rank: int, number: int, partition: int = 0) -> int:
        log = self._logs[partition][rank]
        return len(log) - bisect_right(log, number, key=_number)

    def all(self) -> Iterator[Entry]:
        """Every entry, oldest first."""
        return merge(*chain(*self._logs), key=_number)

    def cursors(self, position: str, partition: int = 0) -> Cursors:
        """Per priority, the last number that does not lie after ``position`` (or a checkpoint, instant, named end)."""
        if position in ("", "beginning"):
            return (0, 0, 0)
        if position == "end":
            return (self.last_number, self.last_number, self.last_number)
        if instant := _INSTANT.fullmatch(position):
            high, normal, low = (self._before_instant(log, int(instant[1])) for log in self._logs[partition])
            return (high, normal, low)
        places = position.split(";")
        if partition >= len(places) > 1:
            # A partition that was added since has been seen by nobody.
            return (0, 0, 0)
        parts = places[partition if len(places) > 1 else 0].split(",")
        high, normal, low = (number_of(part) for part in (parts if len(parts) == 3 else [position] * 3))
        return (high, normal, low)

    def backwards_bound(self, position: str, partition: int = 0) -> Cursors:
        """Per priority, the first number that does not lie before ``position``; an instant includes itself."""
        if not position:
            return (self.last_number + 1, self.last_number + 1, self.last_number + 1)
        if instant := _INSTANT.fullmatch(position):
            edge = int(instant[1]) + 1
            high, normal, low = (self._before_instant(log, edge) + 1 for log in self._logs[partition])
            return (high, normal, low)
        number = number_of(position)
        return (number, number, number)

    def drop(self, numbers: set[int]) -> None:
        for log in chain(*self._logs):
            log[:] = [entry for entry in log if entry.number not in numbers]

    @staticmethod
    def _before_instant(log: list[Entry], at_ms: int) -> int:
        at = bisect_left(log, at_ms, key=_at_ms)
        return log[at - 1].number if at else 0

    def _sweep(self, now_ms: int) -> None:
        if len(self._remembered) >= self._sweep_at:
            self._remembered = {key: seen for key, seen in self._remembered.items() if seen.expires_ms > now_ms}
            self._sweep_at = max(SWEEP_LEAST, 2 * len(self._remembered))
