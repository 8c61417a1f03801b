"""One call of a producer: chunk after chunk to the transport, an answer and a fact for each message.

Where the transport can, the next chunk is built while it stores the one before. That is where the speed of batches
comes from: neither side waits for the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from engine.bus import building
from engine.bus.catalog import TopicPolicy
from engine.bus.delays import DelayPath
from engine.bus.errors import PublishRefused
from engine.bus.facts import Fact, batches
from engine.bus.message import Message, encode
from engine.bus.partitions import partition_of
from engine.bus.receipts import Answer, Receipt, ReceiptStatus, answer_to
from engine.bus.schedule_once import Kept, Later, ScheduleOnce
from engine.bus.transport import Outcome, Outgoing, Overlapping, Priority, Status, Transport
from engine.core.clock import Clock
from engine.core.facts import Emitter
from engine.core.ids import trace_id_of

#: How many messages, and how many bytes of envelopes, go to the store in one call.
CHUNK = 500
CHUNK_BYTES = 4 * 1024 * 1024
#: Likewise where chunks overlap: small enough that the store begins early, large enough to be worth a call.
OVERLAPPED_CHUNK = 100

#: What a call was given of each message.
Thing = TypeVar("Thing")


class _Chunk:
    """What goes out in one call, and since when."""

    __slots__ = ("begun", "indexes", "messages", "outgoing", "size")

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.messages: list[Message] = []
        self.outgoing: list[Outgoing] = []
        self.size = 0
        self.begun = 0.0


class Sending(Generic[Thing]):
    """One call: ``make`` gives the envelope and the idempotency key of a thing, or refuses it. Used once."""

    def __init__(
        self,
        policy: TopicPolicy,
        transport: Transport,
        *,
        make: Callable[[Thing], tuple[Message, str]],
        facts: Emitter,
        clock: Clock,
        delays: DelayPath | None,
        node: str,
    ) -> None:
        self._policy = policy
        self._transport = transport
        self._make = make
        self._facts = facts
        self._clock = clock
        self._delays = delays
        self._node = node
        self._limit = size_limit(policy, transport)
        self._answers: list[Answer | None] = []
        self._later: list[tuple[int, Later]] = []
        self._schedule_once = ScheduleOnce(policy.name, transport, delays)

    def run(self, things: Sequence[Thing]) -> list[Answer]:
        """Send all; each is answered in its place."""
        self._answers = [None] * len(things)
        # On an ordered topic a chunk must not be stored when the one before it was refused: there they do not overlap.
        overlap = len(things) > OVERLAPPED_CHUNK and self._policy.ordering == "none"
        transport, topic = self._transport, self._policy.name
        answered: Iterator[Sequence[Outcome]]
        under_way: deque[_Chunk] = deque()
        if overlap and isinstance(transport, Overlapping):
            outgoing = self._outgoing(things, OVERLAPPED_CHUNK, under_way)
            answered = transport.publish_chunks(topic, outgoing)
        else:
            answered = _one_by_one(transport, topic, self._outgoing(things, CHUNK, under_way))
        for outcomes in answered:
            self._book(under_way.popleft(), outcomes)
        for start in range(0, len(self._later), CHUNK):
            self._schedule(self._later[start : start + CHUNK])
        return [answer for answer in self._answers if answer is not None]

    def _outgoing(self, things: Iterable[Thing], most: int, under_way: deque[_Chunk]) -> Iterator[list[Outgoing]]:
        """The chunks, each noted in ``under_way`` when the transport asks for it."""
        for chunk in self._chunks(things, most):
            chunk.begun = self._clock.monotonic()
            under_way.append(chunk)
            yield chunk.outgoing

    def _chunks(self, things: Iterable[Thing], most: int) -> Iterator[_Chunk]:
        policy, make, limit, now_ms = self._policy, self._make, self._limit, self._clock.now_ms()
        undivided = policy.partitions == 1
        chunk = _Chunk()
        for index, thing in enumerate(things):
            try:
                message, key = make(thing)
                body = encode(message)
                size = len(body)
                if size > limit:
                    raise too_large(policy, limit, body)
                if key:
                    building.check_idempotency_key(key)
                if message.hbusdue and (due_ms := building.due_ms_of(message)) > now_ms:
                    self._later.append((index, self._for_later(message, body, due_ms, key)))
                    continue
            except PublishRefused as error:
                self._answers[index] = error
                continue
            if len(chunk.indexes) == most or chunk.size + size > CHUNK_BYTES:
                if chunk.indexes:
                    yield chunk
                chunk = _Chunk()
            chunk.indexes.append(index)
            chunk.messages.append(message)
            plain = undivided and not key and not message.hbuspriority
            chunk.outgoing.append(Outgoing(message.id, body) if plain else _outgoing(policy, message, body, key))
            chunk.size += size
        if chunk.indexes:
            yield chunk

    def _book(self, chunk: _Chunk, outcomes: Sequence[Outcome]) -> None:
        """Answer a chunk and emit its facts."""
        duration_us = round((self._clock.monotonic() - chunk.begun) * 1_000_000)
        now_ms, node, topic, answers = self._clock.now_ms(), self._node, self._policy.name, self._answers
        ok, stored = Status.OK, ReceiptStatus.STORED
        facts: list[Fact] = []
        failed: list[Outcome] = []
        held: list[tuple[int, Message, Outgoing, Outcome]] = []
        for index, message, outgoing, outcome in zip(
            chunk.indexes, chunk.messages, chunk.outgoing, outcomes, strict=True
        ):
            if outcome.status is ok:
                kind = "published"
                answers[index] = Receipt(outcome.message_id, topic, outcome.position, stored)
            elif outcome.status is Status.HELD:
                held.append((index, message, outgoing, outcome))
                continue
            else:
                answers[index] = answer = answer_to(topic, outcome)
                if not isinstance(answer, Receipt):
                    failed.append(outcome)
                    continue
                kind = "deduplicated"
            facts.append(
                Fact(
                    kind,
                    now_ms,
                    topic,
                    "",
                    outcome.message_id,
                    message.partitionkey,
                    message.correlationid,
                    message.causationid,
                    trace_id_of(message.traceparent),
                    message.type,
                    message.source,
                    outcome.position,
                    0,
                    duration_us,
                    len(outgoing.body),
                    0,
                    node,
                )
            )
        if failed:
            facts += self._failed(failed, now_ms)
        if facts:
            self._facts.emit(batches(facts))
        if held:
            kept = self._schedule_once.see_to(
                [(one, sent.idempotency_window_ms, claim) for _, one, sent, claim in held]
            )
            self._book_kept([(index, one, len(sent.body)) for index, one, sent, _ in held], kept)

    def _schedule(self, later: Sequence[tuple[int, Later]]) -> None:
        kept = self._schedule_once.keep([each for _, each in later])
        self._book_kept([(index, each.message, len(each.body)) for index, each in later], kept)

    def _book_kept(self, sent: Sequence[tuple[int, Message, int]], kept: Sequence[Kept]) -> None:
        """Answer messages, each with its size, that concern the delay path, and emit their facts."""
        now_ms, topic = self._clock.now_ms(), self._policy.name
        facts = self._failed([each.outcome for each in kept], now_ms)
        for (index, message, size), each in zip(sent, kept, strict=True):
            self._answers[index] = answer = answer_to(topic, each.outcome, due_ms=each.due_ms)
            if not isinstance(answer, Receipt):
                continue
            kinds = ["delayed" if answer.status is ReceiptStatus.DELAYED else "deduplicated"]
            if each.carried_out:
                kinds.insert(0, "delayed")
            facts += [
                Fact(
                    kind,
                    now_ms,
                    topic,
                    message_id=answer.message_id,
                    key=message.partitionkey,
                    correlation_id=message.correlationid,
                    causation_id=message.causationid,
                    trace_id=trace_id_of(message.traceparent),
                    type=message.type,
                    source=message.source,
                    position=answer.position,
                    size=size,
                    due_ms=answer.due_ms,
                    node=self._node,
                )
                for kind in kinds
            ]
        if facts:
            self._facts.emit(batches(facts))

    def _failed(self, outcomes: Sequence[Outcome], now_ms: int) -> list[Fact]:
        """One fact for all that the store did not take, or not surely; a conflict is the caller's mistake."""
        failed = [outcome for outcome in outcomes if outcome.status in (Status.FAILED, Status.UNKNOWN)]
        if not failed:
            return []
        error = failed[0].error
        return [Fact("publish_failed", now_ms, self._policy.name, size=len(failed), node=self._node, error=error)]

    def _for_later(self, message: Message, body: bytes, due_ms: int, key: str) -> Later:
        if self._delays is None:
            raise PublishRefused(
                "This producer has no delay path, so it cannot keep a message until it is due.",
                remedy="Give the producer one, or publish without delay.",
                field="due",
            )
        building.check_horizon(due_ms, self._clock.now_ms())
        return Later(message, body, due_ms, key, self._policy.idempotency_window_s * 1000 if key else 0)


