"""The Redis Streams transport: publishing, and the doors to receivers and the admin side."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from typing import Any

import msgspec

from engine.bus.chunking import chunked
from engine.bus.config import BusConfig
from engine.bus.replicas import replicated
from engine.bus.transport import Admin, Capabilities, Outcome, Outgoing, Priority, Receiver, Status
from engine.bus.transports.redis_stream.admin import RedisStreamAdmin
from engine.bus.transports.redis_stream.keys import PRIORITIES, TopicKeys
from engine.bus.transports.redis_stream.ordering import RedisPartitions
from engine.bus.transports.redis_stream.positions import MARKS, suffix_of
from engine.bus.transports.redis_stream.receiver import PartitionReader, RedisStreamReceiver
from engine.bus.transports.redis_stream.scripts import APPEND, PUBLISH
from engine.bus.transports.redis_stream.times import StoreTime
from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.core.scripts import Script, wait_for
from engine.core.store.link import AnswerLost, Arg, Conversation, Link

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

_RANKS = {priority: rank for rank, priority in enumerate(PRIORITIES, start=1)}
_plan_encoder = msgspec.json.Encoder()


class RedisStreamTransport(RedisPartitions):
    """A topic is three streams, a group one sorted set of leases beside the streams' own pending lists.

    Needs Redis 6.2 or later, or Valkey. Leases, due times and windows are read from the server's clock unless a clock
    is injected. Thread-safe; after a fork the child opens connections of its own.
    """

    name = "redis_stream"

    def __init__(self, config: BusConfig, clock: Clock | None = None) -> None:
        self._prefix = config.prefix
        self._time = StoreTime(clock)
        self._link = Link.open(config.url)
        self._admin = RedisStreamAdmin(self._link, config.prefix, self._time)
        self._keys: dict[str, TopicKeys] = {}
        self._replicas = 0

    def __repr__(self) -> str:
        return f"RedisStreamTransport({self._link.address}, prefix={self._prefix!r})"

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def admin(self) -> Admin:
        return self._admin

    def confirming(self, replicas: int) -> RedisStreamTransport:
        made = copy(self)
        made._replicas = replicas
        return made

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        keys = self._topic(topic)
        outcomes: list[Outcome] = []
        for chunk in chunked(batch):
            if len(chunk) == 1 and len(chunk[0].body) > CAPABILITIES.max_bytes:
                outcomes.append(_too_large(chunk[0]))
                continue
            try:
                outcomes += self._append(keys, chunk)
            except Unavailable as error:
                status = Status.UNKNOWN if isinstance(error, AnswerLost) else Status.FAILED
                outcomes += [Outcome(status, each.message_id, error=str(error)) for each in chunk]
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
                if error is None:
                    script, script_keys, args = self._call(keys, chunk)
                    try:
                        # By its text, not by its digest: a server that does not know the digest would refuse this
                        # chunk and might take the next.
                        conversation.send(("EVAL", script.text, len(script_keys), *script_keys, *args))
                        if self._replicas:
                            conversation.send(wait_for(self._replicas))
                    except Unavailable as failure:
                        error = failure
                    else:
                        sent.append(chunk)
                unsent = error is not None
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

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> Receiver:
        keys = TopicKeys(self._prefix, topic, partition).group(group)
        end = PartitionReader(keys, group=group, consumer=consumer, lease_ms=lease_ms, time=self._time)
        return RedisStreamReceiver(self._link, end, self._time)

    def ping(self) -> float:
        started = time.perf_counter()
        self._link.ping()
        return time.perf_counter() - started

    def close(self) -> None:
        self._link.close()

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
            status = Status.UNKNOWN if isinstance(error, AnswerLost) else Status.FAILED
            return [Outcome(status, each.message_id, error=str(error)) for each in chunk], error

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
        if what == "failed":
            return Outcome(Status.FAILED, each.message_id, error=str(self._link.refused(first)))
        if what == "ok":
            return Outcome(Status.OK, each.message_id)
        if what == "held":
            return Outcome(Status.HELD, first, due_ms=int(position[1:]))
        if position.startswith("@"):
            position = ""
        error = "" if what == "duplicate" else "the idempotency key was used before with another body"
        return Outcome(Status(what), first, position, error)


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
    return [Outcome(Status.FAILED, each.message_id, error=why) for each in rest]


def _too_large(each: Outgoing) -> Outcome:
    limit = CAPABILITIES.max_bytes
    return Outcome(
        Status.FAILED, each.message_id, error=f"The envelope has {len(each.body)} bytes, and {limit} is the limit."
    )


def open_transport(config: BusConfig, clock: Clock | None = None) -> Any:
    """Open the transport; no connection is made before the first command."""
    return RedisStreamTransport(config, clock)
