"""What a search for lost outcomes is past and looks at again: messages that are not settled, and rows booked late.

A bounded number for each subscription; beyond it the search waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from engine.bus.fact_kinds import FINAL
from engine.bus.optional import WhereItIs
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.became import meant_for_one
from hbus_console.messages.by_event import off_time
from hbus_console.messages.checking import PAGE, SKEW_MS
from hbus_console.messages.judging import DeliveryJudge, Judgement
from hbus_console.messages.models import DeliveryAside, DeliveryCheck, LedgerEvent, LedgerMessage

#: So many messages of a subscription are set aside at most.
MOST_ASIDE = 1_000
#: What is not settled is asked about so often.
ASK_AGAIN_MS = 60_000
#: So many rows that were booked late are taken in one round.
MOST_LATE = 5_000
#: Who has not asked for those of so many rows asks for itself: one that waits for room would hold all others back.
TOGETHER = 20_000


@dataclass
class Looked:
    """What one look at some messages amounts to, to be written at once."""

    checked: int = 0
    skipped: int = 0
    passed: list[LedgerMessage] = field(default_factory=list)
    lost: list[LedgerMessage] = field(default_factory=list)
    #: With the letters that show how they died.
    died: list[tuple[LedgerMessage, DeadLetter]] = field(default_factory=list)
    #: To be kept: new, or changed.
    aside: list[DeliveryAside] = field(default_factory=list)
    #: No longer needed.
    over: list[DeliveryAside] = field(default_factory=list)

    def judged(self, message: LedgerMessage, verdict: Judgement) -> None:
        """Of a message without an outcome; not for ``NOT_YET``."""
        if verdict is Judgement.NONE_OF_ITS:
            return
        self.checked += 1
        (self.lost if verdict is Judgement.LOST else self.passed).append(message)

    def write(self, row: DeliveryCheck) -> None:
        """Its rows, and ``row`` with its counts. The caller opens the transaction."""
        row.checked += self.checked
        row.skipped += self.skipped
        row.found += len(self.passed)
        row.lost += len(self.lost)
        row.save()
        DeliveryAside.objects.filter(pk__in=[each.pk for each in self.over]).delete()
        DeliveryAside.objects.bulk_update([each for each in self.aside if each.pk], ["asked_ms", "over_ms"])
        new = [each for each in self.aside if not each.pk]
        for each in new:
            each.check_of = row
        DeliveryAside.objects.bulk_create(new, ignore_conflicts=True)


def room(row: DeliveryCheck) -> int:
    """How many more may be set aside."""
    return MOST_ASIDE - row.aside.count() if row.pk else MOST_ASIDE


def set_aside(message: LedgerMessage, standing: WhereItIs | None, now_ms: int) -> DeliveryAside:
    over = standing is not None and standing is not WhereItIs.OPEN
    return DeliveryAside(row_id=message.pk, asked_ms=now_ms, over_ms=now_ms if over else 0)


def again(row: DeliveryCheck, judge: DeliveryJudge, now_ms: int, until_ms: int) -> Looked:
    """Looked at what was set aside, as far as there is something new to learn; at most a page of it."""
    look = Looked()
    due = Q(over_ms__gt=0, over_ms__lt=until_ms) | Q(asked_ms__lte=now_ms - ASK_AGAIN_MS)
    asides = list(row.aside.filter(due).order_by("asked_ms", "pk")[:PAGE])
    messages = LedgerMessage.objects.in_bulk([each.row_id for each in asides])
    there = {each.row_id: each for each in asides if each.row_id in messages}
    look.over += [each for each in asides if each.row_id not in messages]
    look.skipped = len(look.over)
    meant = meant_for(row, list(messages.values()))
    open_ones = silent(row, meant)
    look.checked = len(meant) - len(open_ones)
    asked = {message.pk for message in open_ones}
    for message, letter in untold_deaths(row, meant):
        if died_ms(letter) < until_ms:
            look.died.append((message, letter))
        else:
            # It may be told yet.
            asked.add(message.pk)
            there[message.pk].asked_ms = now_ms
            look.aside.append(there[message.pk])
    look.over += [each for pk, each in there.items() if pk not in asked]
    for message, standing in zip(open_ones, judge.standings(open_ones), strict=True):
        aside = there[message.pk]
        verdict = judge.verdict(message, standing, aside.over_ms)
        if verdict is not Judgement.NOT_YET:
            look.judged(message, verdict)
            look.over.append(aside)
            continue
        aside.asked_ms = now_ms
        if standing is None or standing is WhereItIs.OPEN:
            aside.over_ms = 0
        else:
            aside.over_ms = aside.over_ms or now_ms
        look.aside.append(aside)
    return look


@dataclass(frozen=True)
class Late:
    """Rows of all topics that were booked late, in the order in which they were booked."""

    #: All of them behind the first of these and up to the second.
    after_id: int = 0
    through_id: int = 0
    rows: Sequence[LedgerMessage] = ()


def late_rows(rows: Sequence[DeliveryCheck], last_id: int, now_ms: int) -> Late:
    """Those booked since most of ``rows`` last asked whose time somebody is past already, or which has not come."""
    newest = max((row.booked_id for row in rows), default=0)
    if not newest:
        return Late(last_id, last_id)
    first_id = min(row.booked_id for row in rows if row.booked_id >= max(1, newest - TOGETHER))
    found = list(_odd(first_id, last_id, max(row.until_ms for row in rows), now_ms)[:MOST_LATE])
    return Late(first_id, found[-1].pk if len(found) == MOST_LATE else last_id, found)


def take_late(row: DeliveryCheck, late: Late, last_id: int, now_ms: int) -> Looked | None:
    """Set aside what ``row`` has missed, as far as there is room; the rest is taken next time. ``None``: there is
    nothing to be written."""
    together = late.after_id <= row.booked_id < late.through_id
    if row.booked_id >= last_id:
        return None
    if together:
        through = late.through_id
        missed = [
            message
            for message in late.rows
            if message.topic == row.topic
            and message.pk > row.booked_id
            and (message.published_ms < row.until_ms or message.published_ms > now_ms + SKEW_MS)
        ]
        left = room(row) if missed else 0
    elif left := room(row):
        own = _odd(row.booked_id, last_id, row.until_ms, now_ms).filter(topic=row.topic)
        through, missed = last_id, list(own[: left + 1])
    else:
        return None
    if len(missed) > left:
        through = missed[left].pk - 1
    row.booked_id = max(row.booked_id, through)
    if together and not missed[:left]:
        return None
    # None of what was told of it need be booked yet.
    return Looked(aside=[set_aside(message, None, now_ms) for message in missed[:left]])


def _odd(first_id: int, last_id: int, past_ms: int, now_ms: int) -> QuerySet[LedgerMessage]:
    """Of the rows behind ``first_id`` those from before ``past_ms``, and those of a time that has not come."""
    new = LedgerMessage.objects.filter(pk__gt=first_id, pk__lte=last_id).alias(told_ms=off_time("published_ms"))
    return new.filter(Q(told_ms__lt=past_ms) | Q(told_ms__gt=now_ms + SKEW_MS)).order_by("pk")


def silent(row: DeliveryCheck, due: Sequence[LedgerMessage]) -> list[LedgerMessage]:
    """What has no outcome there."""
    ids = [message.message_id for message in due]
    told = LedgerEvent.objects.filter(
        message_id__in=ids, topic=row.topic, subscription=row.subscription, kind__in=FINAL
    )
    died = DeadLetter.objects.filter(message_id__in=ids, topic=row.topic, subscription=row.subscription)
    had = {*told.values_list("message_id", "source"), *died.values_list("message_id", "source")}
    return [message for message in due if not had.intersection(_told_as(message))]


def _told_as(message: LedgerMessage) -> set[tuple[str, str | None]]:
    """By which evidence of it is known in its topic."""
    return {(message.message_id, message.source), (message.message_id, None)}


def untold_deaths(row: DeliveryCheck, due: Sequence[LedgerMessage]) -> list[tuple[LedgerMessage, DeadLetter]]:
    """What died there, as its letter shows, and the ledger does not know."""
    messages = {(message.message_id, message.source): message for message in due}
    ids = [message.message_id for message in due]
    died = DeadLetter.objects.filter(message_id__in=ids, topic=row.topic, subscription=row.subscription)
    # Whole, but for the envelope.
    letters = {(letter.message_id, letter.source): letter for letter in died.defer("body").order_by("died_at")}
    told = LedgerEvent.objects.filter(
        message_id__in=[message_id for message_id, _ in letters],
        topic=row.topic,
        subscription=row.subscription,
        kind__in=FINAL,
    )
    known = set(told.values_list("message_id", "source"))
    return [
        (message, letters[each])
        for each, message in messages.items()
        if each in letters and not known.intersection(_told_as(message))
    ]


def died_ms(letter: DeadLetter) -> int:
    """When, in epoch milliseconds."""
    return round(letter.died_at.timestamp() * 1000)


def meant_for(row: DeliveryCheck, page: Sequence[LedgerMessage]) -> list[LedgerMessage]:
    """Without copies for other subscriptions, and without what still waits for its time."""
    copies = [message for message in page if message.causation_id]
    alone = meant_for_one(copies) if copies else {}
    return [
        message
        for message in page
        if not message.waits and alone.get(message.identity, row.subscription) == row.subscription
    ]
