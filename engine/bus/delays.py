"""Delayed messages: one durable path for a due time of any distance up to the horizon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import redis

from engine.bus.replicas import replicated
from engine.bus.transport import Outcome, Status
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.prepared import prepared
from engine.core.scripts import UNREACHABLE, ScriptFolder, away

T = TypeVar("T")

#: How many due messages are published in one go.
BATCH = 500
#: How long a mover may take over one batch before another repeats it (which the bus does not store twice).
CLAIM_S = 30.0

_LUA = Path(__file__).parent / "lua"


class Delayed(msgspec.Struct, frozen=True, gc=False):
    """One envelope on its way into the delay path."""

    message_id: str
    body: bytes
    due_ms: int
    idempotency_key: str = ""
    idempotency_digest: str = ""
    idempotency_window_ms: int = 0
    #: Which topic of its name it is for; see :class:`~engine.bus.catalog.TopicPolicy`.
    incarnation: str = ""


class DelayPath(Protocol):
    """Keeps messages until they are due. Thread-safe."""

    def schedule(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        """Keep ``batch``, one outcome each. Never raises for the store's sake: see :class:`Status`.

        Idempotency keys are checked among delayed messages of the topic (:mod:`engine.bus.schedule_once` compares them
        with what is published): ``DUPLICATE`` names the message that is kept, was, or was cancelled under the key.
        Repeating a message id changes nothing.
        """
        ...


class Cancelled(StrEnum):
    """The definite answer to a cancellation."""

    CANCELLED = "cancelled"
    #: It is being published at this moment.
    TOO_LATE = "too late"
    #: Published already, cancelled already, or never here.
    UNKNOWN = "unknown"


class Due(msgspec.Struct, frozen=True, gc=False):
    """A message whose time has come."""

    message_id: str
    topic: str
    body: bytes
    #: Which topic of that name; empty where nobody knew when it was kept.
    incarnation: str = ""


class _Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    topic: str
    body: bytes
    incarnation: str = ""


_encoder = msgspec.msgpack.Encoder()
_entry = msgspec.msgpack.Decoder(prepared(_Entry))


class RedisDelays:
    """A :class:`DelayPath` in Redis: a sorted set by due time and a hash of envelopes, under one hash tag.

    Answers ``OK`` or ``DUPLICATE`` once ``replicas`` of the store have what it wrote, and ``UNKNOWN`` where they do not
    have it in time.
    """

    def __init__(self, store: redis.Redis, prefix: str, *, clock: Clock | None = None, replicas: int = 0) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._scripts = ScriptFolder(store, _LUA)
        self._base = f"{prefix}:{{delays}}"
        self._waiting = f"{self._base}:waiting"
        self._moving = f"{self._base}:moving"
        self._entries = f"{self._base}:entries"
        self._replicas = replicas

    def schedule(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        keys = [self._waiting, self._moving, self._entries]
        args: list[str | int | bytes] = []
        for item in batch:
            place = 0
            if item.idempotency_key:
                keys.append(f"{self._base}:key:{topic}:{item.idempotency_key}")
                place = len(keys)
            entry = _encoder.encode(_Entry(topic, item.body, item.incarnation))
            args += [item.message_id, item.due_ms, entry, place, item.idempotency_digest, item.idempotency_window_ms]
        try:
            if self._replicas:
                wanted = self._replicas
                answers, reached = self._scripts.call_replicated("schedule", keys, args, wanted)
                return replicated(_outcomes(batch, answers), reached, wanted)
            answers = self._scripts.call("schedule", keys, args)
        except Unavailable as error:
            return [Outcome(Status.UNKNOWN, item.message_id, error=error.what) for item in batch]
        except redis.RedisError as error:
            return [Outcome(Status.FAILED, item.message_id, error=words_of(error)) for item in batch]
        return _outcomes(batch, answers)

    def due(self, limit: int = BATCH) -> list[Due]:
        """Claim what is due, for :data:`CLAIM_S` seconds. Raises ``Unavailable``."""
        found = self._scripts.call(
            "claim",
            [self._waiting, self._moving, self._entries],
            [self._clock.now_ms(), round(CLAIM_S * 1000), limit],
        )
        claimed = []
        for message_id, entry in zip(found[::2], found[1::2], strict=True):
            kept = _entry.decode(entry)
            claimed.append(Due(bytes(message_id).decode(), kept.topic, kept.body, kept.incarnation))
        return claimed

    def complete(self, message_ids: Sequence[str]) -> None:
        """Forget claimed messages that were published. Raises ``Unavailable``."""
        if message_ids:
            self._scripts.call("complete", [self._moving, self._entries], message_ids)

    def postpone(self, message_ids: Sequence[str], seconds: float) -> None:
        """Put claimed messages back for ``seconds``. Raises ``Unavailable``."""
        if message_ids:
            until_ms = self._clock.now_ms() + round(seconds * 1000)
            self._scripts.call("postpone", [self._waiting, self._moving], [until_ms, *message_ids])

    def count(self) -> int:
        """How many messages wait. Raises ``Unavailable``."""
        return _asked(lambda: int(self._store.zcard(self._waiting)) + int(self._store.zcard(self._moving)))

    def holds(self, message_ids: Sequence[str]) -> list[bool]:
        """Of each whether it is kept, or is being published. Raises ``Unavailable``."""

        def ask() -> list[bool]:
            asked = self._store.pipeline(transaction=False)
            for message_id in message_ids:
                asked.hexists(self._entries, message_id)
            return [bool(each) for each in asked.execute()]

        return _asked(ask) if message_ids else []

    def overdue(self) -> int:
        """How many should have been published by now. Raises ``Unavailable``."""
        now_ms = self._clock.now_ms()
        return _asked(
            lambda: int(self._store.zcount(self._waiting, "-inf", now_ms)) + int(self._store.zcard(self._moving))
        )

    def next_due_ms(self) -> int | None:
        """When the next one is due, epoch milliseconds; ``None`` when none waits. Raises ``Unavailable``."""
        first = _asked(lambda: self._store.zrange(self._waiting, 0, 0, withscores=True))
        return int(first[0][1]) if first else None

    def cancel(self, message_id: str) -> Cancelled:
        """Cancel a message that is not due yet. Raises ``Unavailable``."""
        answer = int(self._scripts.call("cancel", [self._waiting, self._moving, self._entries], [message_id]))
        return (Cancelled.UNKNOWN, Cancelled.CANCELLED, Cancelled.TOO_LATE)[answer]


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except UNREACHABLE as error:
        raise away(error) from error


def _outcomes(batch: Sequence[Delayed], answers: Sequence[bytes]) -> list[Outcome]:
    return [_outcome(item, bytes(answer).decode()) for item, answer in zip(batch, answers, strict=True)]


def _outcome(item: Delayed, answer: str) -> Outcome:
    if answer == "ok":
        return Outcome(Status.OK, item.message_id)
    if answer == "conflict":
        return Outcome(Status.CONFLICT, item.message_id)
    return Outcome(Status.DUPLICATE, answer.partition(" ")[2])
