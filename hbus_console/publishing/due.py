"""What is due and not published, as the delay path says it now: refused, or behind a store that does not take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.bus.delay_refusals import TopicRefusals
from engine.bus.errors import UNANSWERED
from hbus_console.access.permissions import GLOBAL, covers
from hbus_console.cluster import probes
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus


@dataclass(frozen=True)
class NotPublished:
    """By topic: what is refused, and when the oldest was due, epoch milliseconds, that waits for its store."""

    refused: Mapping[str, TopicRefusals]
    behind: Mapping[str, int]

    def within(self, scopes: tuple[str, ...]) -> NotPublished:
        """What may be seen with ``scopes``: of topics that are gone, as everywhere, by ``*`` alone."""
        names = {*self.refused, *self.behind}
        if names and GLOBAL not in scopes:
            there = Topic.objects.filter(name__in=names).values_list("name", flat=True)
            names = {name for name in there if any(covers(scope, name) for scope in scopes)}
        return NotPublished(
            {name: each for name, each in self.refused.items() if name in names},
            {name: due_ms for name, due_ms in self.behind.items() if name in names},
        )


def not_published() -> NotPublished | None:
    """``None`` while the store cannot be asked, which other places say."""
    if probes.obstacle():
        return None
    try:
        delays = bus.delays()
        return NotPublished(delays.refusals.by_topic(), delays.behind())
    except UNANSWERED:
        return None
