"""What waited for its due time, on its way to the transport.

It goes under the key that was claimed for it: a claim gives way to its message. Where there is none, or it ran out and
its key stands for another message by now, it goes under a key of its source and id that no publisher can use. So who
repeats it within the topic's window adds nothing, and what others chose for theirs, ids and keys alike, stands in
nobody's way.

On an ordered topic it is asked before what each key stands for: what was found out by sending would come to lie behind
what is due later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from engine.bus.building import DUE_KEYS, Prepared, prepare_stranger
from engine.bus.catalog import TopicPolicy
from engine.bus.errors import IdempotencyConflict, PublishRefused
from engine.bus.message import Message
from engine.bus.optional import Claiming
from engine.bus.publish_times import due_ms_of
from engine.bus.receipts import Answer, Receipt, ReceiptStatus
from engine.bus.transport import Outcome, Outgoing, Status, Transport

#: How long the store knows at least what went under a key of ours: a mover that died between publishing and telling
#: so may have no successor for a while. A key that a publisher chose means what it meant to them, for no longer.
DUE_KNOWN_S = 86_400

#: A message with the key that was claimed for it, or none.
Due = tuple[Message, str]
#: Makes each ready, or says why it may not go.
Making = Callable[[Sequence[Due]], Sequence[Prepared | PublishRefused]]


def prepare_due(policy: TopicPolicy, message: Message, claimed_key: str = "") -> Prepared | PublishRefused:
    """``message`` ready to go, or why it may not go: it may be a stranger's."""
    if claimed_key:
        return prepare_stranger(policy, message, claimed_key)
    named = hashlib.blake2b(msgspec.json.encode((message.source, message.id)), digest_size=16)
    return prepare_stranger(policy, message, DUE_KEYS + named.hexdigest(), DUE_KNOWN_S)


def send_due(
    policy: TopicPolicy,
    transport: Transport,
    due: Sequence[Due],
    send: Callable[[TopicPolicy, Sequence[Due], Making], list[Answer]],
) -> list[Answer]:
    """Send each under its key, and those once more whose key stands for another message by now."""

    def make(some: Sequence[Due]) -> list[Prepared | PublishRefused]:
        made = [prepare_due(policy, *each) for each in some]
        if policy.ordering != "none" and isinstance(transport, Claiming):
            for index in _passed(policy, transport, some, made):
                made[index] = prepare_due(policy, some[index][0])
        return made

    answers = send(policy, due, make)
    passed = [index for index, each in enumerate(due) if each[1] and _stands_for_another(answers[index], each[0])]
    if passed:
        again = send(policy, [(due[index][0], "") for index in passed], make)
        for index, answer in zip(passed, again, strict=True):
            answers[index] = answer
    return answers


def _passed(
    policy: TopicPolicy, transport: Claiming, due: Sequence[Due], made: Sequence[Prepared | PublishRefused]
) -> list[int]:
    """Whose key stands for another message by now. The others' are claimed anew, so that they stay theirs until they
    are sent; what the store did not answer is left to the sending."""
    asked: list[tuple[int, Outgoing]] = []
    for index, ((message, claimed_key), each) in enumerate(zip(due, made, strict=True)):
        if claimed_key and message.hbusdue and isinstance(each, Prepared):
            claim = msgspec.structs.replace(each.outgoing, body=b"", due_ms=due_ms_of(message))
            asked.append((index, claim))
    answers = transport.claim(policy.name, [claim for _, claim in asked]) if asked else []
    return [index for (index, claim), answer in zip(asked, answers, strict=True) if _is_anothers(answer, claim)]


def _is_anothers(answer: Outcome, claim: Outgoing) -> bool:
    if answer.status in (Status.DUPLICATE, Status.HELD):
        return answer.message_id != claim.message_id
    return answer.status is Status.CONFLICT


def _stands_for_another(answer: Answer, message: Message) -> bool:
    """Whether the key that ``message`` was sent under is another's."""
    if isinstance(answer, Receipt):
        return answer.status is ReceiptStatus.DUPLICATE and answer.message_id != message.id
    return isinstance(answer, IdempotencyConflict)
