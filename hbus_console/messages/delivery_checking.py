"""Finds what a subscription is past, as the store says, and of which the ledger has no outcome.

Facts of a delivery leave its process after the store has settled it: who is killed in between has told nobody. The
store keeps no outcome of each message; but where a group's oldest unsettled message is newer, it is done with one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from engine.bus.fact_kinds import FINAL
from engine.bus.facts import Fact, batches
from engine.bus.transport import Admin, Transport
from engine.core.clock import Clock, SystemClock
from engine.core.facts import FactBatch
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.became import meant_for_one
from hbus_console.messages.checking import PAGE, SKEW_MS, TICK_S, booked_until, ledger_since, read_message
from hbus_console.messages.models import DeliveryCheck, LagSample, LedgerCheck, LedgerEvent, LedgerMessage
from hbus_console.subscriptions.models import Subscription

_log = structlog.get_logger(__name__)


class DeliveryEvidenceCheck:
    """A duty: looks at each delivery once, after its subscription is past it, on transports that can be browsed.

    ``newest_fact`` gives the id of the newest entry of the fact stream; raises ``Unavailable``. What is missing is
    booked as ``passed``, in the transaction that moves the row of its subscription, and given to ``count`` after that.
    """

    name = "delivery-evidence-check"
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

    def tick(self) -> None:
        """Go on with every subscription, the one furthest behind first. Raises ``Unavailable``."""
        if not settings.HBUS_LEDGER:
            return
        until_ms, since_ms = booked_until(self._newest_fact, self._clock), ledger_since()
        if since_ms is None:
            return
        known = {(row.topic, row.subscription): row for row in DeliveryCheck.objects.all()}
        subscriptions = [each for each in _subscriptions() if self._transport(each.topic.transport).capabilities.browse]
        self._forget(known, subscriptions)
        # Publishes of which nobody told are in the ledger up to there.
        compared: Mapping[str, int] = dict(LedgerCheck.objects.values_list("topic", "until_ms"))
        started, work = self._clock.monotonic(), []
        for each in subscriptions:
            place = (each.topic.name, each.group)
            begin_ms = max(since_ms, round(each.created_at.timestamp() * 1000))
            row = known.get(place) or DeliveryCheck(topic=place[0], subscription=place[1], until_ms=begin_ms)
            if row.until_ms < since_ms:
                row.until_ms, row.after_id = since_ms, 0
            bound_ms = min(_past(*place, until_ms), compared.get(place[0], 0))
            if row.until_ms < bound_ms:
                work.append((row, bound_ms, self._transport(each.topic.transport).admin))
        for row, bound_ms, admin in sorted(work, key=lambda each: each[0].until_ms):
            while row.until_ms < bound_ms and self._clock.monotonic() - started < TICK_S:
                if not self._look(row, bound_ms, admin):
                    break

    def _forget(self, known: dict[tuple[str, str], DeliveryCheck], subscriptions: Sequence[Subscription]) -> None:
        gone = known.keys() - {(each.topic.name, each.group) for each in subscriptions}
        DeliveryCheck.objects.filter(pk__in=[known[place].pk for place in gone]).delete()

    def _look(self, row: DeliveryCheck, bound_ms: int, admin: Admin) -> bool:
        """At one page of the topic's messages; ``False`` where one of them holds up what follows."""
        behind = Q(published_ms__gt=row.until_ms) | Q(published_ms=row.until_ms, pk__gt=row.after_id)
        rows = LedgerMessage.objects.filter(topic=row.topic, published_ms__gte=row.until_ms, published_ms__lt=bound_ms)
        page = list(rows.filter(behind).order_by("published_ms", "pk")[:PAGE])
        due = _meant_for(row, page)
        silent = self._silent(row, due)
        missing: dict[str, Fact] = {}
        others: set[int] = set()
        whole = len(page)
        for message in silent:
            verdict = _verdict(row, message, bound_ms, admin)
            if verdict is _Verdict.NOT_YET:
                whole = page.index(message)
                break
            if verdict is _Verdict.FOR_ANOTHER:
                others.add(message.pk)
            else:
                # A row each for sources that share an id; what is booked is told of the message.
                missing[message.message_id] = self._told(row, message)
        done = {message.pk for message in page[:whole]}
        row.checked += sum(1 for message in due if message.pk in done and message.pk not in others)
        row.found += len(missing)
        if whole == len(page) < PAGE:
            row.until_ms, row.after_id = bound_ms, 0
        elif whole:
            row.until_ms, row.after_id = page[whole - 1].published_ms, page[whole - 1].pk
        told, booking = batches(list(missing.values())), Booking()
        booking.add(told)
        with transaction.atomic(using=LEDGER):
            booking.write()
            row.save()
        if missing:
            _log.info("deliveries of which nobody had told", subscription=str(row.subject), count=len(missing))
            self._count(told)
        return whole == len(page)

    def _silent(self, row: DeliveryCheck, due: Sequence[LedgerMessage]) -> list[LedgerMessage]:
        """What has no outcome there."""
        ids = [message.message_id for message in due]
        told = LedgerEvent.objects.filter(
            message_id__in=ids, topic=row.topic, subscription=row.subscription, kind__in=FINAL
        )
        died = DeadLetter.objects.filter(message_id__in=ids, topic=row.topic, subscription=row.subscription)
        had = {*told.values_list("message_id", flat=True), *died.values_list("message_id", flat=True)}
        return [message for message in due if message.message_id not in had]

    def _told(self, row: DeliveryCheck, message: LedgerMessage) -> Fact:
        return Fact(
            "passed",
            self._clock.now_ms(),
            row.topic,
            subscription=row.subscription,
            message_id=message.message_id,
            key=message.key,
            correlation_id=message.correlation_id,
            causation_id=message.causation_id,
            type=message.type,
            source=message.source,
            node=self._node,
        )


