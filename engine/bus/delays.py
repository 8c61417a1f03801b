"""Delayed messages: one durable path for a due time of any distance up to the horizon."""

from __future__ import annotations

import logging
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
from engine.core.scripts import ScriptFolder
from engine.core.store.answered import answered
from engine.core.store.failures import AnswerLost

T = TypeVar("T")

#: How many due messages are published in one go.
BATCH = 500
#: How long a mover may take over one batch before another repeats it (which the bus does not store twice).
CLAIM_S = 30.0
#: After how long what nobody can read is looked at again.
UNREADABLE_S = 60.0
#: Why a message is not kept whose source and id another has that waits.
TAKEN = "another message of this topic, source and id waits for its due time"

_log = logging.getLogger(__name__)

_LUA = Path(__file__).parent / "lua"


class Delayed(msgspec.Struct, frozen=True, gc=False):
    """One envelope on its way into the delay path."""

    message_id: str
    source: str
    body: bytes
    due_ms: int
    #: What tells one message from another of the same identity, and of the same key: see :func:`.message.digest`.
    digest: str = ""
    idempotency_key: str = ""
    idempotency_window_ms: int = 0
    #: The key that stands for it at the transport, to be published under.
    claimed_key: str = ""
    #: Which topic of its name it is for; see :class:`~engine.bus.catalog.TopicPolicy`.
    incarnation: str = ""


