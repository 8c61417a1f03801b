"""The producer: governed, checked, confirmed publishing, one message or many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from engine.bus import building
from engine.bus.catalog import TopicCatalog, TopicPolicy
from engine.bus.delays import Delayed, DelayPath
from engine.bus.errors import IdempotencyConflict, PublishFailed, PublishRefused, PublishUnknown
from engine.bus.message import NO_DATA, Message, encode
from engine.bus.options import NO_OPTIONS, PublishOptions
from engine.bus.trace import trace_id_of
from engine.bus.transport import Outcome, Outgoing, Priority, Status, Transport
from engine.core.clock import Clock, SystemClock
from engine.core.errors import HbusError
from engine.core.facts import Emitter, Fact

#: How many messages, and how many bytes of envelopes, go to the store in one call.
CHUNK = 500
CHUNK_BYTES = 4 * 1024 * 1024


class Stored(StrEnum):
    """What became of a publish that was not refused."""

    STORED = "stored"
    #: The idempotency key was seen before with the same body: nothing was stored again.
    DUPLICATE = "duplicate"
    #: Kept until its due time.
    DELAYED = "delayed"


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The store's confirmation. For a duplicate, id and position are the original's; a delayed one has no position."""

    message_id: str
    topic: str
    position: str
    status: Stored
    #: Epoch milliseconds; 0 unless it was delayed.
    due_ms: int = 0


class BatchItem(msgspec.Struct, frozen=True):
    """One message of a batch: ``payload`` as JSON or, when ``body`` is given, bytes of ``content_type``."""

    payload: Any = None
    options: PublishOptions = NO_OPTIONS
    body: bytes | None = None
    content_type: str = "application/octet-stream"


Answer = Receipt | HbusError


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
        self._idle = threading.Condition()
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
        now_ms = self._clock.now_ms()
        refused: dict[int, PublishRefused] = {}
        messages: list[Message] = []
        keys: list[str] = []
        for index, item in enumerate(items):
            try:
                messages.append(self._build(policy, item, now_ms))
                keys.append(item.options.idempotency_key)
            except PublishRefused as error:
                refused[index] = error
        sent = self._send(policy, messages, keys)
        if not refused:
            return sent
        answered = iter(sent)
        return [refused.get(index) or next(answered) for index in range(len(items))]

    def prepare(self, topic: str, payload: Any, options: PublishOptions = NO_OPTIONS) -> Message:
        """Every check of :meth:`publish` without publishing: the envelope it would send; raises what it would raise."""
        policy = self._policy(topic)
        message = self._build(policy, BatchItem(payload, options), self._clock.now_ms())
        _check_size(policy, _limit(policy, self._transports(policy.transport)), encode(message))
        return message

    def send(
        self, topic: str, messages: Sequence[Message], *, idempotency_keys: Sequence[str] | None = None
    ) -> list[Answer]:
        """Publish envelopes that were prepared earlier, as they are; answers as :meth:`publish_batch`.

        Topic, owner, size and due time are checked again, the schema is not. An envelope whose due time has come is
        published at once.
        """
        if idempotency_keys is None:
            idempotency_keys = [""] * len(messages)
        if len(idempotency_keys) != len(messages):
            raise ValueError(f"{len(idempotency_keys)} idempotency keys for {len(messages)} messages")
        return self._send(self._policy(topic), messages, idempotency_keys)

    def close(self, drain_s: float = 5.0) -> None:
        """Refuse new publishes and wait up to ``drain_s`` seconds for running ones. Idempotent.

        Transports stay open: they belong to whoever gave them.
        """
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: self._running == 0, drain_s)

    def _policy(self, topic: str) -> TopicPolicy:
        policy = self._catalog.topic(topic)
        building.check_owner(policy)
        return policy

    def _one(self, topic: str, item: BatchItem) -> Receipt:
        answer = self.publish_batch(topic, [item])[0]
        if isinstance(answer, HbusError):
            raise answer
        return answer

    def _build(self, policy: TopicPolicy, item: BatchItem, now_ms: int) -> Message:
        options = item.options
        if item.body is None:
            return building.build(
                policy, options, source=self._source, now_ms=now_ms, data=building.json_data(item.payload)
            )
        if not isinstance(item.body, bytes):
            raise PublishRefused(
                f"The body is not bytes but {type(item.body).__name__}.", remedy="Use publish() for JSON.", field="body"
            )
        json = building.is_json(item.content_type)
        return building.build(
            policy,
            options,
            source=self._source,
            now_ms=now_ms,
            data=_json_text(item.body) if json else NO_DATA,
            binary=None if json else item.body,
            content_type=item.content_type,
        )

    def _send(self, policy: TopicPolicy, messages: Sequence[Message], keys: Sequence[str]) -> list[Answer]:
        with self._idle:
            if self._closed:
                raise PublishRefused(
                    "The producer is closed.", remedy="Publish before close(), or make a new producer.", field="topic"
                )
            self._running += 1
        try:
            return self._send_open(policy, messages, keys)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _send_open(self, policy: TopicPolicy, messages: Sequence[Message], keys: Sequence[str]) -> list[Answer]:
        transport = self._transports(policy.transport)
        now_ms = self._clock.now_ms()
        answers: list[Answer | None] = [None] * len(messages)
        chunk: list[tuple[int, Outgoing]] = []
        later: list[tuple[int, Delayed]] = []
        size, limit = 0, _limit(policy, transport)
        for index, (message, key) in enumerate(zip(messages, keys, strict=True)):
            try:
                body = encode(message)
                _check_size(policy, limit, body)
                due_ms = building.due_ms_of(message) if message.hbusdue else 0
                if key:
                    building.check_idempotency_key(key)
                if due_ms > now_ms:
                    later.append((index, self._delayed(policy, message, body, due_ms, key)))
                    continue
            except PublishRefused as error:
                answers[index] = error
                continue
            if len(chunk) == CHUNK or size + len(body) > CHUNK_BYTES:
                self._publish(policy, transport, messages, chunk, answers)
                chunk, size = [], 0
            chunk.append((index, _outgoing(policy, message, body, key)))
            size += len(body)
        if chunk:
            self._publish(policy, transport, messages, chunk, answers)
        for start in range(0, len(later), CHUNK):
            self._schedule(policy, messages, later[start : start + CHUNK], answers)
        return [answer for answer in answers if answer is not None]

    def _publish(
        self,
        policy: TopicPolicy,
        transport: Transport,
        messages: Sequence[Message],
        chunk: Sequence[tuple[int, Outgoing]],
        answers: list[Answer | None],
    ) -> None:
        begun = self._clock.monotonic()
        outcomes = transport.publish(policy.name, [outgoing for _, outgoing in chunk])
        duration_us = round((self._clock.monotonic() - begun) * 1_000_000)
        now_ms = self._clock.now_ms()
        facts = []
        for (index, outgoing), outcome in zip(chunk, outcomes, strict=True):
            answers[index] = answer = _answer(policy.name, outcome)
            if isinstance(answer, Receipt):
                kind = "published" if answer.status is Stored.STORED else "deduplicated"
                facts.append(self._fact(kind, now_ms, messages[index], answer, len(outgoing.body), duration_us))
        if facts:
            self._facts.emit(facts)

    def _schedule(
        self,
        policy: TopicPolicy,
        messages: Sequence[Message],
        later: Sequence[tuple[int, Delayed]],
        answers: list[Answer | None],
    ) -> None:
        if self._delays is None:
            raise AssertionError("unreachable: _delayed() refuses without a delay path")
        outcomes = self._delays.schedule(policy.name, [delayed for _, delayed in later])
        now_ms = self._clock.now_ms()
        facts = []
        for (index, delayed), outcome in zip(later, outcomes, strict=True):
            answers[index] = answer = _answer(policy.name, outcome, due_ms=delayed.due_ms)
            if isinstance(answer, Receipt):
                kind = "delayed" if answer.status is Stored.DELAYED else "deduplicated"
                facts.append(self._fact(kind, now_ms, messages[index], answer, len(delayed.body)))
        if facts:
            self._facts.emit(facts)

    def _delayed(self, policy: TopicPolicy, message: Message, body: bytes, due_ms: int, key: str) -> Delayed:
        if self._delays is None:
            raise PublishRefused(
                "This producer has no delay path, so it cannot keep a message until it is due.",
                remedy="Give the producer one, or publish without delay.",
                field="due",
            )
        building.check_horizon(due_ms, self._clock.now_ms())
        return Delayed(
            message_id=message.id,
            body=body,
            due_ms=due_ms,
            idempotency_key=key,
            idempotency_digest=building.digest(message) if key else "",
            idempotency_window_ms=policy.idempotency_window_s * 1000 if key else 0,
        )

    def _fact(  # noqa: PLR0917 - the hottest call of a publish
        self, kind: str, now_ms: int, message: Message, receipt: Receipt, size: int, duration_us: int = 0
    ) -> Fact:
        return Fact(
            kind,
            now_ms,
            receipt.topic,
            "",
            receipt.message_id,
            message.partitionkey,
            message.correlationid,
            message.causationid,
            trace_id_of(message.traceparent),
            message.type,
            message.source,
            receipt.position,
            0,
            duration_us,
            size,
            receipt.due_ms,
            self._node,
        )


