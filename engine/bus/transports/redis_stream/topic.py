"""A topic in the store: its keys, made here and nowhere else, and how messages are appended to it.

All keys of a topic share one hash tag, so that one script reaches them on a cluster.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from engine.bus.bounds import too_large
from engine.bus.chunking import chunked
from engine.bus.replicas import replicated
from engine.bus.transport import Capabilities, Outcome, Outgoing, Priority, Status
from engine.bus.transports.redis_stream.scripts import APPEND, PUBLISH
from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Unavailable
from engine.core.ids import ending
from engine.core.scripts import Script
from engine.core.store.failures import EXHAUSTED, AnswerLost, Refused
from engine.core.store.link import Arg, Conversation, Link

#: The streams of a topic in the order they are read; a message's rank is its index here plus one.
PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.LOW)
#: The letter behind the id in a position, by rank.
MARKS = ("h", "", "l")
#: How many chunks may be with the store at once: one it works on and some that wait there, lest it wait for us.
AHEAD = 4

CAPABILITIES = Capabilities(
    durable=True,
    browse=True,
    seek=True,
    priority=True,
    idempotent_publish=True,
    ordered=True,
    pause=True,
    partitions=True,
)

#: Neither XDEL nor XSETID brings a stream back from there.
_MAKE_ANEW = (
    "Publishing it again cannot help: the stream takes nothing more. Once what it holds is settled, move the topic to "
    "another transport and back, or delete it with its subscriptions and make it anew."
)
#: Said of a topic that stores nothing.
CLOSED = "its topic takes nothing here any more: it was moved or deleted meanwhile"
PUBLISH_ANEW = "Publish it again: it goes where the topic is now."
_RANKS = {priority: rank for rank, priority in enumerate(PRIORITIES, start=1)}
_plan_encoder = msgspec.json.Encoder()

#: Braces would end the hash tag early and scatter a topic over a cluster; blanks and control characters help nobody.
_NAME = re.compile(r"[^\s{}\x00-\x1f\x7f]{1,200}")


def checked(name: str, field: str) -> str:
    """``name`` if it may be part of a key; raises :class:`BadInput` naming ``field``."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a {field}.",
            remedy="Use 1 to 200 characters without blanks and braces.",
            field=field,
        )
    return name


class StoreTime:
    """Which clock leases and due times are read from: gives scripts their ``now`` argument, which is empty for the
    server's own clock, that all consumers share."""

    def __init__(self, clock: Clock | None) -> None:
        # The machine's clock is no better than the store's, and differs from node to node.
        self._clock = None if isinstance(clock, SystemClock) else clock

    @property
    def injected(self) -> bool:
        """Whether time moves only when somebody moves it."""
        return self._clock is not None

    def now(self) -> int | str:
        return "" if self._clock is None else self._clock.now_ms()


class TopicKeys:
    """The keys of one topic: three streams a partition, its statistics, its idempotency keys.

    Partition 0 has the names of a topic that knows no partitions, so that one may get more of them later.
    """

    def __init__(self, prefix: str, topic: str, partition: int = 0) -> None:
        self._root = f"{prefix}:{{{checked(topic, 'topic')}}}"
        self.partition = partition
        self._place = f"{self._root}:p{partition}" if partition else self._root
        self.streams = tuple(f"{self._place}:{priority}" for priority in PRIORITIES)
        self.stats = f"{self._root}:stats"
        #: How many entries retention has taken of each stream, by the name of its log.
        self.trimmed = f"{self._root}:trimmed"
        #: What a publish without idempotency keys touches.
        self.publish = (*self.streams, self.stats)
        #: And one that asks for nothing else, either.
        self.append = (self.stream_of(partition), self.stats)

    def stream_of(self, partition: int) -> str:
        """Where messages of a partition go: they are ordered, so they have one priority."""
        return f"{self._root}:p{partition}:{Priority.NORMAL}" if partition else f"{self._root}:{Priority.NORMAL}"

    def idempotency(self, key: str) -> str:
        """Where an idempotency key is remembered."""
        return f"{self._root}:idem{ending(key)}"

    def written(self, write: str) -> str:
        """Where it is remembered what was stored under a write."""
        return f"{self._root}:idem-written{ending(write)}"

    def lanes(self, write: str, run: str) -> str:
        """Where it is remembered to which lane of a run each ordering key belongs."""
        return f"{self._root}:idem-lanes{ending(f'{len(write)} {write} {run}')}"

    @property
    def idempotency_pattern(self) -> str:
        """Matches every key of the topic that remembers what was published, for SCAN."""
        return re.sub(r"([\\*?\[\]^])", r"\\\1", f"{self._root}:idem") + "[-:#]*"

    def group(self, group: str) -> GroupKeys:
        """The keys of a group's part in this partition."""
        return GroupKeys(self, f"{self._place}:group:{checked(group, 'group')}")

    def seats(self, group: str) -> SeatKeys:
        """The keys of what concerns a group's partitions together."""
        return SeatKeys(f"{self._root}:group:{checked(group, 'group')}")


