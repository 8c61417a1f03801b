"""Ids: of things, as ULIDs (github.com/ulid/spec) that sort by time; of traces, as W3C Trace Context has them.

What is done because of something else is a span of its own in the same trace, and carries the ``traceparent`` that
says so: a message that of the span that published it, and every attempt to handle it one of its own. And names of
bounded length for ids that others gave.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_RANDOM_BITS = 80
_ULID = re.compile(rf"[0-7][{_ALPHABET}]{{25}}")
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
#: Sampled, and the trace id is random (level 2).
NEW_FLAGS = "03"
#: The last four letters.
_TAIL_BITS = 20
_TAIL = (1 << _TAIL_BITS) - 1
#: The most ids of one :meth:`IdSource.new_many`.
MANY = 1_000
#: The longest text that :func:`ending` leaves readable.
READABLE = 120


class IdSource:
    """Makes ULIDs: 48 bits of milliseconds, 80 bits of chance, 26 characters of Crockford base 32.

    Within one millisecond the chance part is incremented, so ids of one source strictly grow. Thread-safe.
    A forked child starts from fresh chance, so two processes never share a sequence.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        #: The chance part without its last four letters, these letters' value, and everything before them spelt out.
        self._chance = 0
        self._tail = 0
        self._head = ""
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1

    def new(self, now_ms: int) -> str:
        """A new id, no older than ``now_ms`` and later than any this source gave before."""
        head, tail = self._reserve(now_ms, 1)
        # All but the last four letters stay the same within a millisecond (nearly always): they are spelt once.
        return head + _PAIRS[tail >> 10] + _PAIRS[tail & 0x3FF]

    def new_many(self, now_ms: int, count: int) -> list[str]:
        """``count`` ids (at most :data:`MANY`) as :meth:`new` would give them one by one, for half the work."""
        head, first = self._reserve(now_ms, count)
        pairs = _PAIRS
        return [head + pairs[tail >> 10] + pairs[tail & 0x3FF] for tail in range(first, first + count)]

    def _reserve(self, now_ms: int, count: int) -> tuple[str, int]:
        """What so many ids begin with, and the value of the first one's last four letters."""
        with self._lock:
            first = self._tail + 1
            if now_ms > self._last_ms:
                self._last_ms = now_ms
                # The top bit stays free so that increments cannot overflow into the time part.
                chance = int.from_bytes(os.urandom(10), "big") >> 1
                self._chance, first = chance >> _TAIL_BITS, chance & _TAIL
                self._head = self._spell_head()
            if first + count - 1 > _TAIL:
                self._chance, first = self._chance + 1, 0
                self._head = self._spell_head()
            self._tail = first + count - 1
            return self._head, first

    def _spell_head(self) -> str:
        value = self._last_ms << _RANDOM_BITS - _TAIL_BITS | self._chance
        return "".join([_PAIRS[value >> shift & 0x3FF] for shift in range(100, -1, -10)])


_of_process = IdSource()
#: ``new_id(now_ms)``: a process-wide ULID; see :meth:`IdSource.new`.
new_id = _of_process.new
#: ``new_ids(now_ms, count)``: many at once; see :meth:`IdSource.new_many`.
new_ids = _of_process.new_many


def instant_of(text: str) -> int | None:
    """When an id was made, epoch milliseconds: of a ULID or a UUIDv7; ``None`` for one that does not tell."""
    if _ULID.fullmatch(text):
        value = 0
        for letter in text[:10]:
            value = value * 32 + _ALPHABET.index(letter)
        return value
    return int(text[:8] + text[9:13], 16) if _UUID7.fullmatch(text.lower()) else None


# These need chance, not secrecy; the system's generator would cost more than the rest of a publish.
_rng = random.Random()  # noqa: S311


class TraceParent(NamedTuple):
    """The parts of a ``traceparent``."""

    trace_id: str
    span_id: str
    flags: str

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> TraceParent:
        """The same trace, a new span."""
        return TraceParent(self.trace_id, new_span_id(), self.flags)


def new_span_id() -> str:
    """16 hex digits, never all zero."""
    return f"{_rng.getrandbits(64) or 1:016x}"


def new_trace() -> TraceParent:
    """The first span of a new trace."""
    return TraceParent(f"{_rng.getrandbits(128) or 1:032x}", new_span_id(), NEW_FLAGS)


def new_traceparents(count: int) -> list[str]:
    """The texts of so many :func:`new_trace`, made in one go: every publish outside a handler needs one."""
    traces, spans = _rng.randbytes(16 * count).hex(" ", 16), _rng.randbytes(8 * count).hex(" ", 8)
    if _NO_TRACE in traces or _NO_SPAN in spans:
        return [str(new_trace()) for _ in range(count)]
    return [f"00-{trace}-{span}-03" for trace, span in zip(traces.split(), spans.split(), strict=True)]


def parse_traceparent(text: str) -> TraceParent | None:
    """The parts of ``text``, or ``None`` when the standard says to ignore it and start a new trace."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceParent(trace_id, span_id, flags)


def trace_id_of(traceparent: str) -> str:
    """The trace id of a ``traceparent``; empty when it is malformed. What lies between the dashes is not read."""
    return trace_ids_of([traceparent])[0]


def trace_ids_of(traceparents: Iterable[str]) -> list[str]:
    """:func:`trace_id_of` each; every message that is settled asks, and a call for each would cost as much again."""
    return [text[3:35] if len(text) == 55 and text[2] == text[35] == "-" else "" for text in traceparents]


def ending(text: str) -> str:
    """What a store's key ends with that stands for ``text``: itself behind a colon, or a long one's hash behind ``#``,
    so that a caller cannot fill the store with names. No two texts share one.
    """
    if len(text) <= READABLE:
        return f":{text}"
    return f"#{blake2b(text.encode(), digest_size=20).hexdigest()}"
