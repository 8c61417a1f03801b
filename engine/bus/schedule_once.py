"""Keeping messages until they are due, so that an idempotency key stands for one message however it was published.

The keys of a topic lie with its transport, the messages that wait lie in the delay path: two stores, which no single
script reaches. So a key is first *claimed* at the transport, atomically against everything published there, for the id
and the due time of the message; then the message is scheduled, atomically by that id. Whoever meets a claim schedules
what he has under the claim's id and due time: the delay path keeps it once. So a publisher that dies between the two
steps has claimed nothing in vain, and whichever comes first, one message comes of it. Nothing is claimed for what the
delay path would refuse: its key would stand for a message that nobody has.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.bus.building import Prepared
from engine.bus.catalog import TopicPolicy
from engine.bus.delay_answers import TAKEN
from engine.bus.delays import Delayed, DelayPath
from engine.bus.errors import PublishRefused
from engine.bus.message import Message, decode, digest, encode
from engine.bus.optional import Claiming
from engine.bus.publish_times import check_horizon, due_ms_of
from engine.bus.transport import Outcome, Outgoing, Status, Transport
from engine.core.clock import to_rfc3339
from engine.core.errors import Unavailable

_NO_PATH = (
    "its idempotency key is held by message {}, which waits for its due time, "
    "and this producer has no delay path to look there"
)


class Later(msgspec.Struct, frozen=True, gc=False):
    """One message on its way into the delay path."""

    message: Message
    body: bytes
    due_ms: int
    idempotency_key: str = ""
    idempotency_window_ms: int = 0


class Kept(msgspec.Struct, frozen=True, gc=False):
    """What became of one message; ``due_ms`` is when the one that is kept is due."""

    outcome: Outcome
    due_ms: int = 0
    #: A claim that nobody had carried out was carried out by this call.
    carried_out: bool = False


class ScheduleOnce:
    """The delay path of one topic, beside its transport. Thread-safe as these are; never raises for a store's sake."""

    def __init__(self, policy: TopicPolicy, transport: Transport, delays: DelayPath | None) -> None:
        self._topic, self._incarnation = policy.name, policy.incarnation
        self._transport = transport
        self._delays = delays

    def check(self, due_ms: int, now_ms: int) -> None:
        """Raise :class:`PublishRefused` for a due time that nobody can keep: too far, or there is no path."""
        if self._delays is None:
            raise PublishRefused(
                "This producer has no delay path, so it cannot keep a message until it is due.",
                remedy="Give the producer one, or publish without delay.",
                field="due",
            )
        check_horizon(due_ms, now_ms)

    def keep(self, batch: Sequence[Later]) -> list[Kept]:
        """Schedule each, unless its key stands for another message.

        ``OK`` is kept (also when it was before, under the same id); ``DUPLICATE`` names the message that the key
        stands for, stored or kept. A transport that is not :class:`Claiming` does not know of what is kept here: its
        keys are then compared among delayed messages only.
        """
        claimed = self._claim(batch)
        found: list[Kept | None] = [None] * len(batch)
        scheduling: list[tuple[int, Delayed]] = []
        for index, (later, claim) in enumerate(zip(batch, claimed, strict=True)):
            if claim is None:
                scheduling.append((index, _as_it_is(later)))
            elif claim.status is Status.OK:
                scheduling.append((index, _once(later, later.message, later.body, later.due_ms)))
            elif claim.status is Status.HELD:
                scheduling.append((index, _adopted(later, claim)))
            else:
                found[index] = Kept(claim)
        for (index, delayed), outcome in zip(scheduling, self._schedule(scheduling), strict=True):
            claim = claimed[index]
            if claim is not None and claim.status is Status.HELD:
                found[index] = _carried_out(batch[index].message.id, claim, outcome)
            elif outcome.status is Status.DUPLICATE and outcome.message_id == delayed.message_id:
                # It repeats itself: an outbox, say, whose relay died before it could note the first answer.
                found[index] = Kept(Outcome(Status.OK, delayed.message_id), delayed.due_ms)
            else:
                found[index] = Kept(outcome, outcome.due_ms or delayed.due_ms)
        return [each for each in found if each is not None]

    def see_to(self, held: Sequence[tuple[Later, Outcome]]) -> list[Kept]:
        """Answer publishes that met the claim of a kept message, with the ``HELD`` of each."""
        if self._delays is None:
            return [
                Kept(Outcome(Status.UNKNOWN, later.message.id, error=_NO_PATH.format(claim.message_id)))
                for later, claim in held
            ]
        scheduling = [(index, _adopted(later, claim)) for index, (later, claim) in enumerate(held)]
        return [
            _carried_out(later.message.id, claim, outcome)
            for (later, claim), outcome in zip(held, self._schedule(scheduling), strict=True)
        ]

    def _claim(self, batch: Sequence[Later]) -> list[Outcome | None]:
        """The transport's answer for each message with a key; ``None`` where there is nothing to ask."""
        answers: list[Outcome | None] = [None] * len(batch)
        keyed = [index for index, later in enumerate(batch) if later.idempotency_key]
        if not (keyed and isinstance(self._transport, Claiming)):
            return answers
        refused = self._refused(batch)
        for index in keyed:
            answers[index] = refused[index]
        claiming = [index for index in keyed if refused[index] is None]
        if claiming:
            claims = self._transport.claim(self._topic, [_claim_of(batch[index]) for index in claiming])
            for index, answer in zip(claiming, claims, strict=True):
                answers[index] = answer
        return answers

    def _refused(self, batch: Sequence[Later]) -> list[Outcome | None]:
        """The answer for each that the delay path would refuse, for another message of its name waits there or stands
        further up in ``batch``."""
        if self._delays is None:
            raise AssertionError("unreachable: without a delay path nothing is accepted for later")
        delayed = [_as_it_is(later) for later in batch]
        try:
            taken = self._delays.taken(self._topic, delayed)
        except Unavailable as error:
            return [Outcome(Status.FAILED, each.message_id, "", error.what, remedy=error.remedy) for each in delayed]
        first: dict[tuple[str, str], str] = {}
        refused: list[Outcome | None] = []
        for each, waits in zip(delayed, taken, strict=True):
            another = first.setdefault((each.source, each.message_id), each.digest) != each.digest
            refused.append(Outcome(Status.CONFLICT, each.message_id, error=TAKEN) if waits or another else None)
        return refused

    def _schedule(self, scheduling: Sequence[tuple[int, Delayed]]) -> list[Outcome]:
        if not scheduling:
            return []
        if self._delays is None:
            raise AssertionError("unreachable: without a delay path nothing is accepted for later")
        meant = [msgspec.structs.replace(delayed, incarnation=self._incarnation) for _, delayed in scheduling]
        return self._delays.schedule(self._topic, meant)