class GroupKeys:
    """The keys of one group in one partition; ``lua/common.lua`` says what they hold."""

    def __init__(self, topic: TopicKeys, root: str) -> None:
        self.partition = topic.partition
        self.streams = topic.streams
        self.leases = f"{root}:leases"
        self.tries = f"{root}:tries"
        self.state = f"{root}:state"
        self.wake = f"{root}:wake"
        self.dead = f"{root}:dead"
        self.parked = f"{root}:parked"
        self.aside = f"{root}:aside"
        self.heads = f"{root}:heads"
        self.receive = (*self.streams, self.leases, self.tries, self.state, self.wake, self.parked)
        self.settle = (*self.receive[:-1], self.dead, self.parked, self.aside, self.heads)
        self.extend = (*self.streams, self.leases, self.state)
        self.inspect = (*self.extend, self.dead, topic.stats)
        self.place = (*self.settle, topic.stats)


class SeatKeys:
    """Who reads the partitions of one group: the consumers present, and the owner of each partition."""

    def __init__(self, root: str) -> None:
        self.members = f"{root}:members"
        self.owners = f"{root}:owners"
        self.own = (self.members, self.owners)


def suffix_of(partition: int) -> str:
    """What names the partition at the end of a position."""
    return f"p{partition}" if partition else ""


