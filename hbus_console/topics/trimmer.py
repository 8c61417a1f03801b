"""Applies each topic's retention to its stream, and says when a subscription holds it back, and when none does
any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.db.models import Max

from engine.bus.facts import Fact
from engine.bus.transport import Admin, TrimReport
from engine.core.clock import Clock, SystemClock
from engine.core.facts import Emitter
from hbus_console.evidence.models import Notice
from hbus_console.parts import Parts
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import counted

HOUR_MS = 3_600_000
#: While the same subscriptions hold the same topic back, it is said again after so long.
REMIND_MS = 24 * HOUR_MS


class StreamRetention:
    """A duty. One topic that cannot be trimmed does not keep the others from it; its error is raised at the end."""

    name = "stream-retention"
    interval_s = 30.0

    def __init__(
        self, admin: Callable[[str], Admin], facts: Emitter, *, node: str = "", clock: Clock | None = None
    ) -> None:
        self._admin = admin
        self._facts = facts
        self._node = node
        self._clock = clock or SystemClock()
        #: Who held which topic back on which transport, and when it was said.
        self._said: dict[tuple[str, str], tuple[tuple[str, ...], int]] = {}
        #: Topics of which it was said, and not yet that it is over; and of which of them a process before said it.
        self._open: set[str] = set()
        self._before: set[str] | None = None

    def tick(self) -> None:
        """Trim every topic on all its transports. Raises at the end what went wrong, as :meth:`Parts.tell` does."""
        parts = Parts("Retention could not be applied to {parts}")
        if self._before is None:
            self._before = _told_before()
            self._open |= self._before
        topics = list(Topic.objects.order_by("name"))
        for topic in topics:
            reports = [
                parts.do(topic.name, partial(self._apply, topic, transport), on=transport)
                for transport in topic.carriers
            ]
            # Of a store that did not answer nobody knows.
            if topic.name in self._open and not any(report is None or report.held for report in reports):
                self._say_free(topic.name, "All that is past retention is settled.")
        for gone in self._open - {topic.name for topic in topics}:
            self._say_free(gone, "The topic is gone.")
        parts.tell()

    def _apply(self, topic: Topic, transport: str) -> TrimReport:
        now_ms = self._clock.now_ms()
        report = self._admin(transport).trim(
            topic.name,
            older_than_ms=topic.retention_hours * HOUR_MS,
            keep_at_most=topic.retention_messages or None,
        )
        if report.removed:
            detail = f"Retention removed {counted(report.removed, 'message')}."
            self._emit("trimmed", now_ms, topic.name, size=report.removed, detail=detail)
        self._say_held(topic.name, transport, report, now_ms)
        return report

    def _say_held(self, topic: str, transport: str, report: TrimReport, now_ms: int) -> None:
        if not report.held:
            self._said.pop((topic, transport), None)
            return
        said = self._said.get((topic, transport))
        if said is not None and said[0] == report.held and now_ms - said[1] < REMIND_MS:
            return
        if topic in (self._before or ()):
            # Of whom that process said it, its fact need not name.
            self._say_free(topic, "Who holds it back is told anew.")
        elif said is not None and (gone := [group for group in said[0] if group not in report.held]):
            self._say_free(topic, f"It no longer waits for {' and '.join(gone)}.")
        self._open.add(topic)
        self._said[topic, transport] = (report.held, now_ms)
        what = ("message is past retention and stays", "messages are past retention and stay")
        verb, them = "has" if len(report.held) == 1 else "have", "it" if report.held_back == 1 else "them"
        detail = f"{counted(report.held_back, *what)}, because {' and '.join(report.held)} {verb} not settled {them}."
        self._emit("retention_held", now_ms, topic, size=report.held_back, detail=detail, held=report.held)

    def _say_free(self, topic: str, detail: str) -> None:
        """All that was said of ``topic`` is over; what still holds it back is said again."""
        self._said = {key: said for key, said in self._said.items() if key[0] != topic}
        self._open.discard(topic)
        if self._before is not None:
            self._before.discard(topic)
        self._emit("retention_free", self._clock.now_ms(), topic, size=0, detail=detail)

    def _emit(self, kind: str, now_ms: int, topic: str, *, size: int, detail: str, held: tuple[str, ...] = ()) -> None:
        # One fact names one subscription; with several the sentence does.
        subscription = held[0] if len(held) == 1 else ""
        fact = Fact(kind, now_ms, topic=topic, subscription=subscription, size=size, node=self._node, detail=detail)
        self._facts.emit([fact.batch()])


def _told_before() -> set[str]:
    """Of which topics the ledger has that retention waits, and not that it no longer does."""
    rows = Notice.objects.filter(kind__in=("retention_held", "retention_free")).values_list("topic")
    newest = rows.annotate(newest=Max("pk")).values("newest")
    return set(Notice.objects.filter(pk__in=newest, kind="retention_held").values_list("topic", flat=True))
