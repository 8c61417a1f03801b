"""Finds what a subscription is past, as the store says, and of which the ledger has no outcome.

Facts of a delivery leave its process after the store has settled it: who is killed in between has told nobody. The
store keeps no outcome of each message; but where a group's oldest unsettled message is newer, it is done with one. Of
what is newer than that oldest one the store is asked about each that has no outcome: what is not settled, or perhaps
not told of yet, is set aside, so that a parked key hides nothing that came after it
(:mod:`~hbus_console.messages.setting_aside`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from engine.bus.facts import Fact, batches
from engine.bus.optional import TellsStanding
from engine.bus.subjects import subscription_subject
from engine.bus.transport import Transport
from engine.core.clock import Clock, SystemClock
from engine.core.errors import ConfigurationError, Unavailable
from engine.core.facts import FactBatch
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.checking import PAGE, SKEW_MS, TICK_S, booked_until, ledger_since
from hbus_console.messages.judging import DeliveryJudge, Judgement
from hbus_console.messages.models import DeliveryAside, DeliveryCheck, LagSample, LedgerCheck, LedgerMessage
from hbus_console.messages.reach import id_ends
from hbus_console.messages.setting_aside import (
    ASK_AGAIN_MS,
    Late,
    Looked,
    again,
    died_ms,
    late_rows,
    meant_for,
    room,
    set_aside,
    silent,
    take_late,
    untold_deaths,
)
from hbus_console.parts import Parts
from hbus_console.subscriptions.models import Subscription
from hbus_console.turns import Turns

#: Of a subscription: topic and group.
_Name = tuple[str, str]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Round:
    """What holds for all subscriptions."""

    now_ms: int
    #: Whatever happened before has its facts booked.
    until_ms: int
    #: The newest row, asked for before anything is looked at: what is booked after it may come late.
    last_id: int
    late: Late
    #: The ledger has what was published since.
    since_ms: int
    #: Topic -> up to when publishes of which nobody told are in the ledger.
    compared: Mapping[str, int]
    #: The rows of subscriptions of which something is set aside.
    with_aside: frozenset[int]
    started: float


@dataclass(frozen=True)
class _Work:
    """One subscription."""

    row: DeliveryCheck
    judge: DeliveryJudge
    #: It is past what was published before.
    sure_ms: int
    #: What was published before can be asked of the store, one by one.
    reach_ms: int


class DeliveryEvidenceCheck:
    """A duty: looks at each delivery once its subscription is past it, on transports that can be browsed.

    ``newest_fact`` gives the id of the newest entry of the fact stream; raises ``Unavailable``. What is missing is
    booked in the transaction that moves the row of its subscription, and given to ``count`` after that: as ``dead``
    where its dead letter shows how it ended, as ``lost`` where the store no longer has it, else as ``passed``.
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
        self._turns: Turns[_Name] = Turns()
        #: Which could not go on for want of room, and when.
        self._held: dict[_Name, int] = {}

    def tick(self) -> None:
        """Go on with every subscription, a page each in turns, while there is time. Raises ``Unavailable``."""
        if not settings.HBUS_LEDGER:
            return
        until_ms, since_ms = booked_until(self._newest_fact, self._clock), ledger_since()
        if since_ms is None:
            return
        last_id, now_ms = id_ends()[1] or 0, self._clock.now_ms()
        known = {(row.topic, row.subscription): row for row in DeliveryCheck.objects.all()}
        subscriptions = _subscriptions()
        _forget(known, [each for each in subscriptions if self._may_be_read(each)])
        late = late_rows(list(known.values()), last_id, now_ms)
        with_aside = frozenset(DeliveryAside.objects.values_list("check_of", flat=True).distinct())
        compared = dict(LedgerCheck.objects.values_list("topic", "until_ms"))
        at = _Round(now_ms, until_ms, last_id, late, since_ms, compared, with_aside, self._clock.monotonic())
        parts = Parts("{parts} could not be checked")
        turns: dict[_Name, Callable[[], bool]] = {}
        for each in sorted(subscriptions, key=lambda each: known[_name(each)].until_ms if _name(each) in known else 0):
            piece = partial(next, self._pieces(each, known.get(_name(each)), at), False)
            turns[_name(each)] = partial(_turn, parts, each, piece)
        self._held = {name: held_ms for name, held_ms in self._held.items() if name in turns}
        self._turns.take(turns, lambda: self._clock.monotonic() - at.started < TICK_S)
        parts.tell()

    def _may_be_read(self, subscription: Subscription) -> bool:
        try:
            return self._transport(subscription.topic.transport).capabilities.browse
        except (ConfigurationError, Unavailable):
            # Said in its turn, and no reason to forget how far it was.
            return True

    def _work(self, subscription: Subscription, row: DeliveryCheck | None, at: _Round) -> _Work:
        topic, group = subscription.topic.name, subscription.group
        created_ms = round(subscription.created_at.timestamp() * 1000)
        if row is None:
            begin_ms = max(at.since_ms, created_ms)
            row = DeliveryCheck(topic=topic, subscription=group, until_ms=begin_ms, booked_id=at.last_id)
        # Nobody has asked yet what was there.
        row.booked_id = row.booked_id or at.last_id
        if row.until_ms < at.since_ms:
            # The ledger has let go of what it had of that time.
            row.skipped_ms += at.since_ms - row.until_ms
            row.until_ms, row.after_id = at.since_ms, 0
        sure_ms, asked_ms = _past(topic, group, at.until_ms)
        admin = self._transport(subscription.topic.transport).admin
        judge = DeliveryJudge(row, admin, created_ms=created_ms, sure_ms=sure_ms, until_ms=at.until_ms)
        compared_ms = at.compared.get(topic, 0)
        reach_ms = min(asked_ms, compared_ms) if isinstance(admin, TellsStanding) else 0
        return _Work(row, judge, min(sure_ms, compared_ms), reach_ms)

    def _pieces(self, subscription: Subscription, known: DeliveryCheck | None, at: _Round) -> Iterator[bool]:
        """Goes on with one subscription by a page at most, each time."""
        if not self._transport(subscription.topic.transport).capabilities.browse:
            return
        work = self._work(subscription, known, at)
        row, name = work.row, _name(subscription)
        if row.pk in at.with_aside:
            self._book(row, again(row, work.judge, at.now_ms, at.until_ms))
            yield True
        missed = take_late(row, at.late, at.last_id, at.now_ms)
        if missed is not None:
            self._book(row, missed)
            yield True
        if at.now_ms - self._held.get(name, 0) < ASK_AGAIN_MS and not room(row):
            # It would ask the same of the store again, and learn the same.
            return
        for bound_ms in (work.sure_ms, work.reach_ms):
            while row.until_ms < bound_ms:
                if not self._look(work, bound_ms, at):
                    self._held[name] = at.now_ms
                    return
                yield True

    def _look(self, work: _Work, bound_ms: int, at: _Round) -> bool:
        """At one page of the topic's messages; ``False`` where one of them holds up what follows."""
        row, look = work.row, Looked()
        behind = Q(published_ms__gt=row.until_ms) | Q(published_ms=row.until_ms, pk__gt=row.after_id)
        rows = LedgerMessage.objects.filter(topic=row.topic, published_ms__gte=row.until_ms, published_ms__lt=bound_ms)
        page = list(rows.filter(behind).order_by("published_ms", "pk")[:PAGE])
        due = meant_for(row, page)
        open_ones, untold = silent(row, due), untold_deaths(row, due)
        left, whole = room(row) if open_ones or untold else 0, len(page)
        for message, standing in zip(open_ones, work.judge.standings(open_ones), strict=True):
            verdict = work.judge.verdict(message, standing)
            if verdict is not Judgement.NOT_YET:
                look.judged(message, verdict)
            elif len(look.aside) < left:
                look.aside.append(set_aside(message, standing, at.now_ms))
            else:
                whole = page.index(message)
                break
        for message, letter in untold:
            if died_ms(letter) < at.until_ms:
                look.died.append((message, letter))
            elif len(look.aside) < left:
                # It may be told yet.
                look.aside.append(set_aside(message, None, at.now_ms))
            else:
                whole = min(whole, page.index(message))
        done = {message.pk for message in page[:whole]}
        look.checked += len({message.pk for message in due} & done - {message.pk for message in open_ones})
        if whole == len(page) < PAGE:
            row.until_ms, row.after_id = bound_ms, 0
        elif whole:
            row.until_ms, row.after_id = page[whole - 1].published_ms, page[whole - 1].pk
        self._book(row, look)
        return whole == len(page)

    def _book(self, row: DeliveryCheck, look: Looked) -> None:
        missing = {each.identity: self._told("passed", row, each) for each in look.passed}
        missing |= {each.identity: self._told("lost", row, each) for each in look.lost}
        missing |= {each.identity: self._death(row, each, letter) for each, letter in look.died}
        told, booking = batches(list(missing.values())), Booking()
        booking.add(told)
        with transaction.atomic(using=LEDGER):
            booking.write()
            look.write(row)
        if missing:
            of = str(row.subject)
            counts = {"lost": len(look.lost), "died": len(look.died)}
            _log.info("deliveries of which nobody had told", subscription=of, count=len(missing), **counts)
            self._count(told)

    def _death(self, row: DeliveryCheck, message: LedgerMessage, letter: DeadLetter) -> Fact:
        """As the consumer would have told it."""
        last = letter.history[-1] if letter.history else {}
        return msgspec.structs.replace(
            self._told("dead", row, message),
            at_ms=died_ms(letter),
            attempt=letter.attempts,
            duration_us=last.get("duration_us", 0),
            node=last.get("consumer", ""),
            error=letter.error,
            fingerprint=letter.fingerprint,
            detail="told by its dead letter alone",
        )

    def _told(self, kind: str, row: DeliveryCheck, message: LedgerMessage) -> Fact:
        return Fact(
            kind,
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


def _turn(parts: Parts, subscription: Subscription, piece: Callable[[], bool]) -> bool:
    subject = subscription_subject(subscription.topic.name, subscription.group)
    return bool(parts.do(str(subject), piece, on=subscription.topic.transport))


def _name(subscription: Subscription) -> _Name:
    return subscription.topic.name, subscription.group


def _forget(known: dict[tuple[str, str], DeliveryCheck], subscriptions: Sequence[Subscription]) -> None:
    gone = known.keys() - {_name(each) for each in subscriptions}
    DeliveryCheck.objects.filter(pk__in=[known[place].pk for place in gone]).delete()


def _subscriptions() -> list[Subscription]:
    """Not those of a topic that is on the way from one transport to another: two stores speak of it."""
    return list(Subscription.objects.select_related("topic").filter(topic__leaving=""))


def _past(topic: str, group: str, until_ms: int) -> tuple[int, int]:
    """Two moments before which the facts are all booked: what was published before the first, the subscription had
    settled; and at the second it was seen where it stands. 0: nobody knows."""
    rows = LagSample.objects.filter(topic=topic, subscription=group, at_ms__lte=until_ms)
    sample = rows.exclude(waiting=None).order_by("-at_ms").first()
    if sample is None:
        return 0, 0
    # The store's clock says how old the oldest is, and the keeper's when it was asked.
    asked_ms = int(sample.at_ms) - SKEW_MS
    if sample.oldest_ms is None and (sample.waiting or sample.in_flight or sample.retrying or sample.parked):
        return 0, asked_ms
    return (asked_ms if sample.oldest_ms is None else min(int(sample.oldest_ms), asked_ms)), asked_ms