def _limit(policy: TopicPolicy, transport: Transport) -> int:
    """The largest envelope that topic and transport both take, in bytes."""
    return min(policy.max_bytes, transport.capabilities.max_bytes)


def _check_size(policy: TopicPolicy, limit: int, body: bytes) -> None:
    if len(body) > limit:
        raise PublishRefused(
            f"The envelope has {len(body):,} bytes; topic {policy.name!r} takes {limit:,}.",
            remedy="Store large data elsewhere and send its address, or raise the topic's limit.",
            field="payload",
        )


def _json_text(body: bytes) -> msgspec.Raw:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PublishRefused(
            f"The body is not JSON: {error}.", remedy="Send valid JSON, or another content type.", field="body"
        ) from error
    return msgspec.Raw(body)


def _outgoing(policy: TopicPolicy, message: Message, body: bytes, key: str) -> Outgoing:
    priority = Priority(message.hbuspriority) if message.hbuspriority else Priority.NORMAL
    if not key:
        return Outgoing(message.id, body, priority)
    return Outgoing(message.id, body, priority, key, building.digest(message), policy.idempotency_window_s * 1000)


def _answer(topic: str, outcome: Outcome, *, due_ms: int = 0) -> Answer:
    if outcome.status is Status.OK:
        status = Stored.DELAYED if due_ms else Stored.STORED
        return Receipt(outcome.message_id, topic, outcome.position, status, due_ms)
    if outcome.status is Status.DUPLICATE:
        return Receipt(outcome.message_id, topic, outcome.position, Stored.DUPLICATE, due_ms)
    if outcome.status is Status.CONFLICT:
        return IdempotencyConflict(
            f"The idempotency key of message {outcome.message_id} was used before with another body.",
            remedy="Use a new key for a new event, or send what was sent first.",
            field="idempotency_key",
        )
    if outcome.status is Status.FAILED:
        return PublishFailed(
            f"Message {outcome.message_id} was not stored: {outcome.error}.", remedy="Publish it again."
        )
    return PublishUnknown(
        f"Nobody knows whether message {outcome.message_id} was stored: {outcome.error}.",
        remedy="Publish it again with the same idempotency key; it will not be stored twice.",
    )