def _subscriptions() -> list[Subscription]:
    """Not those of a topic that is on the way from one transport to another: two stores speak of it."""
    return list(Subscription.objects.select_related("topic").filter(topic__leaving=""))


def _meant_for(row: DeliveryCheck, page: Sequence[LedgerMessage]) -> list[LedgerMessage]:
    """Without copies for other subscriptions, and without what still waits for its time."""
    copies = [message for message in page if message.causation_id]
    alone = meant_for_one(copies) if copies else {}
    return [
        message
        for message in page
        if not message.waits and alone.get(message.identity, row.subscription) == row.subscription
    ]


class _Verdict(Enum):
    """Of a message without an outcome."""

    PASSED = auto()
    #: The subscription is not past it after all: whoever told of its publish has a clock that is behind.
    NOT_YET = auto()
    #: It names another subscription.
    FOR_ANOTHER = auto()


def _verdict(row: DeliveryCheck, message: LedgerMessage, bound_ms: int, admin: Admin) -> _Verdict:
    """What the store itself has of it decides; these are few. Raises ``Unavailable``."""
    stored = admin.read(row.topic, message.position) if message.position else None
    if stored is None:
        # It was trimmed, or the store was emptied: only the publisher's clock tells when it was.
        return _Verdict.PASSED if message.published_ms < bound_ms - SKEW_MS else _Verdict.NOT_YET
    if stored.at_ms >= bound_ms:
        return _Verdict.NOT_YET
    target = found.hbustarget if (found := read_message(stored)) is not None else ""
    return _Verdict.FOR_ANOTHER if target and target != row.subscription else _Verdict.PASSED


def _past(topic: str, group: str, until_ms: int) -> int:
    """The subscription had settled what was published before, at a time whose facts are all booked; 0: nobody knows."""
    rows = LagSample.objects.filter(topic=topic, subscription=group, at_ms__lte=until_ms)
    sample = rows.exclude(waiting=None).order_by("-at_ms").first()
    if sample is None:
        return 0
    if sample.oldest_ms is None and (sample.waiting or sample.in_flight or sample.retrying or sample.parked):
        return 0
    # The store's clock says how old the oldest is, and the keeper's when it was asked.
    asked_ms = int(sample.at_ms) - SKEW_MS
    return asked_ms if sample.oldest_ms is None else min(int(sample.oldest_ms), asked_ms)
