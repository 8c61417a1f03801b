"""Settling in batches: what the workers decided goes to the store, and then into the evidence."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from engine.bus.consuming.dispatch import InFlight
from engine.bus.consuming.scope import ConsumerScope
from engine.bus.consuming.stacks import StacksTold
from engine.bus.errors import MalformedEnvelope
from engine.bus.facts import BusFields, column
from engine.bus.message import ATTRIBUTE_LIMIT, LONGEST, Message, decode
from engine.bus.transport import Attempt, Settlement, Verdict
from engine.core.errors import Unavailable
from engine.core.facts import FactBatch, Moments, Numbers, Texts
from engine.core.ids import trace_ids_of

#: A batch goes when it is this large …
BATCH = 500
#: … or this many (real) seconds after its first member. Bounds latency only; no outcome depends on it.
LINGER_S = 0.003
#: How often a batch that breaks for another reason than an absent store is tried.
TRIES = 3

_NAMELESS = Message(id="", source="", type="")
_log = logging.getLogger(__name__)


class Finished(msgspec.Struct, gc=False):
    """What was decided about one delivery, where there is more to say than that it was handled well; ``kind`` is the
    fact that says so once the store has taken it, empty for a decision that is no evidence."""

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
    stack: str = ""
    detail: str = ""


#: A delivery by itself was handled well, which is by far the most; ``at_ms`` and ``duration_us`` of it are known.
Decision = InFlight | Finished


class Settler:
    """Collects from all workers; one thread settles. A fact is emitted only for what the store has confirmed."""

    def __init__(self, scope: ConsumerScope) -> None:
        self._scope = scope
        self._in_flight = scope.in_flight
        self._backoff = scope.backoff()
        self._stacks = StacksTold(scope.clock)
        #: Order alone asks to know what the store has answered.
        self._answered = scope.dispatcher.answered if scope.policy.ordering == "key" else None
        self._queue: deque[Decision] = deque()
        self._wake = threading.Event()
        self._asleep = False
        self._hurried = False
        self._closing = False
        self._abandoned = threading.Event()
        #: Since the start: deliveries settled for good, and attempts that failed.
        self.handled = 0
        self.failed = 0
        #: Deliveries handed back unhandled.
        self.released = 0

    def add(self, decision: Decision) -> None:
        """Queue one decision. Never blocks."""
        self._queue.append(decision)
        if self._asleep:
            self._wake.set()

    def release(self, deliveries: Sequence[InFlight], *, told: bool = True) -> None:
        """Hand back what nobody has begun; it is delivered again, and what it waited counts no attempt.

        Of what was only looked at nothing is ``told``.
        """
        now_ms = self._scope.clock.now_ms()
        for held in deliveries:
            if held.lost:
                self.drop(held)
                continue
            self.released += 1
            self.add(Finished(held, "released" if told else "", now_ms, verdict=Verdict.RELEASE))

    def set_aside(self, deliveries: Sequence[InFlight]) -> None:
        """Send back what must not be handled now; the store parks it with its key, or puts it back in order."""
        now_ms = self._scope.clock.now_ms()
        for held in deliveries:
            self.add(Finished(held, "parked", now_ms, verdict=Verdict.PARK, detail="behind another of its key"))

    def drop(self, held: InFlight) -> None:
        """Forget one that the store takes nothing of from here any more."""
        self._in_flight.drop(held)
        if self._answered is not None:
            self._answered(held)

    @property
    def waiting(self) -> int:
        """How many decisions the store has not taken yet."""
        return len(self._queue)

    def hurry(self) -> None:
        """Somebody waits for what is queued to be confirmed: do not wait for more."""
        self._hurried = True
        self._wake.set()

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
                    self._wake.wait()
                self._wake.clear()
                self._asleep = False
                continue
            if len(queue) < BATCH and not self._closing and not self._hurried:
                self._wake.wait(LINGER_S)
                self._wake.clear()
            self._hurried = False
            # Peeked, not popped: what breaks halfway stays queued.
            batch = [queue[index] for index in range(min(BATCH, len(queue)))]
            self._settle(batch)

    def _settle(self, batch: Sequence[Decision]) -> None:
        # Whether a try before may have been done, and what to say of it.
        tries, unsure, late = 0, False, ""
        while True:
            taken: Sequence[bool | None] | None = None
            with self._in_flight.settling:
                try:
                    taken = self._ask(batch) if tries < TRIES else self._ask_parts(batch)
                except Unavailable as error:
                    self._scope.health.away(error)
                    unsure, late = unsure or not error.untouched, "the store was away while this was settled"
                except Exception as error:  # noqa: BLE001
                    # What the store can never take must not hold up the rest: it is found, and its lease runs out.
                    _log.exception("settling %d deliveries of %s failed", len(batch), self._scope)
                    self._scope.health.trouble(error)
                    tries, unsure = tries + 1, True
                told = [] if taken is None else self._book(batch, taken, unsure=unsure, late=late)
            if taken is not None:
                break
            if self._scope.clock.wait(self._abandoned, self._backoff.next_s()):
                return
        if tries < TRIES:
            self._scope.health.answered()
            self._backoff.reset()
        if told:
            self._scope.facts.emit(told)

    def _ask(self, batch: Sequence[Decision]) -> Sequence[bool]:
        """What the store takes of it."""
        # The receipt is read now: a lease that had run out may have been renewed under a new one meanwhile.
        return self._scope.receiver.settle(
            [Settlement(each.delivery.receipt) if isinstance(each, InFlight) else _settlement(each) for each in batch]
        )

    def _ask_parts(self, batch: Sequence[Decision]) -> Sequence[bool | None]:
        """What the store takes of what it cannot take as a whole: halved until what breaks is found (``None``)."""
        if len(batch) == 1:
            return [None]
        middle, answers = len(batch) // 2, list[bool | None]()
        for part in (batch[:middle], batch[middle:]):
            try:
                answers += self._ask(part)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001
                answers += self._ask_parts(part)
        return answers

    def _book(
        self, batch: Sequence[Decision], taken: Sequence[bool | None], *, unsure: bool, late: str
    ) -> list[FactBatch]:
        """Forget what the store has answered; the facts of it."""
        settled: list[InFlight] = []
        others: dict[str, list[tuple[Finished, str]]] = {}
        take, drop = self._queue.popleft, self._in_flight.drop
        for each, ok in zip(batch, taken, strict=True):
            take()
            if ok and isinstance(each, InFlight):
                # The common case, without a detour.
                settled.append(each)
                continue
            finished = Finished(each, "settled", each.at_ms, each.duration_us) if isinstance(each, InFlight) else each
            self.drop(finished.held)
            if finished.verdict is Verdict.PARK and not ok:
                # Its key is not parked any more: it was put back, and comes again in its turn.
                continue
            # After a lost answer "not yours" may mean "settled by your first try", so it is no sign of a lost lease.
            if ok or (unsure and ok is not None):
                self._count(finished)
                if finished.kind:
                    others.setdefault(finished.kind, []).append((finished, finished.detail or late))
            else:
                finished.held.lose()
                why = f"verdict {finished.verdict.value} came too late"
                others.setdefault("lease_lost", []).append((finished, why))
        drop(*settled)
        if self._answered is not None:
            self._answered(*settled)
        self.handled += len(settled)
        told = [self._told_settled(settled, late)] if settled else []
        for kind, pairs in others.items():
            told.append(self._told(kind, [each for each, _ in pairs], column([detail for _, detail in pairs])))
        return told

    def _count(self, finished: Finished) -> None:
        if finished.attempt is not None and finished.kind in ("retried", "dead", "parked"):
            self.failed += 1
        if finished.verdict in (Verdict.ACK, Verdict.DEAD):
            self.handled += 1

    def say(self, held: InFlight, kind: str, detail: str = "") -> None:
        """Emit a fact about a delivery that is not settled by us."""
        self._scope.facts.emit([self._told(kind, [Finished(held, kind, self._scope.clock.now_ms())], detail)])

    def say_retry(self, finished: Finished) -> None:
        """Emit the fact of an attempt that is repeated in place."""
        self.failed += 1
        self._scope.facts.emit([self._told(finished.kind, [finished], finished.detail)])

    def _told(self, kind: str, told: Sequence[Finished], detail: Texts) -> FactBatch:
        """The facts of ``told``."""
        stack_ids, stacks = self._stacks.of([each.stack for each in told])
        return self._facts(
            kind,
            [each.held for each in told],
            column([each.at_ms for each in told]),
            detail,
            attempt=column([each.attempt.number if each.attempt else each.held.attempt for each in told]),
            duration_us=column([each.duration_us for each in told]),
            due_ms=column([each.at_ms + each.after_ms if each.kind == "retried" else 0 for each in told]),
            error=column([each.error for each in told]),
            fingerprint=column([each.fingerprint for each in told]),
            stack_id=column(stack_ids),
            stack=column(stacks),
        )

    def _told_settled(self, settled: Sequence[InFlight], detail: Texts) -> FactBatch:
        """The facts of what was handled well: it has neither failed nor a due time."""
        return self._facts(
            "settled",
            settled,
            column([held.at_ms for held in settled]),
            detail,
            attempt=column([held.attempt for held in settled]),
            duration_us=column([held.duration_us for held in settled]),
        )

    def _facts(
        self,
        kind: str,
        told: Sequence[InFlight],
        at_ms: Moments,
        detail: Texts,
        *,
        attempt: Numbers,
        duration_us: Numbers,
        due_ms: Moments = 0,
        error: Texts = "",
        fingerprint: Texts = "",
        stack_id: Texts = "",
        stack: Texts = "",
    ) -> FactBatch:
        """What they share is said once."""
        messages = [held.message or _named(held) for held in told]
        deliveries = [held.delivery for held in told]
        sizes = [len(each.body) for each in deliveries]
        if max(sizes) > ATTRIBUTE_LIMIT:
            messages = [_bounded(each) for each in messages]
        return FactBatch(
            kind,
            at_ms,
            self._scope.subject,
            self._scope.name,
            len(told),
            column([each.correlationid for each in messages]),
            detail,
            BusFields(
                [each.id for each in messages],
                column([each.partitionkey for each in messages]),
                column([each.causationid for each in messages]),
                column(trace_ids_of([each.traceparent for each in messages])),
                column([each.type for each in messages]),
                column([each.source for each in messages]),
                [each.position for each in deliveries],
                attempt,
                duration_us,
                column(sizes),
                due_ms,
                error,
                fingerprint,
                stack_id,
                stack,
            ),
        )


def _bounded(message: Message) -> Message:
    """``message`` with names no longer than the evidence holds: a stranger's may be as long as a message may be, and
    the facts of a batch must fit into one entry of the store."""
    long = {name: value[:most] for name, most in LONGEST.items() if len(value := getattr(message, name)) > most}
    return msgspec.structs.replace(message, **long) if long else message


def _named(held: InFlight) -> Message:
    """What no worker has looked at yet has its names all the same, unless nobody can read its envelope."""
    try:
        held.message = decode(held.delivery.body)
    except MalformedEnvelope:
        return _NAMELESS
    return held.message


def failed_here(held: InFlight) -> Attempt | None:
    """The last attempt of ``held``, if it failed in this process: the store need not know of it yet."""
    return held.history[-1] if held.attempt > held.delivery.attempt and held.history else None


def _settlement(finished: Finished) -> Settlement:
    held = finished.held
    receipt = held.delivery.receipt
    failed = failed_here(held)
    if failed and not finished.dead and finished.verdict in (Verdict.RELEASE, Verdict.PARK):
        # It waited for its next attempt: the one that it had must not be forgotten.
        return Settlement(receipt, finished.verdict, attempt=failed, key=held.key, number=held.attempt)
    return Settlement(receipt, finished.verdict, finished.after_ms, finished.attempt, finished.dead, held.key)
