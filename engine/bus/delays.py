"""Delayed messages: one durable path for a due time of any distance up to the horizon."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import redis

from engine.bus.errors import PublishRefused
from engine.bus.message import decode
from engine.bus.transport import Outcome, Status
from engine.core.clock import Clock, SystemClock
from engine.core.errors import HbusError, Unavailable
from engine.core.scripts import UNREACHABLE, ScriptFolder

if TYPE_CHECKING:
    from engine.bus.producer import Producer

T = TypeVar("T")

#: How many due messages are published in one go.
BATCH = 500
#: How long a mover may take over one batch before another repeats it (which the bus does not store twice).
CLAIM_S = 30.0
#: When a due message that the bus refused is tried again.
REFUSED_RETRY_S = 60.0
#: When a due message that the store did not take is tried again.
FAILED_RETRY_S = 1.0

_LUA = Path(__file__).parent / "lua"
_log = logging.getLogger(__name__)


class Delayed(msgspec.Struct, frozen=True, gc=False):
    """One envelope on its way into the delay path."""

    message_id: str
    body: bytes
    due_ms: int
    idempotency_key: str = ""
    idempotency_digest: str = ""
    idempotency_window_ms: int = 0


class DelayPath(Protocol):
    """Keeps messages until they are due. Thread-safe."""

    def schedule(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        """Keep ``batch``, one outcome each. Never raises for the store's sake: see :class:`Status`.

        Idempotency keys are checked among delayed messages of the topic; repeating a message id changes nothing.
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


class RedisDelays:
    """A :class:`DelayPath` in Redis: a sorted set by due time and a hash of envelopes, under one hash tag."""

    def __init__(self, store: redis.Redis, prefix: str, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._scripts = ScriptFolder(store, _LUA)
        self._base = f"{prefix}:{{delays}}"
        self._waiting = f"{self._base}:waiting"
        self._moving = f"{self._base}:moving"
        self._entries = f"{self._base}:entries"

    def schedule(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        keys = [self._waiting, self._moving, self._entries]
        args: list[str | int | bytes] = []
        for item in batch:
            place = 0
            if item.idempotency_key:
                keys.append(f"{self._base}:key:{topic}:{item.idempotency_key}")
                place = len(keys)
            entry = msgspec.msgpack.encode((topic, item.body))
            args += [item.message_id, item.due_ms, entry, place, item.idempotency_digest, item.idempotency_window_ms]
        try:
            answers = self._scripts.call("schedule", keys, args)
        except Unavailable as error:
            return [Outcome(Status.UNKNOWN, item.message_id, error=error.what) for item in batch]
        except redis.RedisError as error:
            return [Outcome(Status.FAILED, item.message_id, error=str(error)) for item in batch]
        return [_outcome(item, bytes(answer).decode()) for item, answer in zip(batch, answers, strict=True)]

    def due(self, limit: int = BATCH) -> list[Due]:
        """Claim what is due, for :data:`CLAIM_S` seconds. Raises ``Unavailable``."""
        found = self._scripts.call(
            "claim",
            [self._waiting, self._moving, self._entries],
            [self._clock.now_ms(), round(CLAIM_S * 1000), limit],
        )
        claimed = []
        for message_id, entry in zip(found[::2], found[1::2], strict=True):
            topic, body = msgspec.msgpack.decode(entry, type=tuple[str, bytes])
            claimed.append(Due(bytes(message_id).decode(), topic, body))
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

    def promote(self, producer: Producer, limit: int = BATCH) -> int:
        """Publish up to ``limit`` due messages and return how many were due.

        A crash between publishing and forgetting repeats the publish under the same idempotency key, the message's id.
        What the bus refuses is put back for a minute and logged. What the store did not take is put back for a
        second, and ``Unavailable`` is raised.
        """
        due = self.due(limit)
        by_topic: dict[str, list[Due]] = {}
        for item in due:
            by_topic.setdefault(item.topic, []).append(item)
        for topic, items in by_topic.items():
            self._publish(producer, topic, items)
        return len(due)

    def count(self) -> int:
        """How many messages wait. Raises ``Unavailable``."""
        return _asked(lambda: int(self._store.zcard(self._waiting)) + int(self._store.zcard(self._moving)))

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

    def _publish(self, producer: Producer, topic: str, items: Sequence[Due]) -> None:
        messages = [decode(item.body) for item in items]
        ids = [item.message_id for item in items]
        answers: Sequence[object]
        try:
            answers = producer.send(topic, messages, idempotency_keys=ids)
        except PublishRefused as error:
            answers = [error] * len(ids)
        refused = [
            (message_id, answer)
            for message_id, answer in zip(ids, answers, strict=True)
            if isinstance(answer, PublishRefused)
        ]
        self.complete([m for m, answer in zip(ids, answers, strict=True) if not isinstance(answer, HbusError)])
        for message_id, why in refused:
            _log.error("delayed message %s for %s is due but was refused: %s", message_id, topic, why)
        self.postpone([message_id for message_id, _ in refused], REFUSED_RETRY_S)
        failed = {
            message_id: answer
            for message_id, answer in zip(ids, answers, strict=True)
            if isinstance(answer, Unavailable)
        }
        if failed:
            self.postpone(list(failed), FAILED_RETRY_S)
            raise next(iter(failed.values()))


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except UNREACHABLE as error:
        raise Unavailable(f"The store cannot be reached: {error}.", remedy="It is tried again.") from error


def _outcome(item: Delayed, answer: str) -> Outcome:
    if answer == "ok":
        return Outcome(Status.OK, item.message_id)
    if answer == "conflict":
        return Outcome(Status.CONFLICT, item.message_id)
    return Outcome(Status.DUPLICATE, answer.partition(" ")[2])


class DelayMover:
    """The duty that publishes what is due. Run it in one place at a time; two at once only waste work."""

    name = "delay-mover"
    interval_s = 0.2

    def __init__(self, delays: RedisDelays, producer: Callable[[], Producer]) -> None:
        self._delays = delays
        self._producer = producer

    def tick(self) -> None:
        """Publish everything due now."""
        while self._delays.promote(self._producer()) == BATCH:
            pass
