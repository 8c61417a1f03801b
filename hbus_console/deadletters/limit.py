"""How many dead letters a subscription should hold at most. Beyond it people are called and nothing is removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count

from engine.bus.subjects import subscription_subject
from engine.core.subject import Subject
from hbus_console.access.scopes import scopes_q
from hbus_console.deadletters.models import DeadLetter


@dataclass(frozen=True)
class Full:
    """A subscription at its limit, or beyond."""

    topic: str
    group: str
    count: int

    @property
    def subject(self) -> Subject:
        return subscription_subject(self.topic, self.group)


def full_subscriptions(scopes: tuple[str, ...]) -> list[Full]:
    """Those in ``scopes`` whose waiting dead letters reach ``HBUS_DEAD_LETTER_LIMIT``, most first; none without one."""
    limit = settings.DEAD_LETTER_LIMIT
    if not limit:
        return []
    waiting = DeadLetter.objects.filter(scopes_q(scopes, "topic"), state=DeadLetter.State.DEAD)
    rows = waiting.values_list("topic", "subscription").annotate(count=Count("id")).filter(count__gte=limit)
    return [Full(topic, group, count) for topic, group, count in rows.order_by("-count", "topic", "subscription")]


def percent_full(counts: Mapping[tuple[str, str], int], topic: str, group: str) -> float:
    """How much of its limit a subscription holds, given the counts of all; 0 without a limit."""
    limit = settings.DEAD_LETTER_LIMIT
    return 100 * counts.get((topic, group), 0) / limit if limit else 0.0
