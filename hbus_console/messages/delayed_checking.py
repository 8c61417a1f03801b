"""Finds messages that wait for their due time, as the ledger says, and that the store lacks: lost, or cancelled.

Nothing else would ever tell of them: what was not published is in no topic, and no subscription is past it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F

from engine.bus.delays import RedisDelays, Whereabouts
from engine.bus.facts import Fact, batches
from engine.core.clock import Clock, SystemClock
from engine.core.facts import FactBatch
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.checking import PAGE, TICK_S, booked_until
from hbus_console.messages.models import WAITS, LedgerCheck, LedgerEvent, LedgerMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic

#: So many that the store does not have are remembered until all that was told of them is booked.
MOST_MISSED = 10_000

_log = structlog.get_logger(__name__)


class DelayedEvidenceCheck:
    """A duty: asks the delay path for each message that waits, over and over. What is missing is booked as ``lost``, or
    ``cancelled`` where the delay path knows of that and nobody has told it, for each subscription of its topic, and
    given to ``count`` after that.

    ``newest_fact`` gives the id of the newest entry of the fact stream; raises ``Unavailable``.
    """

    name = "delayed-evidence-check"
    interval_s = 30.0

    def __init__(
        self,
        delays: Callable[[], RedisDelays],
        newest_fact: Callable[[], str],
        count: Callable[[Sequence[FactBatch]], None],
        *,
        node: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._delays = delays
        self._newest_fact = newest_fact
        self._count = count
        self._node = node
        self._clock = clock or SystemClock()
        self._after_id = 0
        #: Rows that the store does not have, and since when that is known: they may have been published.
        self._missed: dict[int, int] = {}

    def tick(self) -> None:
        """Ask for the next ones, from the first again after the last. Raises ``Unavailable``."""
        if not settings.HBUS_LEDGER:
            return
        started, until_ms = self._clock.monotonic(), booked_until(self._newest_fact, self._clock)
        self._judge(until_ms)
        while self._clock.monotonic() - started < TICK_S:
            page = list(LedgerMessage.objects.filter(WAITS, pk__gt=self._after_id).order_by("pk")[:PAGE])
            self._after_id = page[-1].pk if len(page) == PAGE else 0
            known = _known(page)
            asked = [each for each in page if _name(each) not in known and each.pk not in self._missed]
            stands = self._delays().standings([_name(each) for each in asked])
            now_ms = self._clock.now_ms()
            missing = [each.pk for each, how in zip(asked, stands, strict=True) if how is not Whereabouts.KEPT]
            self._missed |= dict.fromkeys(missing[: MOST_MISSED - len(self._missed)], now_ms)
            if not self._after_id:
                return

    def _judge(self, until_ms: int) -> None:
        """Those that nobody has told to be published, though all that was told meanwhile is booked."""
        due = [pk for pk, since_ms in self._missed.items() if since_ms < until_ms][:PAGE]
        missed = list(LedgerMessage.objects.filter(WAITS, pk__in=due))
        known, topics = _known(missed), set(Topic.objects.values_list("name", flat=True))
        missed = [each for each in missed if _name(each) not in known]
        # Once more: it may have been accepted anew since.
        stands = self._delays().standings([_name(each) for each in missed])
        # Of a topic that is gone, only what went with it is known to have been there until then.
        gone = [each for each, how in zip(missed, stands, strict=True) if how is Whereabouts.GONE]
        lost = [each for each in gone if each.topic in topics]
        cancelled = [each for each, how in zip(missed, stands, strict=True) if how is Whereabouts.CANCELLED]
        groups: dict[str, list[str]] = {}
        for topic, group in Subscription.objects.values_list("topic__name", "group"):
            groups.setdefault(topic, []).append(group)
        told = batches(
            self._told(kind, each, group)
            for kind, messages in (("lost", lost), ("cancelled", cancelled))
            for each in messages
            for group in groups.get(each.topic, [""])
        )
        booking = Booking()
        booking.add(told)
        with transaction.atomic(using=LEDGER):
            booking.write()
            for topic, number in Counter(each.topic for each in lost).items():
                LedgerCheck.objects.filter(topic=topic).update(lost=F("lost") + number)
        for pk in due:
            del self._missed[pk]
        if lost:
            _log.error("messages that waited for their time are gone from the store", count=len(lost))
        if told:
            self._count(told)
        # Booked: nobody misses them any more.
        self._delays().forget_cancelled([_name(each) for each in cancelled])

    def _told(self, kind: str, message: LedgerMessage, group: str) -> Fact:
        return Fact(
            kind,
            self._clock.now_ms(),
            message.topic,
            subscription=group,
            message_id=message.message_id,
            key=message.key,
            correlation_id=message.correlation_id,
            causation_id=message.causation_id,
            type=message.type,
            source=message.source,
            node=self._node,
            detail="" if kind == "cancelled" else "It waited for its due time.",
        )


def _name(message: LedgerMessage) -> tuple[str, str, str]:
    """Publishers choose ids: those of another topic or source are others'."""
    return message.topic, message.source, message.message_id


def _known(page: Sequence[LedgerMessage]) -> set[tuple[str, str, str]]:
    """Those that are told to be lost or cancelled, and not to be accepted anew since."""
    ids = [each.message_id for each in page]
    told = LedgerEvent.objects.filter(message_id__in=ids, kind__in=("lost", "cancelled", "delayed"))
    last: dict[tuple[str, str | None, str], str] = {}
    for topic, source, message_id, kind in told.order_by("at_ms", "pk").values_list(
        "topic", "source", "message_id", "kind"
    ):
        last[topic, source, message_id] = kind
    return {
        _name(each)
        for each in page
        # Without a source as long as a release before has told of it.
        if (last.get(_name(each)) or last.get((each.topic, None, each.message_id), "delayed")) != "delayed"
    }