def size_limit(policy: TopicPolicy, transport: Transport) -> int:
    """The largest envelope that topic and transport both take, in bytes."""
    return min(policy.max_bytes, transport.capabilities.max_bytes)


def too_large(policy: TopicPolicy, limit: int, body: bytes) -> PublishRefused:
    """What is said of an envelope beyond ``limit``."""
    return PublishRefused(
        f"The envelope has {len(body):,} bytes; topic {policy.name!r} takes {limit:,}.",
        remedy="Store large data elsewhere and send its address, or raise the topic's limit.",
        field="payload",
    )


def _outgoing(policy: TopicPolicy, message: Message, body: bytes, key: str) -> Outgoing:
    priority = Priority(message.hbuspriority) if message.hbuspriority else Priority.NORMAL
    partition = partition_of(message.partitionkey, message.id, policy.partitions)
    if not key:
        return Outgoing(message.id, body, priority, partition=partition)
    window_ms = policy.idempotency_window_s * 1000
    return Outgoing(message.id, body, priority, key, building.digest(message), window_ms, partition)


def _one_by_one(transport: Transport, topic: str, chunks: Iterable[Sequence[Outgoing]]) -> Iterator[Sequence[Outcome]]:
    """Each chunk after the answer to the one before; nothing more is sent once the store took none of a chunk."""
    error = ""
    for chunk in chunks:
        if error:
            why = f"not sent, because messages before it failed: {error}"
            yield [Outcome(Status.FAILED, each.message_id, error=why) for each in chunk]
            continue
        outcomes = transport.publish(topic, chunk)
        if all(outcome.status in (Status.FAILED, Status.UNKNOWN) for outcome in outcomes):
            error = outcomes[0].error
        yield outcomes
