"""Settling in batches: what the workers decided goes to the store, and then into the evidence."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from engine.bus.consuming.health import Backoff, StoreHealth
from engine.bus.consuming.in_flight import InFlight, InFlightTable
from engine.bus.trace import trace_id_of
from engine.bus.transport import Attempt, Receiver, Settlement, Verdict
from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.core.facts import Emitter, Fact

#: A batch goes when it is this large …
BATCH = 500
#: … or this many (real) seconds after its first member. Bounds latency only; no outcome depends on it.
LINGER_S = 0.003
#: How often a batch that breaks for another reason than an absent store is tried.
TRIES = 3

_log = logging.getLogger(__name__)


class Finished(msgspec.Struct, gc=False):
    """What a worker decided about one delivery; ``kind`` is the fact that says so once the store has taken it, empty
    for a decision that is no evidence."""

    held: InFlight
    kind: str
    at_ms: int
    duration_us: int = 0
    verdict: Verdict = Verdict.ACK
    after_ms: int = 0
    attempt: Attempt | None = None
    dead: bytes = b""
    error: str = ""
    fingerprint: str = ""
    detail: str = ""


class Settler:
    """Collects from all workers; one thread settles. A fact is emitted only for what the store has confirmed."""

    def __init__(
        self,
        *,
        receiver: Receiver,
        in_flight: InFlightTable,
        topic: str,
        group: str,
        node: str,
        facts: Emitter,
        clock: Clock,
        health: StoreHealth,
        backoff: Backoff,
        answered: Callable[[InFlight], None] | None = None,
    ) -> None:
        self._receiver = receiver
        self._in_flight = in_flight
        self._topic = topic
        self._group = group
        self._node = node
        self._facts = facts
        self._clock = clock
        self._health = health
        self._backoff = backoff
        self._answered = answered
        self._queue: deque[Finished] = deque()
        self._wake = threading.Event()
        self._asleep = False
        self._closing = False
        self._abandoned = threading.Event()
        #: Since the start: deliveries settled for good, and attempts that failed.
        self.handled = 0
        self.failed = 0

    def add(self, finished: Finished) -> None:
        """Queue one decision. Never blocks."""
        self._queue.append(finished)
        if self._asleep:
            self._wake.set()

    @property
    def waiting(self) -> int:
        """How many decisions the store has not taken yet."""
        return len(self._queue)

    def close(self) -> None:
        """End the loop once everything queued has been settled."""
        self._closing = True
        self._wake.set()

    def abandon(self) -> None:
        """End the loop now; what is queued is settled by nobody and will be delivered again."""
        self._abandoned.set()
        self.close()

    def run(self) -> None:
        """The settler thread."""
        queue = self._queue
        while not self._abandoned.is_set():
            if not queue:
                if self._closing:
                    return
                self._asleep = True
                if not queue and not self._closing:
                    self._wake.wait(1.0)
                self._wake.clear()
                self._asleep = False
                continue
            if len(queue) < BATCH and not self._closing:
                self._wake.wait(LINGER_S)
            # Peeked, not popped: what breaks halfway stays queued.
            batch = [queue[index] for index in range(min(BATCH, len(queue)))]
            self._settle(batch)

    def _settle(self, batch: Sequence[Finished]) -> None:
        tries, repeated, ack = 0, False, Verdict.ACK
        while True:
            # The receipt is read now: a lease that had run out may have been renewed under a new one meanwhile.
            settlements = [
                Settlement(each.held.delivery.receipt) if each.verdict is ack else _settlement(each) for each in batch
            ]
            try:
                taken = self._receiver.settle(settlements)
                break
            except Unavailable as error:
                self._health.away(error)
                repeated = True
            except Exception as error:  # noqa: BLE001
                # A batch the store can never take must not hold up all that follow: its leases run out.
                _log.exception("settling %d deliveries of %s/%s failed", len(batch), self._topic, self._group)
                self._health.trouble(error)
                tries += 1
                if tries == TRIES:
                    taken = [False] * len(batch)
                    break
            if self._clock.wait(self._abandoned, self._backoff.next_s()):
                return
        late = "the store was away while this was settled" if repeated else ""
        if tries < TRIES:
            self._health.answered()
            self._backoff.reset()
        self._book(batch, taken, late, repeated=repeated)

    def _book(self, batch: Sequence[Finished], taken: Sequence[bool], late: str, *, repeated: bool) -> None:
        """Forget what the store has answered, and tell it."""
        facts = []
        take, drop, answered = self._queue.popleft, self._in_flight.drop, self._answered
        for finished, ok in zip(batch, taken, strict=True):
            take()
            held = finished.held
            drop(held)
            if answered is not None:
                answered(held)
            if ok and finished.kind == "settled":
                # The common case, without a detour.
                self.handled += 1
                facts.append(self._fact(finished, "settled", finished.detail or late))
                continue
            if finished.verdict is Verdict.PARK and not ok:
                # Its key is not parked any more: it was put back, and comes again in its turn.
                continue
            # After a lost answer "not yours" may mean "settled by your first try", so it is no sign of a lost lease.
            if ok or repeated:
                self._count(finished)
                if finished.kind:
                    facts.append(self._fact(finished, finished.kind, finished.detail or late))
            else:
                finished.held.lose()
                facts.append(self._fact(finished, "lease_lost", f"verdict {finished.verdict.value} came too late"))
        self._facts.emit(facts)

    def _count(self, finished: Finished) -> None:
        if finished.attempt is not None and finished.kind in ("retried", "dead", "parked"):
            self.failed += 1
        if finished.verdict in (Verdict.ACK, Verdict.DEAD):
            self.handled += 1

    def say(self, held: InFlight, kind: str, *, at_ms: int, detail: str = "") -> None:
        """Emit a fact about a delivery that is not settled by us."""
        self._facts.emit([self._fact(Finished(held, kind, at_ms), kind, detail)])

    def say_retry(self, finished: Finished) -> None:
        """Emit the fact of an attempt that is repeated in place."""
        self.failed += 1
        self._facts.emit([self._fact(finished, finished.kind, finished.detail)])

    def _fact(self, finished: Finished, kind: str, detail: str) -> Fact:
        held = finished.held
        message = held.message
        if message is None:
            return Fact(
                kind,
                finished.at_ms,
                self._topic,
                self._group,
                position=held.delivery.position,
                attempt=held.attempt,
                size=len(held.delivery.body),
                node=self._node,
                error=finished.error,
                fingerprint=finished.fingerprint,
                detail=detail,
            )
        return Fact(
            kind,
            finished.at_ms,
            self._topic,
            self._group,
            message.id,
            message.partitionkey,
            message.correlationid,
            message.causationid,
            trace_id_of(message.traceparent),
            message.type,
            message.source,
            held.delivery.position,
            finished.attempt.number if finished.attempt else held.attempt,
            finished.duration_us,
            len(held.delivery.body),
            finished.at_ms + finished.after_ms if finished.kind == "retried" else 0,
            self._node,
            finished.error,
            finished.fingerprint,
            detail,
        )


def _settlement(finished: Finished) -> Settlement:
    receipt = finished.held.delivery.receipt
    return Settlement(receipt, finished.verdict, finished.after_ms, finished.attempt, finished.dead, finished.held.key)
