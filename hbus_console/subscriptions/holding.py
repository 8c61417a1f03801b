"""What holds the messages that wait for a subscription."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.subject import Subject
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.breaker import open_breakers


def holding(places: Iterable[Subject]) -> dict[Subject, str]:
    """Of those that hold their messages: how, as the end of "they wait …". Three questions for any number."""
    asked = {(place.namespace, place.name): place for place in places}
    topics = {topic for topic, _ in asked}
    rows = Subscription.objects.filter(topic__name__in=topics).select_related("topic")
    known = {(row.topic.name, row.group): row for row in rows if (row.topic.name, row.group) in asked}
    breakers = open_breakers(sorted(known)) if known else {}
    found = {}
    for pair, place in asked.items():
        row = known.get(pair)
        if said := _said(row, pair in breakers) if row else f"for {pair[1]}, which is gone":
            found[place] = said
    return found


def _said(row: Subscription, broken: bool) -> str:
    if row.paused:
        return f"because {row.group} is paused"
    if row.topic.paused:
        return f"because {row.topic.name} is paused"
    if broken:
        return f"behind the open breaker of {row.group}"
    if row.handler == Subscription.Handler.CODE and not row.handler_name:
        return f"because {row.group} has no handler"
    return ""
