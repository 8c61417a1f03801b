"""The producer: governed, checked, confirmed publishing, one message or many.

A call goes out in chunks, and every message of it is answered in its place. Where the transport can, the next chunk is
built while it stores the one before: that is where the speed of batches comes from, for neither side waits for the
other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic

import msgspec

from engine.bus.building import BatchItem, EnvelopeBuilder, Prepared, check_topic
from engine.bus.catalog import TopicCatalog, TopicPolicy
from engine.bus.chunking import CHUNK_BYTES, CHUNK_MESSAGES
from engine.bus.delays import DelayPath
from engine.bus.errors import ProducerClosed, PublishRefused
from engine.bus.facts import BusFields, Fact, batches
from engine.bus.message import Message, encode
from engine.bus.options import NO_OPTIONS, PublishOptions
from engine.bus.publish_times import due_ms_of
from engine.bus.receipts import Answer, Receipt, ReceiptStatus, answer_to
from engine.bus.replicas import confirming
from engine.bus.schedule_once import Kept, ScheduleOnce, later_of
from engine.bus.sizes import check_size
from engine.bus.transport import Outcome, Outgoing, Overlapping, Status, Transport
from engine.bus.ways import Make, Thing, Way
from engine.core.clock import Clock, SystemClock
from engine.core.errors import HbusError
from engine.core.facts import Emitter, FactBatch

__all__ = ["Answer", "BatchItem", "Producer", "Receipt", "ReceiptStatus"]

#: How many messages go to the store in one call where chunks overlap: so few that the store begins early, so many that
#: they are worth a call.
OVERLAPPED_CHUNK = 100


class Producer:
    """Publishes to any topic of the catalog. Thread-safe; blocks until the store has confirmed.

    Whatever is refused leaves nothing behind. ``facts`` hears of each message once; ``transports`` gives the transport
    of a name from the catalog; ``delays`` takes what is due later (without one, such a publish is refused).
    """

    def __init__(
        self,
        transports: Callable[[str], Transport],
        catalog: TopicCatalog,
        *,
        source: str,
        facts: Emitter,
        clock: Clock | None = None,
        delays: DelayPath | None = None,
        node: str = "",
    ) -> None:
        self._transports = transports
        self._catalog = catalog
        self._source = source
        self._facts = facts
        self._clock = clock or SystemClock()
        self._delays = delays
        self._node = node
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running = 0
        self._closed = False

    def publish(self, topic: str, payload: Any, options: PublishOptions = NO_OPTIONS) -> Receipt:
        """Publish one message with a JSON payload.

        Raises :class:`PublishRefused` (or one of its kinds) when nothing was sent, :class:`PublishFailed` when it was
        certainly not stored, :class:`PublishUnknown` when it may be: repeat with the same idempotency key.
        """
        return self._one(topic, BatchItem(payload, options))

    def publish_raw(
        self,
        topic: str,
        body: bytes,
        options: PublishOptions = NO_OPTIONS,
        *,
        content_type: str = "application/octet-stream",
    ) -> Receipt:
        """Publish bytes as they are; a JSON ``content_type`` makes them the JSON payload. Raises as :meth:`publish`."""
        return self._one(topic, BatchItem(None, options, body, content_type))

    def publish_batch(self, topic: str, items: Sequence[BatchItem]) -> list[Answer]:
        """Publish many; each is answered in its place by a receipt or by the error :meth:`publish` would raise.

        An unknown or ownerless topic is raised, for it is no single item's fault.
        """
        policy = self._policy(topic)
        builder = EnvelopeBuilder(policy, source=self._source, now_ms=self._clock.now_ms())
        return self._send(policy, items, builder.prepare)

    def prepare(self, topic: str, payload: Any, options: PublishOptions = NO_OPTIONS) -> Message:
        """Every check of :meth:`publish` without publishing: the envelope it would send; raises what it would raise."""
        policy = self._policy(topic)
        builder = EnvelopeBuilder(policy, source=self._source, now_ms=self._clock.now_ms())
        message = builder.message(BatchItem(payload, options))
        self.check(topic, message)
        return message

    def check(self, topic: str, message: Message) -> None:
        """What :meth:`send` would refuse ``message`` for, raised without sending: topic, owner and size."""
        policy = self._policy(topic)
        check_size(policy, self._transport(policy), encode(message))

    def send(
        self, topic: str, messages: Sequence[Message], *, idempotency_keys: Sequence[str] | None = None, meant: str = ""
    ) -> list[Answer]:
        """Publish envelopes that were prepared earlier, as they are; answers as :meth:`publish_batch`.

        Topic (which is the one ``meant``, by its incarnation), owner, size and due time are checked again, the schema
        is not. An envelope whose due time has come is published at once.
        """
        return self.way(topic, meant=meant).send(messages, idempotency_keys)

    def way(self, topic: str, *, meant: str = "") -> Way:
        """How to publish to a topic, which is the one ``meant``. Raises where :meth:`send` refuses all of a call."""
        return Way(self._policy(topic, meant), self._transport, self._send)

    def tell(self, facts: Iterable[Fact]) -> None:
        """Tell what became of messages that it publishes for somebody who kept them; of its node, like its own."""
        told = batches(msgspec.structs.replace(fact, node=self._node) for fact in facts)
        if told:
            self._facts.emit(told)

    def close(self, drain_s: float = 5.0) -> None:
        """Refuse new publishes and wait up to ``drain_s`` seconds for running ones. Idempotent.

        Transports stay open: they belong to whoever gave them.
        """
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: self._running == 0, drain_s)

    def _policy(self, topic: str, meant: str = "") -> TopicPolicy:
        policy = self._catalog.topic(topic)
        check_topic(policy, meant)
        return policy

    def _transport(self, policy: TopicPolicy) -> Transport:
        transport = self._transports(policy.transport)
        return confirming(transport, policy.replicas, policy.name) if policy.replicas else transport

    def _one(self, topic: str, item: BatchItem) -> Receipt:
        answer = self.publish_batch(topic, [item])[0]
        if isinstance(answer, HbusError):
            raise answer
        return answer

    def _send(self, policy: TopicPolicy, things: Sequence[Thing], make: Make[Thing]) -> list[Answer]:
        with self._lock:
            if self._closed:
                raise ProducerClosed(
                    "The producer is closed.", remedy="Publish before close(), or make a new producer."
                )
            self._running += 1
        try:
            return _Call(
                policy,
                self._transport(policy),
                make=make,
                facts=self._facts,
                clock=self._clock,
                delays=self._delays,
                node=self._node,
            ).run(things)
        finally:
            with self._lock:
                self._running -= 1
                if self._closed:
                    self._idle.notify_all()


class _Chunk:
    """What goes out at once, and since when."""

    __slots__ = ("begun", "indexes", "prepared", "size")

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.prepared: list[Prepared] = []
        self.size = 0
        self.begun = 0.0


class _Call(Generic[Thing]):
    """One call of a producer: chunk after chunk to the transport, an answer and a fact for each message.

    ``make`` gives the envelope of a thing, or refuses it.
    """

    def __init__(
        self,
        policy: TopicPolicy,
        transport: Transport,
        *,
        make: Make[Thing],
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
        self._answers: list[Answer | None] = []
        self._later: list[tuple[int, Prepared]] = []
        self._under_way: deque[_Chunk] = deque()

    def run(self, things: Sequence[Thing]) -> list[Answer]:
        """Send all; each is answered in its place."""
        self._answers = [None] * len(things)
        # On an ordered topic a chunk must not be stored when the one before it was refused: there they do not overlap.
        overlap = len(things) > OVERLAPPED_CHUNK and self._policy.ordering == "none"
        transport, topic = self._transport, self._policy.name
        answered: Iterator[Sequence[Outcome]]
        if overlap and isinstance(transport, Overlapping):
            answered = transport.publish_chunks(topic, self._chunks(things, OVERLAPPED_CHUNK))
        else:
            answered = _one_by_one(transport, topic, self._chunks(things, CHUNK_MESSAGES))
        for outcomes in answered:
            self._book(self._under_way.popleft(), outcomes)
        for start in range(0, len(self._later), CHUNK_MESSAGES):
            self._keep(self._later[start : start + CHUNK_MESSAGES])
        return [answer for answer in self._answers if answer is not None]

    def _chunks(self, things: Sequence[Thing], most: int) -> Iterator[list[Outgoing]]:
        """The chunks, each noted as under way when the transport asks for it."""
        policy, now_ms = self._policy, self._clock.now_ms()
        # What check_size goes by, which is asked where it refuses alone.
        limit = min(policy.max_bytes, self._transport.capabilities.max_bytes)
        chunk = _Chunk()
        for start in range(0, len(things), most):
            for index, prepared in enumerate(self._make(things[start : start + most]), start):
                try:
                    if isinstance(prepared, PublishRefused):
                        raise prepared
                    size = len(prepared.outgoing.body)
                    if size > limit:
                        check_size(policy, self._transport, prepared.outgoing.body)
                    if prepared.like.hbusdue and (due_ms := due_ms_of(prepared.like)) > now_ms:
                        self._schedule_once().check(due_ms, now_ms)
                        self._later.append((index, prepared))
                        continue
                except PublishRefused as error:
                    self._answers[index] = error
                    continue
                if chunk.size + size > CHUNK_BYTES and chunk.indexes:
                    yield self._begun(chunk)
                    chunk = _Chunk()
                chunk.indexes.append(index)
                chunk.prepared.append(prepared)
                chunk.size += size
                # At once, so that the store begins before the next is made.
                if len(chunk.indexes) == most:
                    yield self._begun(chunk)
                    chunk = _Chunk()
        if chunk.indexes:
            yield self._begun(chunk)

    def _begun(self, chunk: _Chunk) -> list[Outgoing]:
        chunk.begun = self._clock.monotonic()
        self._under_way.append(chunk)
        return [prepared.outgoing for prepared in chunk.prepared]

    def _book(self, chunk: _Chunk, outcomes: Sequence[Outcome]) -> None:
        """Answer a chunk and tell of it."""
        duration_us = round((self._clock.monotonic() - chunk.begun) * 1_000_000)
        topic, ok, stored = self._policy.name, Status.OK, ReceiptStatus.STORED
        receipts = [Receipt(each.message_id, topic, each.position, stored) for each in outcomes if each.status is ok]
        first, last = chunk.indexes[0], chunk.indexes[-1]
        if len(receipts) == len(outcomes) == last - first + 1:
            # The common case, without a detour.
            self._answers[first : last + 1] = receipts
            self._facts.emit([self._told("published", chunk.prepared, outcomes, duration_us)])
            return
        told, held = self._book_one_by_one(chunk, outcomes, duration_us)
        if told:
            self._facts.emit(told)
        if held:
            kept = self._schedule_once().see_to([(later_of(each), outcome) for _, each, outcome in held])
            self._book_kept([(index, each) for index, each, _ in held], kept)

    def _book_one_by_one(
        self, chunk: _Chunk, outcomes: Sequence[Outcome], duration_us: int
    ) -> tuple[list[FactBatch], list[tuple[int, Prepared, Outcome]]]:
        """Answer a chunk of which not all was stored: what is told of it, and what the delay path must see to."""
        held: list[tuple[int, Prepared, Outcome]] = []
        lost: list[Outcome] = []
        taken: dict[str, list[tuple[Prepared, Outcome]]] = {}
        for index, prepared, outcome in zip(chunk.indexes, chunk.prepared, outcomes, strict=True):
            if outcome.status is Status.HELD:
                held.append((index, prepared, outcome))
                continue
            self._answers[index] = answer = answer_to(self._policy.name, outcome)
            if isinstance(answer, Receipt):
                kind = "published" if answer.status is ReceiptStatus.STORED else "deduplicated"
                taken.setdefault(kind, []).append((prepared, outcome))
            else:
                lost.append(outcome)
        told = [
            self._told(kind, [prepared for prepared, _ in pairs], [outcome for _, outcome in pairs], duration_us)
            for kind, pairs in taken.items()
        ]
        return [*told, *self._failed(lost)], held

    def _keep(self, later: Sequence[tuple[int, Prepared]]) -> None:
        self._book_kept(later, self._schedule_once().keep([later_of(each) for _, each in later]))

    def _book_kept(self, sent: Sequence[tuple[int, Prepared]], kept: Sequence[Kept]) -> None:
        """Answer messages that concern the delay path, and tell of them."""
        told = self._failed([each.outcome for each in kept])
        for (index, prepared), each in zip(sent, kept, strict=True):
            self._answers[index] = answer = answer_to(self._policy.name, each.outcome, due_ms=each.due_ms)
            if not isinstance(answer, Receipt):
                continue
            if each.carried_out:
                told.append(self._told("delayed", [prepared], [each.outcome], 0, answer.due_ms))
            kind = "delayed" if answer.status is ReceiptStatus.DELAYED else "deduplicated"
            told.append(self._told(kind, [prepared], [each.outcome], 0, answer.due_ms))
        if told:
            self._facts.emit(told)

    def _told(
        self, kind: str, sent: Sequence[Prepared], outcomes: Sequence[Outcome], duration_us: int, due_ms: int = 0
    ) -> FactBatch:
        """The facts of ``sent``, what they share said once. A repeat is told of under the id of its original."""
        like, likes = sent[0].like, [each.like for each in sent]
        alike = likes.count(like) == len(likes)
        own = [outcome.message_id for outcome in outcomes]
        return FactBatch(
            kind,
            self._clock.now_ms(),
            self._policy.subject,
            self._node,
            len(sent),
            _correlations(likes, own) if not alike else own if like.correlationid == like.id else like.correlationid,
            "",
            BusFields(
                [outcome.message_id for outcome in outcomes],
                like.partitionkey if alike else [each.partitionkey for each in likes],
                like.causationid if alike else [each.causationid for each in likes],
                [each.trace_id for each in sent],
                like.type if alike else [each.type for each in likes],
                like.source if alike else [each.source for each in likes],
                [outcome.position for outcome in outcomes],
                0,
                duration_us,
                [len(each.outgoing.body) for each in sent],
                due_ms,
            ),
        )

    def _failed(self, outcomes: Sequence[Outcome]) -> list[FactBatch]:
        """One fact for all that the store did not take, or not surely; a conflict is the caller's mistake."""
        failed = [outcome for outcome in outcomes if outcome.status in (Status.FAILED, Status.UNKNOWN)]
        if not failed:
            return []
        fields = BusFields(size=len(failed), error=failed[0].error)
        return [FactBatch("publish_failed", self._clock.now_ms(), self._policy.subject, self._node, fields=fields)]

    def _schedule_once(self) -> ScheduleOnce:
        return ScheduleOnce(self._policy, self._transport, self._delays)


def _correlations(likes: Sequence[Message], own: Sequence[str]) -> list[str]:
    return [
        mine if each.correlationid == each.id else each.correlationid for each, mine in zip(likes, own, strict=True)
    ]


def _one_by_one(transport: Transport, topic: str, chunks: Iterable[Sequence[Outgoing]]) -> Iterator[Sequence[Outcome]]:
    """Each chunk after the answer to the one before; nothing more is sent once the store took none of a chunk."""
    error = remedy = ""
    for chunk in chunks:
        if error:
            why = f"not sent, because messages before it failed: {error}"
            yield [Outcome(Status.FAILED, each.message_id, error=why, remedy=remedy) for each in chunk]
            continue
        outcomes = transport.publish(topic, chunk)
        if all(outcome.status in (Status.FAILED, Status.UNKNOWN) for outcome in outcomes):
            error, remedy = outcomes[0].error, outcomes[0].remedy
        yield outcomes
