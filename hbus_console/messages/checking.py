"""Finds what lies in a topic and the ledger does not have, and has it booked.

Facts of a publish leave its process after the message: who is killed in between has published and told nobody. So does
whoever appends to a topic without hbus. What the transport keeps says both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Min

from engine.bus.errors import MalformedEnvelope
from engine.bus.facts import Fact, batches
from engine.bus.message import Message, decode
from engine.bus.optional import TellsStanding
from engine.bus.transport import Admin, Stored, Transport
from engine.core.clock import Clock, SystemClock
from engine.core.facts import FactBatch
from engine.core.ids import trace_id_of
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.collector import CURSOR
from hbus_console.evidence.columns import texts
from hbus_console.evidence.models import Cursor
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.models import LONGEST_ID, LONGEST_SOURCE, LedgerCheck, LedgerMessage
from hbus_console.messages.reach import id_ends
from hbus_console.parts import Parts
from hbus_console.topics.models import Topic
from hbus_console.turns import Turns

#: A fact that has not come so long after its message is lost: processes send theirs several times a second.
GRACE_MS = 120_000
#: Messages compared in one go.
PAGE = 500
#: How far the clocks of publishers and keepers may be from the store's.
SKEW_MS = 60_000
#: And how far where somebody looks after them.
CLOSE_MS = 2_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 3.0

_log = structlog.get_logger(__name__)


class _Span(NamedTuple):
    """What is looked at of one topic, epoch milliseconds."""

    #: From then on the ledger has all that it was told.
    since_ms: int
    until_ms: int
    #: From then on the topic may have lain elsewhere; ``None``: it was never moved.
    elsewhere_ms: int | None


class EvidenceCheck:
    """A duty: looks at each message once, some minutes after it was published, on transports that can be browsed.

    ``newest_fact`` gives the id of the newest entry of the fact stream; raises ``Unavailable``. What is missing is
    booked as ``untold``, in the transaction that moves the row of its topic, and given to ``count`` after that;
    should the genuine fact come after all, both make one message.
    """

    name = "evidence-check"
    interval_s = 15.0

    def __init__(
        self,
        transport: Callable[[str], Transport],
        newest_fact: Callable[[], str],
        count: Callable[[Sequence[FactBatch]], None],
        *,
        node: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._transport = transport
        self._newest_fact = newest_fact
        self._count = count
        self._node = node
        self._clock = clock or SystemClock()
        self._turns: Turns[str] = Turns()

    def tick(self) -> None:
        """Go on with every topic, a page each in turns, while there is time. Raises ``Unavailable``."""
        if not settings.HBUS_LEDGER:
            return
        # Asked first: what is booked by then is booked for all that is looked at below.
        until_ms, since_ms = booked_until(self._newest_fact, self._clock), ledger_since()
        known = {row.topic: row for row in LedgerCheck.objects.all()}
        topics = dict(Topic.objects.values_list("name", "transport"))
        moved = dict(Topic.objects.exclude(moved_at=None).values_list("name", "created_at"))
        LedgerCheck.objects.exclude(topic__in=topics).delete()
        if since_ms is None:
            since_ms = until_ms
        rows = [known.get(name) or LedgerCheck(topic=name, until_ms=since_ms) for name in topics]
        before = {row.topic: (row.found, row.ahead) for row in rows}
        parts, started = Parts("{parts} could not be checked"), self._clock.monotonic()
        silent: list[LedgerCheck] = []
        turns: dict[str, Callable[[], bool]] = {}
        for row in sorted(rows, key=lambda each: each.until_ms):
            transport = topics[row.topic]
            elsewhere_ms = round(moved[row.topic].timestamp() * 1000) if row.topic in moved else None
            span = _Span(since_ms, until_ms, elsewhere_ms)
            piece = partial(next, self._pieces(row, transport, span, silent), False)
            turns[row.topic] = partial(_turn, parts, row.topic, piece, transport)
        self._turns.take(turns, lambda: self._clock.monotonic() - started < TICK_S)
        # Most topics are, at most times: together they cost two statements.
        LedgerCheck.objects.bulk_create([row for row in silent if row.pk is None])
        LedgerCheck.objects.filter(pk__in=[row.pk for row in silent]).update(until_ms=until_ms, position="")
        for row in rows:
            found, ahead = before[row.topic]
            if row.ahead > ahead:
                _log.warning("messages bear a time that has not come", topic=row.topic, count=row.ahead - ahead)
            if row.found > found:
                _log.info("messages of which nobody had told", topic=row.topic, count=row.found - found)
        parts.tell()

    def _pieces(self, row: LedgerCheck, transport: str, span: _Span, silent: list[LedgerCheck]) -> Iterator[bool]:
        """Goes on with one topic by a page each time. To ``silent`` comes a row where all is looked at and nothing was
        there, which is left as it was."""
        until_ms = span.until_ms
        opened = self._transport(transport)
        if not opened.capabilities.browse:
            return
        began_ms = opened.admin.began_ms(row.topic) if isinstance(opened.admin, TellsStanding) else 0
        if row.pk is None:
            # Before it began nothing was there that anybody could miss, unless it lay elsewhere then.
            elsewhere_ms = began_ms if span.elsewhere_ms is None else span.elsewhere_ms
            row.until_ms = max(row.until_ms, min(began_ms, elsewhere_ms))
        since_ms = max(span.since_ms, began_ms)
        if row.until_ms < since_ms:
            # The ledger has let go of what it had of that time: what it lacks there says nothing. Or the topic lay
            # elsewhere, or in a store that was emptied, and what it had then lies nowhere.
            row.skipped_ms += since_ms - row.until_ms
            row.until_ms, row.position = since_ms, ""
            row.save()
        if row.until_ms >= until_ms:
            # What is booked is known less far than before: nothing is looked at twice for that.
            return
        checked = row.checked
        newest = self._look(row, opened.admin, until_ms)
        while row.until_ms < until_ms:
            yield True
            newest = self._look(row, opened.admin, until_ms)
        moved = yield from self._look_ahead(row, opened.admin, newest, until_ms)
        if not moved and row.checked == checked:
            silent.append(row)

    def _look(self, row: LedgerCheck, admin: Admin, until_ms: int) -> Stored | None:
        """At one page; the topic's last message once all of that time is looked at."""
        page = admin.browse(row.topic, after=row.position or f"@{row.until_ms}", limit=PAGE)
        due = [entry for entry in page.entries if entry.at_ms < until_ms]
        if due and len(due) == len(page.entries) and page.next_position:
            row.position, row.until_ms = page.next_position, due[-1].at_ms
        else:
            row.position, row.until_ms = "", until_ms
        if due:
            self._compare(row, due)
        if row.until_ms < until_ms:
            return None
        entries = page.entries
        if page.next_position:
            entries = admin.browse(row.topic, limit=1, newest_first=True).entries
        return entries[-1] if entries else None

    def _look_ahead(
        self, row: LedgerCheck, admin: Admin, newest: Stored | None, until_ms: int
    ) -> Generator[bool, None, bool]:
        """At what bears a time that has not come; whether the row was written.

        Whoever writes an entry may choose its time, and a store gives none before it to any that follow. So these are
        looked at once all is booked that had happened when they were seen to be there.
        """
        now_ms = self._clock.now_ms()
        if newest is None or newest.at_ms <= now_ms + SKEW_MS:
            if not row.ahead_until and not row.ahead_next:
                return False
            # They are gone, or their time has come.
            row.ahead_until = row.ahead_next = ""
        elif row.ahead_next and row.ahead_next_ms < until_ms:
            self._look_at_ahead(row, admin)
            while row.ahead_next:
                yield True
                self._look_at_ahead(row, admin)
        elif not row.ahead_next and row.ahead_until != newest.position:
            row.ahead_next, row.ahead_next_ms = newest.position, now_ms
        else:
            return False
        row.save()
        return True

    def _look_at_ahead(self, row: LedgerCheck, admin: Admin) -> None:
        after = row.ahead_until or f"@{row.ahead_next_ms + SKEW_MS}"
        page = admin.browse(row.topic, after=after, limit=PAGE)
        positions = [entry.position for entry in page.entries]
        last = positions.index(row.ahead_next) + 1 if row.ahead_next in positions else len(positions)
        due = page.entries[:last]
        row.ahead += len(due)
        # What a reader of the ledger is told is when they were seen: no clock said the time that they bear.
        seen_ms = row.ahead_next_ms
        if row.ahead_next in positions or not page.next_position:
            row.ahead_until, row.ahead_next = row.ahead_next, ""
        else:
            row.ahead_until = page.next_position
        self._compare(row, due, seen_ms)

    def _compare(self, row: LedgerCheck, entries: Sequence[Stored], at_ms: int | None = None) -> None:
        """Book what is missing of ``entries``, with the row; ``at_ms`` stands for a time that cannot be theirs."""
        missing = self._missing(row, entries, at_ms)
        row.checked += len(entries)
        row.found += len(missing)
        told, booking = batches(missing), Booking()
        booking.add(told)
        with transaction.atomic(using=LEDGER):
            booking.write()
            row.save()
        self._count(told)

    def _missing(self, row: LedgerCheck, entries: Sequence[Stored], at_ms: int | None) -> list[Fact]:
        """What the ledger has no row of. What cannot be read, and what no ledger could name, is counted alone."""
        readable = [(message, entry) for entry in entries if (message := read_message(entry)) is not None]
        row.unreadable += len(entries) - len(readable)
        read = {_named(message): (message, entry) for message, entry in readable}
        ids = {message_id for message_id, _ in read}
        had = LedgerMessage.objects.filter(topic=row.topic, message_id__in=ids).values_list("message_id", "source")
        for name in had:
            read.pop(name, None)
        return [
            self._told(row.topic, message, entry, entry.at_ms if at_ms is None else at_ms)
            for message, entry in read.values()
        ]

    def _told(self, topic: str, message: Message, entry: Stored, at_ms: int) -> Fact:
        return Fact(
            "untold",
            at_ms,
            topic,
            message_id=message.id,
            key=message.partitionkey,
            correlation_id=message.correlationid or message.id,
            causation_id=message.causationid,
            trace_id=trace_id_of(message.traceparent),
            type=message.type,
            source=message.source,
            position=entry.position,
            size=len(entry.body),
            node=self._node,
        )


