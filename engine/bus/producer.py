"""The producer: governed, checked, confirmed publishing, one message or many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from engine.bus import building
from engine.bus.building import EnvelopeBuilder
from engine.bus.catalog import TopicCatalog, TopicPolicy
from engine.bus.delays import DelayPath
from engine.bus.errors import ProducerClosed
from engine.bus.message import Message, encode
from engine.bus.options import NO_OPTIONS, PublishOptions
from engine.bus.receipts import Answer, Receipt, ReceiptStatus
from engine.bus.replicas import transport_for
from engine.bus.sending import Sending, size_limit, too_large
from engine.bus.transport import Transport
from engine.core.clock import Clock, SystemClock
from engine.core.errors import HbusError
from engine.core.facts import Emitter

__all__ = ["Answer", "BatchItem", "Producer", "Receipt", "ReceiptStatus"]

Thing = TypeVar("Thing")


class BatchItem(msgspec.Struct, frozen=True):
    """One message of a batch: ``payload`` as JSON or, when ``body`` is given, bytes of ``content_type``."""

    payload: Any = None
    options: PublishOptions = NO_OPTIONS
    body: bytes | None = None
    content_type: str = "application/octet-stream"


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
        builder = EnvelopeBuilder(policy, source=self._source, now_ms=self._clock.now_ms(), expected=len(items))
        return self._send(policy, items, builder.keyed)

    def prepare(self, topic: str, payload: Any, options: PublishOptions = NO_OPTIONS) -> Message:
        """Every check of :meth:`publish` without publishing: the envelope it would send; raises what it would raise."""
        policy = self._policy(topic)
        builder = EnvelopeBuilder(policy, source=self._source, now_ms=self._clock.now_ms())
        message = builder.message(BatchItem(payload, options))
        body, limit = encode(message), size_limit(policy, self._transport(policy))
        if len(body) > limit:
            raise too_large(policy, limit, body)
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
        return self._send(self._policy(topic), list(zip(messages, idempotency_keys, strict=True)), lambda pair: pair)

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

    def _transport(self, policy: TopicPolicy) -> Transport:
        return transport_for(policy, self._transports(policy.transport))

    def _one(self, topic: str, item: BatchItem) -> Receipt:
        answer = self.publish_batch(topic, [item])[0]
        if isinstance(answer, HbusError):
            raise answer
        return answer

    def _send(
        self, policy: TopicPolicy, things: Sequence[Thing], make: Callable[[Thing], tuple[Message, str]]
    ) -> list[Answer]:
        with self._idle:
            if self._closed:
                raise ProducerClosed(
                    "The producer is closed.", remedy="Publish before close(), or make a new producer."
                )
            self._running += 1
        try:
            return Sending(
                policy,
                self._transport(policy),
                make=make,
                facts=self._facts,
                clock=self._clock,
                delays=self._delays,
                node=self._node,
            ).run(things)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
