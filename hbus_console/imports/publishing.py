"""Publishes batch after batch whatever the store does meanwhile: used by every command that feeds the bus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from engine.bus.errors import PublishFailed, PublishUnknown
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.core.clock import Clock
from engine.core.errors import HbusError, Unavailable
from engine.core.pacing import Pace, Pacing, all_go

#: Seconds between two tries of what the store did not take; doubles up to the second figure.
RETRY_S = (0.2, 5.0)


class Tally(msgspec.Struct):
    """What became of messages."""

    published: int = 0
    deduplicated: int = 0
    rejected: int = 0

    @property
    def total(self) -> int:
        return self.published + self.deduplicated + self.rejected


class SteadyPublisher:
    """Publishes batches; what the store did not take, or may have taken, is tried again under the same keys.

    Every item needs an idempotency key. ``patience_s`` is how long the store may be away before ``Unavailable`` is
    raised. ``stop`` ends waiting early, also with ``Unavailable``. ``pacing`` holds it besides ``rate``. Not
    thread-safe.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        clock: Clock,
        stop: threading.Event,
        rate: float = 0,
        pacing: Pacing | None = None,
        patience_s: float = 300,
        waiting: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._producer = producer
        self._clock = clock
        self._stop = stop
        self._pace = Pace(rate, clock) if rate else None
        self._pacing = pacing
        self._patience_s = patience_s
        self._waiting = waiting

    def publish(self, topic: str, items: Sequence[BatchItem]) -> list[Receipt | HbusError]:
        """One final answer per item, in order: a receipt, or why it was refused for good."""
        if self._pace:
            self._pace.admit(len(items), self._stop)
        if self._pacing is not None and not all_go(self._pacing, len(items), self._clock, self._stop):
            raise Unavailable(f"Publishing to {topic} stopped.", remedy="Run it again; it goes on from here.")
        answers = self._producer.publish_batch(topic, items)
        pending = _unsettled(answers, range(len(items)))
        pause_s, since = RETRY_S[0], self._clock.monotonic()
        while pending:
            why = answers[pending[0]]
            self._waiting(str(why))
            patient = self._clock.monotonic() - since < self._patience_s
            if not patient or self._clock.wait(self._stop, pause_s):
                raise Unavailable(f"Publishing to {topic} stopped: {why}", remedy="Run it again; it goes on from here.")
            pause_s = min(pause_s * 2, RETRY_S[1])
            for index, answer in zip(
                pending, self._producer.publish_batch(topic, [items[index] for index in pending]), strict=True
            ):
                answers[index] = answer
            pending = _unsettled(answers, pending)
        return answers


def _unsettled(answers: Sequence[Receipt | HbusError], indexes: Sequence[int]) -> list[int]:
    return [index for index in indexes if isinstance(answers[index], PublishFailed | PublishUnknown)]