def _turn(parts: Parts, topic: str, piece: Callable[[], bool], transport: str) -> bool:
    return bool(parts.do(topic, piece, on=transport))


def read_message(entry: Stored) -> Message | None:
    """The message of an entry; ``None`` for one that cannot be read, or that no ledger could name."""
    try:
        message = decode(entry.body)
    except MalformedEnvelope:
        return None
    return message if 0 < len(message.id) <= LONGEST_ID else None


def _named(message: Message) -> tuple[str, str]:
    """Its id and source as the ledger has them: an id is unique with its source."""
    (source,) = texts(message.source, 1, LONGEST_SOURCE)
    return message.id, source


def booked_until(newest_fact: Callable[[], str], clock: Clock) -> int:
    """Whatever happened before, in epoch milliseconds, has its facts in the ledger, if it ever told them."""
    newest = newest_fact()
    cursor = Cursor.objects.filter(name=CURSOR).first()
    booked = _order(cursor.entry) if cursor is not None else (0, 0)
    now_ms = clock.now_ms()
    if booked >= _order(newest):
        return now_ms - GRACE_MS
    # Whoever writes an entry may choose its time, which then says nothing of when it came, nor do those that follow.
    return (booked[0] if booked[0] <= now_ms + SKEW_MS else 0) - GRACE_MS


def _order(entry: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry.partition("-")
    return int(milliseconds), int(sequence or 0)


def ledger_since() -> int | None:
    """From when on the ledger has all that it was told; ``None`` when it has let go of everything.

    Rows go in the order in which they were booked, which is about that of their times.
    """
    first, _ = id_ends()
    if first is None:
        return None if Cursor.objects.filter(name=CURSOR, facts__gt=0).exists() else 0
    if first == 1:
        return 0
    oldest: int = LedgerMessage.objects.aggregate(oldest=Min("published_ms"))["oldest"]
    return oldest + GRACE_MS
