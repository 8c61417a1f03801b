"""Messages by what became of them: dead, retrying, not settled everywhere yet, or nobody told.

All but the unsettled are few and found from the evidence of their failures. What is unsettled has no evidence of
its own: the newest messages are judged one after the other, so many at most, and it is said how far that came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Exists, OuterRef

from engine.bus.fact_kinds import FINAL
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import BadInput
from hbus_console import cursors
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.by_event import Happening, of_same_source
from hbus_console.messages.models import FAILED, LOST, PASSED, Identity, LedgerEvent, LedgerMessage
from hbus_console.messages.outcomes import outcomes
from hbus_console.operations.models import UNDECIDED, OperationItem
from hbus_console.operations.outcomes import Made

#: One search judges no more messages, and takes no more seconds, than this; then it says so and can be continued.
MOST_JUDGED = 10_000
LONGEST_S = 2.0
_CHUNK = 500
#: Publishers may claim any instant; a later one than this has no date.
_LAST_MS = 253_402_300_799_000
_clock = SystemClock()


class Became(StrEnum):
    """What is looked for."""

    #: It does not matter.
    UNASKED = ""
    #: It died in a subscription, whether or not a person has decided about it since.
    DEAD = "dead"
    #: An attempt failed in a subscription that is not done with it.
    RETRYING = "retrying"
    #: A subscription is not done with it: it waits, is tried again, is parked, or is not due yet.
    UNSETTLED = "unsettled"
    #: A subscription is done with it, as the store says, and nobody told what became of it there.
    NOBODY_TOLD = "nobody-told"
    #: The store no longer has it, and nobody told what became of it before.
    LOST = "lost"

    @classmethod
    def read(cls, text: str) -> Became:
        """From a query parameter. Raises ``BadInput``."""
        try:
            return cls(text.strip())
        except ValueError as error:
            remedy = "Ask for dead, retrying, unsettled, nobody-told or lost, or leave it out."
            raise BadInput(f"There is no outcome {text[:40]!r}.", remedy=remedy, field="outcome") from error

    def happening(self) -> Happening | None:
        """The failures that tell of it; ``None`` where no event does."""
        if self is Became.DEAD:
            return _failures("dead")
        if self is Became.NOBODY_TOLD:
            return Happening(LedgerEvent.objects.filter(PASSED), LedgerEvent.objects.filter(kind="passed"))
        if self is Became.LOST:
            return Happening(LedgerEvent.objects.filter(LOST), LedgerEvent.objects.filter(kind="lost"))
        if self is Became.RETRYING:
            done = LedgerEvent.objects.filter(
                of_same_source(),
                kind__in=FINAL,
                message_id=OuterRef("message_id"),
                topic=OuterRef("topic"),
                subscription=OuterRef("subscription"),
            )
            found = _failures("retried")
            return Happening(found.walked.filter(~Exists(done)), found.of_message.filter(~Exists(done)))
        return None


@dataclass(frozen=True)
class Judged:
    """The unsettled among the newest messages. ``next_cursor`` goes on, empty when all were judged."""

    messages: list[LedgerMessage]
    next_cursor: str
    judged: int
    #: When the oldest that was judged was published; ``None`` when there was none.
    back_to_ms: int | None


def unsettled(
    page: Callable[[str, int], tuple[list[LedgerMessage], str]], cursor: str, size: int, *, clock: Clock = _clock
) -> Judged:
    """Up to ``size`` unsettled messages of what ``page(cursor, size)`` gives, newest first: its messages and its next
    cursor. Stops after :data:`MOST_JUDGED` messages or :data:`LONGEST_S` seconds."""
    until = clock.monotonic() + LONGEST_S
    found: list[LedgerMessage] = []
    judged, back_to_ms = 0, None
    while True:
        messages, cursor = page(cursor, _CHUNK)
        for message, is_open in zip(messages, open_of(messages), strict=True):
            judged, back_to_ms = judged + 1, message.published_ms
            if is_open:
                found.append(message)
                if len(found) == size:
                    more = cursor or message is not messages[-1]
                    place = cursors.written(message.published_ms, message.pk) if more else ""
                    return Judged(found, place, judged, back_to_ms)
        if not cursor or judged >= MOST_JUDGED or clock.monotonic() >= until:
            return Judged(found, cursor, judged, back_to_ms)


def _failures(kind: str) -> Happening:
    return Happening(LedgerEvent.objects.filter(FAILED, kind=kind), LedgerEvent.objects.filter(kind=kind))


def open_of(messages: Sequence[LedgerMessage]) -> list[bool]:
    """Of each whether a subscription is not done with it, in a fixed number of queries."""
    alone = meant_for_one(messages)
    made = [
        Made(
            message.subject,
            at=(at := to_datetime(min(max(message.published_ms, 0), _LAST_MS))),
            unseen_since=at,
            facets={"source": message.source} | _only(alone.get(message.identity)),
        )
        for message in messages
    ]
    return [fate.outcome in UNDECIDED for fate in outcomes(made, later_ones_too=True)]


def _only(group: str | None) -> dict[str, str]:
    return {"subscription": group} if group else {}


def meant_for_one(messages: Sequence[LedgerMessage]) -> dict[Identity, str]:
    """The subscription of those that are copies for it alone: of a redriven letter, or of a replay into it."""
    identities = {message.identity for message in messages}
    texts: dict[str, list[Identity]] = {}
    for message in messages:
        texts.setdefault(str(message.subject), []).append(message.identity)
    # A copy names the message it was made of, by which letters have an index.
    letters = DeadLetter.objects.filter(
        message_id__in={message.causation_id for message in messages if message.causation_id}
    )
    redriven = letters.values_list("topic", "redriven_as", "source", "subscription")
    # A copy has the source of its original.
    found = {(topic, id_, source): group for topic, id_, source, group in redriven}
    found = {identity: group for identity, group in found.items() if identity in identities}
    for became, facets in OperationItem.objects.filter(became__in=texts).values_list("became", "facets"):
        if group := facets.get("subscription"):
            made = texts[became]
            found |= dict.fromkeys((each for each in made if each[2] == facets.get("source", each[2])), group)
    return found
