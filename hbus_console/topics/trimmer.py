"""Applies each topic's retention to its stream, and says when a subscription holds it back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.bus.facts import Fact
from engine.bus.transport import Admin, TrimReport
from engine.core.clock import Clock, SystemClock
from engine.core.facts import Emitter
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

    def tick(self) -> None:
        """Trim every topic on all its transports. Raises at the end what went wrong, as :meth:`Parts.tell` does."""
        parts = Parts("Retention could not be applied to {parts}")
        for topic in Topic.objects.order_by("name"):
            for transport in topic.carriers:
                parts.do(topic.name, partial(self._apply, topic, transport), on=transport)
        parts.tell()

    def _apply(self, topic: Topic, transport: str) -> None:
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

    def _say_held(self, topic: str, transport: str, report: TrimReport, now_ms: int) -> None:
        if not report.held:
            self._said.pop((topic, transport), None)
            return
        said = self._said.get((topic, transport))
        if said is not None and said[0] == report.held and now_ms - said[1] < REMIND_MS:
            return
        self._said[topic, transport] = (report.held, now_ms)
        what = ("message is past retention and stays", "messages are past retention and stay")
        verb, them = "has" if len(report.held) == 1 else "have", "it" if report.held_back == 1 else "them"
        detail = f"{counted(report.held_back, *what)}, because {' and '.join(report.held)} {verb} not settled {them}."
        self._emit("retention_held", now_ms, topic, size=report.held_back, detail=detail, held=report.held)

    def _emit(self, kind: str, now_ms: int, topic: str, *, size: int, detail: str, held: tuple[str, ...] = ()) -> None:
        # One fact names one subscription; with several the sentence does.
        subscription = held[0] if len(held) == 1 else ""
        fact = Fact(kind, now_ms, topic=topic, subscription=subscription, size=size, node=self._node, detail=detail)
        self._facts.emit([fact.batch()])