def later_of(prepared: Prepared) -> Later:
    """An envelope that was on its way to the transport."""
    outgoing = prepared.outgoing
    key, window_ms = outgoing.idempotency_key, outgoing.idempotency_window_ms
    return Later(decode(outgoing.body), outgoing.body, due_ms_of(prepared.like), key, window_ms)


def _claim_of(later: Later) -> Outgoing:
    return Outgoing(
        later.message.id,
        b"",
        idempotency_key=later.idempotency_key,
        idempotency_digest=digest(later.message),
        idempotency_window_ms=later.idempotency_window_ms,
        due_ms=later.due_ms,
    )


def _as_it_is(later: Later) -> Delayed:
    """With the producer's own key, which the delay path compares with those of other delayed messages."""
    message, key, window_ms = later.message, later.idempotency_key, later.idempotency_window_ms
    return Delayed(message.id, message.source, later.body, later.due_ms, digest(message), key, window_ms)


def _once(later: Later, message: Message, body: bytes, due_ms: int) -> Delayed:
    """With its id and the claimed key as key: who carries a claim out again later, when it was published long since,
    adds nothing, whatever the source that he has for it."""
    claimed, window_ms = later.idempotency_key, later.idempotency_window_ms
    key = f"{message.id} {claimed}"
    return Delayed(message.id, message.source, body, due_ms, digest(message), key, window_ms, claimed)


def _adopted(later: Later, claim: Outcome) -> Delayed:
    """The message as the one that claimed its key: the same event by another id."""
    twin = msgspec.structs.replace(later.message, id=claim.message_id, hbusdue=to_rfc3339(claim.due_ms))
    kept = _once(later, twin, encode(twin), claim.due_ms)
    # Only here: a claim that stood before says that this id is its own, and no other source's.
    return msgspec.structs.replace(kept, former_key=twin.id)


def _carried_out(message_id: str, claim: Outcome, outcome: Outcome) -> Kept:
    if outcome.status in (Status.OK, Status.DUPLICATE):
        duplicate = Outcome(Status.DUPLICATE, claim.message_id)
        return Kept(duplicate, claim.due_ms, carried_out=outcome.status is Status.OK)
    return Kept(Outcome(outcome.status, message_id, error=outcome.error, remedy=outcome.remedy))