class RedisPublishing:
    """The publishing side of the transport: a script for each chunk of a batch. Thread-safe."""

    capabilities = CAPABILITIES

    def __init__(self, link: Link, prefix: str, time: StoreTime) -> None:
        self._link = link
        self._prefix = prefix
        self._time = time
        self._keys: dict[str, TopicKeys] = {}
        self._replicas = 0

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        keys = self._topic(topic)
        outcomes: list[Outcome] = []
        for chunk in chunked(batch) if len(batch) > 1 else (batch,):
            if len(chunk) == 1 and len(chunk[0].body) > CAPABILITIES.max_bytes:
                outcomes.append(_too_large(chunk[0]))
                continue
            try:
                outcomes += self._append(keys, chunk)
            except Unavailable as error:
                outcomes += [_not_stored(each, error) for each in chunk]
                # Sending the rest now would break the order of the batch.
                outcomes += _not_sent(batch[len(outcomes) :], error)
                break
        return outcomes

    def claim(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        # A claim goes the way of a publish, through the same script; its place in the plan makes it one.
        return self.publish(topic, batch)

    def publish_chunks(self, topic: str, chunks: Iterator[Sequence[Outgoing]]) -> Iterator[list[Outcome]]:
        keys = self._topic(topic)
        sent: deque[Sequence[Outgoing]] = deque()
        error: Unavailable | None = None
        with ExitStack() as stack:
            try:
                conversation = stack.enter_context(self._link.conversation(keys.stats))
            except Unavailable as failure:
                error = failure
            for chunk in chunks:
                unsent = True
                if error is None:
                    script, script_keys, args = self._call(keys, chunk)
                    try:
                        # By its text, not by its digest: a server that does not know the digest would refuse this
                        # chunk and might take the next.
                        conversation.send(("EVAL", script.text, len(script_keys), *script_keys, *args))
                        unsent = False
                        sent.append(chunk)
                        if self._replicas:
                            conversation.ask_replicas(self._replicas)
                    except Unavailable as failure:
                        error = failure
                # While the store is at work on one chunk, the caller builds the next.
                while sent and (len(sent) >= AHEAD or error is not None):
                    outcomes, failed = self._answer(conversation, sent.popleft())
                    error = error or failed
                    yield outcomes
                if unsent:
                    yield _not_sent(chunk, error)
            while sent:
                outcomes, failed = self._answer(conversation, sent.popleft())
                error = error or failed
                yield outcomes

    def _topic(self, topic: str) -> TopicKeys:
        keys = self._keys.get(topic)
        if keys is None:
            keys = self._keys[topic] = TopicKeys(self._prefix, topic)
        return keys

    def _append(self, keys: TopicKeys, chunk: Sequence[Outgoing]) -> list[Outcome]:
        script, script_keys, args = self._call(keys, chunk)
        if not self._replicas:
            return self._outcomes(chunk, self._link.run(script, script_keys, args))
        replies, reached = self._link.run_replicated(script, script_keys, args, self._replicas)
        return replicated(self._outcomes(chunk, replies), reached, self._replicas)

    def _call(self, keys: TopicKeys, chunk: Sequence[Outgoing]) -> tuple[Script, Sequence[str], tuple[Arg, ...]]:
        script_keys, plan = _plan(keys, chunk)
        bodies = [each.body for each in chunk]
        if not plan and not self._time.injected:
            return APPEND, keys.append, (*bodies,)
        return PUBLISH, script_keys, (self._time.now(), plan, *bodies)

    def _answer(
        self, conversation: Conversation, chunk: Sequence[Outgoing]
    ) -> tuple[list[Outcome], Unavailable | None]:
        """What became of a chunk that was sent, and what went wrong, if anything did."""
        try:
            outcomes = self._outcomes(chunk, conversation.answer())
            if self._replicas:
                outcomes = replicated(outcomes, conversation.replicas_reached(), self._replicas)
            return outcomes, None
        except Unavailable as error:
            return [_not_stored(each, error) for each in chunk], error

    def _outcomes(self, chunk: Sequence[Outgoing], replies: Sequence[Any]) -> list[Outcome]:
        ok, marks, ranks, normal = Status.OK, MARKS, _RANKS, Priority.NORMAL
        return [
            Outcome(
                ok,
                each.message_id,
                reply.decode()
                if each.priority is normal and not each.partition
                else reply.decode() + (suffix_of(each.partition) or marks[ranks[each.priority] - 1]),
            )
            if type(reply) is bytes
            else self._other(each, reply)
            for each, reply in zip(chunk, replies, strict=True)
        ]

    def _other(self, each: Outgoing, reply: list[bytes]) -> Outcome:
        what, first, position = (part.decode() for part in reply)
        if what == "closed":
            return Outcome(Status.FAILED, each.message_id, error=CLOSED, remedy=PUBLISH_ANEW)
        if what == "failed":
            return _not_stored(each, self._link.refused(first))
        if what == "ok":
            return Outcome(Status.OK, each.message_id)
        if what == "held":
            return Outcome(Status.HELD, first, due_ms=int(position[1:]))
        if position.startswith("@"):
            position = ""
        error = "" if what == "duplicate" else "the idempotency key was used before with another body"
        return Outcome(Status(what), first, position, error)


def _not_stored(each: Outgoing, error: Unavailable) -> Outcome:
    if isinstance(error, AnswerLost):
        return Outcome(Status.UNKNOWN, each.message_id, error=str(error))
    return Outcome(Status.FAILED, each.message_id, error=str(error), remedy=_remedy(error))


def _remedy(error: Unavailable | None) -> str:
    """What helps where a repeat cannot."""
    return _MAKE_ANEW if isinstance(error, Refused) and EXHAUSTED in error.words else ""


def _plan(keys: TopicKeys, chunk: Sequence[Outgoing]) -> tuple[Sequence[str], bytes]:
    """The script's keys, and what it must know of each message: nothing when all are normal and without a key."""
    normal = Priority.NORMAL
    if not any(each.idempotency_key or each.partition or each.priority is not normal for each in chunk):
        return keys.publish, b""
    script_keys = list(keys.publish)
    plan: list[tuple[int, str, str, int, int, str]] = []
    streams: dict[int, int] = {}
    for each in chunk:
        stream, suffix = _RANKS[each.priority], MARKS[_RANKS[each.priority] - 1]
        if each.partition:
            suffix = suffix_of(each.partition)
            if each.partition not in streams:
                script_keys.append(keys.stream_of(each.partition))
                streams[each.partition] = len(script_keys)
            stream = streams[each.partition]
        if each.due_ms:
            stream, suffix = 0, f"@{each.due_ms}"
        index = 0
        if each.idempotency_key:
            script_keys.append(keys.idempotency(each.idempotency_key))
            index = len(script_keys)
        # The server takes no window of zero; one of less than a millisecond remembers nothing worth having.
        window_ms = max(1, each.idempotency_window_ms)
        plan.append((stream, each.message_id, each.idempotency_digest, window_ms, index, suffix))
    return script_keys, _plan_encoder.encode(plan)


def _not_sent(rest: Sequence[Outgoing], error: Unavailable | None) -> list[Outcome]:
    why = f"Not sent, because messages before it failed: {error}"
    return [Outcome(Status.FAILED, each.message_id, error=why, remedy=_remedy(error)) for each in rest]


def _too_large(each: Outgoing) -> Outcome:
    return Outcome(Status.FAILED, each.message_id, error=too_large(CAPABILITIES.max_bytes))
