"""How one topic is published to, by the rules that it had when that was asked: sending needs no catalog any more, so it
may be done on another thread than whoever reads that from a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from engine.bus.building import Prepared, prepare_or_refuse
from engine.bus.catalog import TopicPolicy
from engine.bus.due import Due, send_due
from engine.bus.errors import PublishRefused
from engine.bus.message import Message
from engine.bus.receipts import Answer
from engine.bus.transport import Transport

#: What a call was given of each message, and what makes envelopes of several, or refuses them, each in its place.
Thing = TypeVar("Thing")
Make = Callable[[Sequence[Thing]], Sequence[Prepared | PublishRefused]]


class Sending(Protocol):
    """Makes envelopes of things and publishes them; answers each in its place."""

    def __call__(self, policy: TopicPolicy, things: Sequence[Thing], make: Make[Thing]) -> list[Answer]: ...


class Way:
    """To one topic. Thread-safe."""

    def __init__(self, policy: TopicPolicy, transport: Callable[[TopicPolicy], Transport], send: Sending) -> None:
        self._policy = policy
        self._transport = transport
        self._send = send

    @property
    def carrier(self) -> str:
        """The transport that carries it, by its name in the catalog: what hangs there holds up nothing elsewhere."""
        return self._policy.transport

    def send(
        self, messages: Sequence[Message], idempotency_keys: Sequence[str] | None = None, *, at_least_s: int = 0
    ) -> list[Answer]:
        """See :meth:`engine.bus.producer.Producer.send`. The keys are remembered for the topic's window, and for
        ``at_least_s`` seconds where that is shorter."""
        keys = [""] * len(messages) if idempotency_keys is None else idempotency_keys
        if len(keys) != len(messages):
            raise ValueError(f"{len(keys)} idempotency keys for {len(messages)} messages")
        keyed = list(zip(messages, keys, strict=True))
        return self._send(
            self._policy, keyed, lambda pairs: [prepare_or_refuse(self._policy, *pair, at_least_s) for pair in pairs]
        )

    def send_due(self, due: Sequence[Due]) -> list[Answer]:
        """Publish what waited for its due time, as :mod:`engine.bus.due` says; answers as :meth:`send`."""
        return send_due(self._policy, self._transport(self._policy), due, self._send)
