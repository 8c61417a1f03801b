"""Delayed messages: one durable path for a due time of any distance up to the horizon."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, StrEnum, auto
from functools import partial
from importlib.resources import files
from typing import Protocol, TypeVar, cast

import msgspec
import redis

from engine.bus.delay_answers import FORMER, not_kept, outcomes_of
from engine.bus.delay_entries import DelayEntry, Due, is_former, place_of, topic_of, written
from engine.bus.delay_entries import read as read_entry
from engine.bus.delay_refusals import DelayRefusals
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import decode, digest
from engine.bus.replicas import replicated
from engine.bus.transport import Outcome, Status
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.scripts import Arg, ScriptFolder
from engine.core.store.answered import answered
from engine.core.store.failures import AnswerLost

T = TypeVar("T")

#: How many due messages are published in one go.
BATCH = 500
#: How long a mover may take over one batch before another repeats it (which the bus does not store twice).
CLAIM_S = 30.0
#: After how long what nobody can read is looked at again.
UNREADABLE_S = 60.0
#: How long a cancellation is remembered for whoever misses the message, unless that is known sooner.
CANCELLED_S = 90 * 86_400.0
#: How many places are looked at in one question.
_SCANNED = 2_000

#: What ``taken.lua`` and ``cancel.lua`` answer where they found something under a bare id.
_TAKEN_FORMER, _CANCEL_FORMER = 2, 3

_log = logging.getLogger(__name__)

_LUA = files("engine.bus") / "lua"


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
    #: The key under which a release without places kept it, if it did: it may have been cancelled since.
    former_key: str = ""


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

    def taken(self, topic: str, batch: Sequence[Delayed]) -> list[bool]:
        """Of each whether another message waits under its name, so that it would be a ``CONFLICT``.

        Raises ``Unavailable``.
        """
        ...


class Cancelled(StrEnum):
    """The definite answer to a cancellation."""

    CANCELLED = "cancelled"
    #: It is being published at this moment, or was, and the answer is lost.
    TOO_LATE = "too late"
    #: Published already, cancelled already, or never here.
    UNKNOWN = "unknown"


#: By what ``cancel.lua`` answers.
_ANSWERS = (Cancelled.UNKNOWN, Cancelled.CANCELLED, Cancelled.TOO_LATE)


class Whereabouts(Enum):
    """What the delay path knows of a message."""

    #: It waits, or is being published.
    KEPT = auto()
    #: It was cancelled, or given up because its topic is gone.
    CANCELLED = auto()
    #: Nothing: it was published, or lost, or never here.
    GONE = auto()


class RedisDelays:
    """A :class:`DelayPath` in Redis: a sorted set by due time and a hash of envelopes, under one hash tag.

    What is due and may not go yet lies in its topic's *lane*, by its due time: there it is in nobody's way, and none
    that is due later goes before it. A claim is told from a later one of the same place: who comes late with an answer
    touches nothing that is another's by now. Whoever cancels what may have been sent under a claim that ran out comes
    too late.

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
        self._cancelled = f"{self._base}:cancelled"
        self._lanes = f"{self._base}:lanes"
        self._sent = f"{self._base}:sent"
        self._replicas = replicas
        #: Of what was refused when it was due.
        self.refusals = DelayRefusals(store, self._scripts, self._base, self._clock.now_ms)

    @property
    def clock(self) -> Clock:
        """By which messages are due."""
        return self._clock

    def schedule(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        outcomes = self._schedule(topic, batch, look=True)
        former = [index for index, each in enumerate(outcomes) if each.error == FORMER]
        if former:
            again = [batch[index] for index in former]
            for index, outcome in zip(former, self._schedule_former(topic, again), strict=True):
                outcomes[index] = outcome
        return outcomes

    def taken(self, topic: str, batch: Sequence[Delayed]) -> list[bool]:
        try:
            answers = self._ask_taken(topic, batch, look=True)
            if _TAKEN_FORMER in answers:
                kept = [item for item, answer in zip(batch, answers, strict=True) if answer == _TAKEN_FORMER]
                self._adopt_ids(item.message_id for item in kept)
                answers = self._ask_taken(topic, batch, look=False)
        except redis.RedisError as error:
            raise Unavailable(f"The store refused: {words_of(error)}.", remedy="Look at the store's log.") from error
        return [answer == 1 for answer in answers]

    def due(self, limit: int = BATCH) -> list[Due]:
        """Claim what is due, for :data:`CLAIM_S` seconds. Raises ``Unavailable``.

        What is no entry of ours comes with an empty body; at what is no place of ours either it is put back for
        :data:`UNREADABLE_S`, and logged: it holds up none of the others.
        """
        now_ms = self._clock.now_ms()
        ends_ms = now_ms + round(CLAIM_S * 1000)
        keys = [self._waiting, self._moving, self._entries]
        return self._claimed(self._scripts.call("claim", keys, [now_ms, ends_ms, limit]), ends_ms)

    def take(self, topic: str, limit: int) -> list[Due]:
        """Claim the first of a topic's lane, likewise."""
        ends_ms = self._clock.now_ms() + round(CLAIM_S * 1000)
        keys = [self._lane(topic), self._lanes, self._moving, self._entries]
        return self._claimed(self._scripts.call("take", keys, [topic, ends_ms, limit]), ends_ms)

    def moving(self) -> dict[bytes, str]:
        """The places of all that is claimed, by whomever, and of claims that ran out; and their topics. Raises
        ``Unavailable``."""
        places = _asked(lambda: cast("list[bytes]", self._store.zrange(self._moving, 0, -1)))
        return {place: topic_of(place) for place in places}

    def _claimed(self, found: Sequence[bytes], ends_ms: int) -> list[Due]:
        entries = {bytes(place): bytes(entry) for place, entry in zip(found[::3], found[1::3], strict=True)}
        due_ms = {bytes(place): bytes(due) for place, due in zip(found[::3], found[2::3], strict=True)}
        moved = self._adopt([(place, entry) for place, entry in entries.items() if is_former(entry)])
        claimed, unreadable = [], []
        for lay, entry in entries.items():
            place = moved.get(lay, lay)
            try:
                kept = read_entry(entry)
            except msgspec.DecodeError as error:
                if topic := topic_of(place):
                    # As an envelope that nobody can read: it is refused, and told of by its place.
                    claimed.append(Due(place, topic, b"", ends_ms=ends_ms))
                    continue
                _log.error("what waits at %r can be read by nobody: %s", place[:200], error)
                unreadable.append(Due(place, "", b"", ends_ms=ends_ms))
            else:
                again = not due_ms[lay]
                due = kept.told_due_ms() if again else float(due_ms[lay])
                claimed.append(
                    Due(place, kept.topic, kept.body, kept.incarnation, kept.claimed_key, due, ends_ms, again)
                )
        self.postpone(unreadable, UNREADABLE_S)
        return claimed

    def complete(self, items: Sequence[Due]) -> None:
        """Forget claimed messages that were published. Raises ``Unavailable``."""
        if items:
            keys = [self._moving, self._entries, self._sent, *self.refusals.keys]
            self._scripts.call("complete", keys, _claims(items))

    def drop(self, items: Sequence[Due]) -> None:
        """Give claimed messages up that will never be published. Raises ``Unavailable``."""
        if items:
            keys = [self._moving, self._entries, self._cancelled, self._sent, *self.refusals.keys]
            self._scripts.call("drop", keys, [self._clock.now_ms(), *_claims(items)])

    def postpone(self, items: Sequence[Due], seconds: float) -> None:
        """Put claimed messages back for ``seconds``: others go before them. Raises ``Unavailable``."""
        if items:
            args: list[str | int | bytes] = [self._clock.now_ms() + round(seconds * 1000)]
            for item in items:
                args += [item.place, item.ends_ms, _flag(item.again)]
            self._scripts.call("postpone", [self._waiting, self._moving, self._sent], args)

    def hold(self, items: Sequence[Due], seconds: float) -> None:
        """Have claims end after ``seconds``: until then nobody can cancel them either. Raises ``Unavailable``."""
        if items:
            ends_ms = self._clock.now_ms() + round(seconds * 1000)
            self._scripts.call("hold", [self._moving], [ends_ms, *_claims(items)])

    def set_aside(self, topic: str, items: Sequence[Due]) -> None:
        """Put claimed messages into their topic's lane. Raises ``Unavailable``."""
        if items:
            args: list[str | int | bytes] = [topic]
            for item in items:
                args += [item.place, item.ends_ms, _flag(item.again), repr(item.due_ms)]
            self._scripts.call("aside", [self._moving, self._lane(topic), self._lanes, self._sent], args)

    def lanes(self) -> list[str]:
        """The topics in whose lane something lies, that of the oldest first. Raises ``Unavailable``."""
        return [topic.decode() for topic in _asked(lambda: cast("list[bytes]", self._store.zrange(self._lanes, 0, -1)))]

    def behind(self) -> dict[str, int]:
        """The topics in whose lane something lies, and when the oldest there was due, in epoch milliseconds. Raises
        ``Unavailable``."""
        ask = partial(self._store.zrange, self._lanes, 0, -1, withscores=True)
        return {topic.decode(): int(due_ms) for topic, due_ms in cast("list[tuple[bytes, float]]", _asked(ask))}

    def places_in(self, topic: str) -> Iterator[bytes]:
        """Where the messages of a topic wait that can be cancelled, without those that a release without places kept.
        It reads through all that waits, whatever its topic: for what is done seldom. Raises ``Unavailable``."""
        # What comes due meanwhile goes from here into the lane, and not back.
        begins = place_of(topic, "", "").removesuffix('"",""]')
        pattern = "".join(f"\\{each}" if each in "[]*?^\\-" else each for each in begins) + "*"
        cursor = 0
        while True:
            ask = partial(self._store.zscan, self._waiting, cursor, pattern, _SCANNED)
            cursor, found = cast("tuple[int, list[tuple[bytes, float]]]", _asked(ask))
            yield from (place for place, _ in found if topic_of(place) == topic)
            if not cursor:
                break
        yield from _asked(lambda: cast("list[bytes]", self._store.zrange(self._lane(topic), 0, -1)))

    def count(self) -> int:
        """How many messages wait. Raises ``Unavailable``."""
        return int(_asked(lambda: self._store.hlen(self._entries)))

    def standings(self, names: Sequence[tuple[str, str, str]]) -> list[Whereabouts]:
        """How each topic, source and id stands. Raises ``Unavailable``."""

        def ask() -> list[Whereabouts]:
            # Of one moment: what is cancelled, or kept anew, between two questions would seem to be gone.
            asked = self._store.pipeline(transaction=True)
            for topic, source, message_id in names:
                place = place_of(topic, source, message_id)
                # Under its bare id, if a release kept it that did not know places.
                asked.hexists(self._entries, place)
                asked.hexists(self._entries, message_id)
                asked.zscore(self._cancelled, place)
            answers = asked.execute()
            return [_stands(*each) for each in zip(answers[::3], answers[1::3], answers[2::3], strict=True)]

        return _asked(ask) if names else []

    def forget_cancelled(self, names: Sequence[tuple[str, str, str]]) -> None:
        """Whoever missed them knows now that they were cancelled. Raises ``Unavailable``."""
        if names:
            _asked(lambda: self._store.zrem(self._cancelled, *(place_of(*name) for name in names)))

    def overdue(self) -> int:
        """How many should have been published by now, without what was refused and rests. Raises ``Unavailable``."""
        now_ms = self._clock.now_ms()

        def ask() -> int:
            asked = self._store.pipeline(transaction=True)
            asked.hlen(self._entries)
            asked.zcount(self._waiting, f"({now_ms}", "+inf")
            kept, later = asked.execute()
            return max(0, int(kept) - int(later))

        return _asked(ask)

    def next_due_ms(self) -> int | None:
        """When the next one is due, epoch milliseconds; ``None`` when none waits. Raises ``Unavailable``."""

        lane, waiting = (
            _asked(partial(self._store.zrange, key, 0, 0, withscores=True)) for key in (self._lanes, self._waiting)
        )
        return min((int(due) for _, due in [*lane, *waiting]), default=None)

    def cancel(self, topic: str, source: str, message_id: str) -> Cancelled:
        """Cancel a message that is not due yet. Raises ``Unavailable``."""
        place = place_of(topic, source, message_id)
        answer = self._cancel(topic, place, message_id)
        if answer == _CANCEL_FORMER:
            self._adopt_ids([message_id])
            answer = self._cancel(topic, place, "")
        return _ANSWERS[answer]

    def cancel_at(self, topic: str, places: Sequence[bytes]) -> list[Cancelled]:
        """The same for places of one topic that :meth:`places_in` gave, in one round trip. Raises ``Unavailable``; then
        nobody knows which of them are cancelled."""
        if not places:
            return []
        answers = self._scripts.call_each("cancel", [self._cancelling(topic, place, "") for place in places])
        return [_ANSWERS[int(answer)] for answer in answers]

    def _schedule(self, topic: str, batch: Sequence[Delayed], *, look: bool) -> list[Outcome]:
        keys = [self._waiting, self._moving, self._entries, self._cancelled, self._lane(topic)]
        args: list[str | int | bytes] = [_flag(look)]
        for item in batch:
            key, former_key = (
                self._key(keys, topic, name) if name else 0 for name in (item.idempotency_key, item.former_key)
            )
            entry = written(DelayEntry(topic, item.body, item.incarnation, item.claimed_key), item.digest)
            place = place_of(topic, item.source, item.message_id)
            args += [place, item.message_id, item.due_ms, entry, key, item.digest, item.idempotency_window_ms]
            args.append(former_key)
        try:
            if self._replicas:
                wanted = self._replicas
                answers, reached = self._scripts.call_replicated("schedule", keys, args, wanted)
                return replicated(outcomes_of(batch, answers), reached, wanted)
            answers = self._scripts.call("schedule", keys, args)
        except AnswerLost as error:
            return [Outcome(Status.UNKNOWN, item.message_id, error=error.what) for item in batch]
        except (Unavailable, redis.RedisError) as error:
            return not_kept(batch, error)
        return outcomes_of(batch, answers)

    def _lane(self, topic: str) -> str:
        return f"{self._base}:lane:{topic}"

    def _key(self, keys: list[str], topic: str, name: str) -> int:
        keys.append(f"{self._base}:key:{topic}:{name}")
        return len(keys)

    def _schedule_former(self, topic: str, batch: Sequence[Delayed]) -> list[Outcome]:
        """Schedule what has a bare id of a release before in its way."""
        try:
            self._adopt_ids(item.message_id for item in batch)
        except (Unavailable, redis.RedisError) as error:
            return not_kept(batch, error)
        return self._schedule(topic, batch, look=False)

    def _ask_taken(self, topic: str, batch: Sequence[Delayed], *, look: bool) -> list[int]:
        args = [_flag(look)]
        for item in batch:
            args += [place_of(topic, item.source, item.message_id), item.message_id, item.digest]
        return list(map(int, self._scripts.call("taken", [self._entries], args)))

    def _cancel(self, topic: str, place: str, former: str) -> int:
        return int(self._scripts.call("cancel", *self._cancelling(topic, place, former)))

    def _cancelling(self, topic: str, place: str | bytes, former: str) -> tuple[list[str], list[Arg]]:
        """Keys and arguments of ``cancel.lua``."""
        lies = [self._waiting, self._moving, self._entries, self._cancelled, self._lane(topic), self._sent]
        return [*lies, *self.refusals.keys], [place, former, self._clock.now_ms(), round(CANCELLED_S * 1000)]

    def _adopt_ids(self, ids: Iterable[str]) -> None:
        """Give what lies under bare ids the places of its messages. Raises ``Unavailable``."""
        wanted = list(dict.fromkeys(ids))
        entries = _asked(lambda: self._store.hmget(self._entries, wanted))
        found = [
            (each.encode(), entry) for each, entry in zip(wanted, entries, strict=True) if isinstance(entry, bytes)
        ]
        self._adopt([each for each in found if is_former(each[1])])

    def _adopt(self, former: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        """The places of entries of a release before, by the bare ids under which they lay: whoever repeats or cancels
        such a message looks for it there. What nobody can read stays. Raises ``Unavailable``."""
        places: dict[bytes, bytes] = {}
        args: list[str | bytes] = []
        for lay, entry in former:
            try:
                kept = read_entry(entry)
                message = decode(kept.body)
            except (msgspec.DecodeError, MalformedEnvelope):
                continue
            places[lay] = place_of(kept.topic, message.source, message.id).encode()
            read = hashlib.sha1(entry, usedforsecurity=False).hexdigest()
            args += [lay, read, places[lay], digest(message)]
        if not places:
            return {}
        moved = self._scripts.call("adopt", [self._waiting, self._moving, self._entries], args)
        return {lay: place for (lay, place), there in zip(places.items(), moved, strict=True) if there}


def _flag(value: bool) -> str:
    return "1" if value else ""


def _claims(items: Iterable[Due]) -> list[bytes | int]:
    return [each for item in items for each in (item.place, item.ends_ms)]


def _stands(at_place: bool, former: bool, cancelled_ms: float | None) -> Whereabouts:
    if at_place or former:
        return Whereabouts.KEPT
    return Whereabouts.GONE if cancelled_ms is None else Whereabouts.CANCELLED


def _asked(question: Callable[[], T]) -> T:
    with answered():
        return question()
