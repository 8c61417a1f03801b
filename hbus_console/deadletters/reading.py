"""Dead letters on their way out: pages of them, and each as JSON with its payload masked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Length

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope
from engine.core.clock import to_datetime
from engine.core.room import fitting
from hbus_console import cursors
from hbus_console.access.permissions import Actor, allows, require
from hbus_console.deadletters.groups import LetterFilters
from hbus_console.deadletters.models import DeadLetter, place_of
from hbus_console.deadletters.weights import weight
from hbus_console.messages.feature import PAYLOAD_READ
from hbus_console.topics.handler_errors import told_whole_from
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, shown

#: Envelope attributes that an answer repeats; the payload goes its own, masked way.
_ATTRIBUTES = ("type", "time", "subject", "dataschema", "expirytime", "traceparent", "causationid", "hbusreplay")
#: What the bodies on one page of the API weigh at most; one that is heavier by itself is a page of its own.
PAGE_BYTES = 32 << 20
#: Letters that the export reads at once.
_AT_ONCE = 25


@dataclass(frozen=True)
class LetterPage:
    """Letters, newest first; ``next_cursor`` is empty on the last page."""

    letters: list[DeadLetter]
    next_cursor: str


def page(rows: QuerySet[DeadLetter], cursor: str, size: int) -> LetterPage:
    """The letters after ``cursor``, without bodies; raises ``BadInput`` for a cursor that none of our pages gave."""
    letters, last = cursors.cut(_after(rows, cursor).defer("body")[: size + 1], size)
    return LetterPage(letters, last.place if last else "")


def full_page(rows: QuerySet[DeadLetter], cursor: str, size: int) -> LetterPage:
    """Likewise with their bodies: fewer than ``size`` where these come to more than :data:`PAGE_BYTES`."""
    # The sizes alone first: they cost nothing, and 500 bodies of 16 MiB each are more than there is room for.
    found = list(
        _after(rows, cursor).annotate(_length=Length("body")).values_list("pk", "died_at", "_length")[: size + 1]
    )
    chosen = found[: fitting((weight(length) for _, _, length in found[:size]), PAGE_BYTES)]
    letters = list(_ordered(DeadLetter.objects.filter(pk__in=[pk for pk, _, _ in chosen])))
    # By what was found: some of these may be gone since, or all, and what follows is there.
    return LetterPage(letters, place_of(chosen[-1][1], chosen[-1][0]) if len(chosen) < len(found) else "")


def exported(actor: Actor, filters: LetterFilters) -> Iterator[dict[str, Any]]:
    """Every letter that fits, in full; raises ``Forbidden`` for who may not read payloads anywhere."""
    require(actor, PAYLOAD_READ)
    topics = {topic.name: topic for topic in Topic.objects.all()}
    return (as_json(actor, letter, topics.get(letter.topic)) for letter in _each(filters.letters(actor)))


def _each(rows: QuerySet[DeadLetter]) -> Iterator[DeadLetter]:
    """All of ``rows``, page by page, and each let go of as soon as it is told."""
    cursor = ""
    while True:
        found = full_page(rows, cursor, _AT_ONCE)
        found.letters.reverse()
        while found.letters:
            yield found.letters.pop()
        cursor = found.next_cursor
        if not cursor:
            return


def _after(rows: QuerySet[DeadLetter], cursor: str) -> QuerySet[DeadLetter]:
    return _ordered(rows.filter(cursors.beyond(_place(cursor))) if cursor else rows)


def _ordered(rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
    return rows.order_by("-died_at", "-pk")


def as_json(actor: Actor, letter: DeadLetter, topic: Topic | None) -> dict[str, Any]:
    """One letter as the API and the export give it."""
    letter.tell_errors(told_whole_from(actor, letter.topic, topic))
    answer: dict[str, Any] = {
        "id": letter.pk,
        "state": letter.state,
        **{name: getattr(letter, name) for name in ("topic", "subscription", "message_id", "source", "position")},
        **{name: getattr(letter, name) for name in ("key", "correlation_id", "cause", "fingerprint")},
        "error": letter.shown_error,
        "attempts": letter.attempts,
        "history": letter.shown_history,
        "first_failed_at": letter.first_failed_at,
        "died_at": letter.died_at,
    }
    if letter.state != DeadLetter.State.DEAD:
        answer |= {
            "decided_by": letter.decided_by,
            "decided_at": letter.decided_at,
            "reason": letter.reason,
            "redriven_as": letter.redriven_as,
        }
    try:
        message = envelope.decode(bytes(letter.body))
    except MalformedEnvelope:
        return answer | {"envelope": None, "payload": None, "masked": ["*"]}
    attributes = {name: getattr(message, name) for name in _ATTRIBUTES if getattr(message, name)}
    payload = shown(message, MaskingRules.at(topic, letter.died_at))
    readable = allows(actor, PAYLOAD_READ, letter.topic)
    return answer | {
        "envelope": attributes | message.extensions,
        "payload": payload.value if readable else None,
        "masked": list(payload.hidden) if readable else ["*"],
    }


def _place(cursor: str) -> dict[str, object]:
    micros, number = cursors.read(cursor, 2)
    try:
        died_at = to_datetime(micros // 1000).replace(microsecond=micros % 1_000_000)
    except (ValueError, OverflowError, OSError) as error:
        raise cursors.no_page() from error
    return {"-died_at": died_at, "-pk": number}