class DelayPath(Protocol):
    """Keeps messages until they are due. Thread-safe."""

    def schedule(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        """Keep ``batch``, one outcome each. Never raises for the store's sake: see :class:`Status`.

        Idempotency keys are checked among delayed messages of the topic (:mod:`engine.bus.schedule_once` compares them
        with what is published): ``DUPLICATE`` names the message that is kept, was, or was cancelled under the key.
        Topic, source and id name a message: repeating one changes nothing and is ``OK``, with the due time it is kept
        for; another under that name is a ``CONFLICT``.
        """
        ...


def place_of(topic: str, source: str, message_id: str) -> str:
    """Where a message waits. Publishers choose ids: those of another topic or source are others'."""
    return msgspec.json.encode((topic, source, message_id)).decode()


class Cancelled(StrEnum):
    """The definite answer to a cancellation."""

    CANCELLED = "cancelled"
    #: It is being published at this moment.
    TOO_LATE = "too late"
    #: Published already, cancelled already, or never here.
    UNKNOWN = "unknown"


class Due(msgspec.Struct, frozen=True, gc=False):
    """A message whose time has come."""

    #: Its :func:`place_of`, as bytes; or its bare id, if a release kept it that did not know places.
    place: bytes
    topic: str
    body: bytes
    #: Which topic of that name; empty where nobody knew when it was kept.
    incarnation: str = ""
    #: The key that was claimed for it at the transport, or empty.
    claimed_key: str = ""


class _Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    topic: str
    body: bytes
    incarnation: str = ""
    claimed_key: str = ""


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
            key = 0
            if item.idempotency_key:
                keys.append(f"{self._base}:key:{topic}:{item.idempotency_key}")
                key = len(keys)
            entry = _written(_Entry(topic, item.body, item.incarnation, item.claimed_key), item.digest)
            place = place_of(topic, item.source, item.message_id)
            args += [place, item.message_id, item.due_ms, entry, key, item.digest, item.idempotency_window_ms]
        try:
            if self._replicas:
                wanted = self._replicas
                answers, reached = self._scripts.call_replicated("schedule", keys, args, wanted)
                return replicated(_outcomes(batch, answers), reached, wanted)
            answers = self._scripts.call("schedule", keys, args)
        except AnswerLost as error:
            return [Outcome(Status.UNKNOWN, item.message_id, error=error.what) for item in batch]
        except Unavailable as error:
            return [Outcome(Status.FAILED, item.message_id, error=error.what, remedy=error.remedy) for item in batch]
        except redis.RedisError as error:
            return [Outcome(Status.FAILED, item.message_id, error=words_of(error)) for item in batch]
        return _outcomes(batch, answers)

    def due(self, limit: int = BATCH) -> list[Due]:
        """Claim what is due, for :data:`CLAIM_S` seconds. Raises ``Unavailable``.

        What is no entry of ours is put back for :data:`UNREADABLE_S`, and logged: it holds up none of the others.
        """
        found = self._scripts.call(
            "claim",
            [self._waiting, self._moving, self._entries],
            [self._clock.now_ms(), round(CLAIM_S * 1000), limit],
        )
        claimed, unreadable = [], []
        for place, entry in zip(found[::2], found[1::2], strict=True):
            try:
                kept = _read(entry)
            except msgspec.DecodeError as error:
                _log.error("what waits at %r can be read by nobody: %s", bytes(place)[:200], error)
                unreadable.append(bytes(place))
            else:
                claimed.append(Due(bytes(place), kept.topic, kept.body, kept.incarnation, kept.claimed_key))
        self.postpone(unreadable, UNREADABLE_S)
        return claimed

    def complete(self, places: Sequence[bytes]) -> None:
        """Forget claimed messages that were published. Raises ``Unavailable``."""
        if places:
            self._scripts.call("complete", [self._moving, self._entries], places)

    def postpone(self, places: Sequence[bytes], seconds: float) -> None:
        """Put claimed messages back for ``seconds``. Raises ``Unavailable``."""
        if places:
            until_ms = self._clock.now_ms() + round(seconds * 1000)
            self._scripts.call("postpone", [self._waiting, self._moving], [until_ms, *places])

    def count(self) -> int:
        """How many messages wait. Raises ``Unavailable``."""
        return _asked(lambda: int(self._store.zcard(self._waiting)) + int(self._store.zcard(self._moving)))

    def holds(self, names: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Of each topic, source and id whether that message is kept, or is being published. Raises ``Unavailable``."""

        def ask() -> list[bool]:
            asked = self._store.pipeline(transaction=False)
            for topic, source, message_id in names:
                asked.hexists(self._entries, place_of(topic, source, message_id))
                # Under its bare id, if a release kept it that did not know places.
                asked.hexists(self._entries, message_id)
            answers = asked.execute()
            return [bool(at_place or former) for at_place, former in zip(answers[::2], answers[1::2], strict=True)]

        return _asked(ask) if names else []

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

    def cancel(self, topic: str, source: str, message_id: str) -> Cancelled:
        """Cancel a message that is not due yet. Raises ``Unavailable``."""
        place = place_of(topic, source, message_id)
        answer = int(self._scripts.call("cancel", [self._waiting, self._moving, self._entries], [place]))
        return (Cancelled.UNKNOWN, Cancelled.CANCELLED, Cancelled.TOO_LATE)[answer]


def _written(entry: _Entry, digest: str) -> bytes:
    """The digest leads, where the store's script can compare it."""
    return digest.encode() + b"\0" + _encoder.encode(entry)


def _read(written: bytes) -> _Entry:
    """Raises ``msgspec.DecodeError``. A release without digests began with the entry, whose first byte is no text."""
    return _entry.decode(written if written[:1] > b"\x7f" else written.partition(b"\0")[2])


def _asked(question: Callable[[], T]) -> T:
    with answered():
        return question()


def _outcomes(batch: Sequence[Delayed], answers: Sequence[bytes]) -> list[Outcome]:
    return [_outcome(item, bytes(answer).decode()) for item, answer in zip(batch, answers, strict=True)]


def _outcome(item: Delayed, answer: str) -> Outcome:
    said, _, about = answer.partition(" ")
    match said:
        case "ok":
            return Outcome(Status.OK, item.message_id)
        case "kept":
            return Outcome(Status.OK, item.message_id, due_ms=int(float(about)))
        case "conflict":
            return Outcome(Status.CONFLICT, item.message_id)
        case "taken":
            return Outcome(Status.CONFLICT, item.message_id, error=TAKEN)
    return Outcome(Status.DUPLICATE, about)
