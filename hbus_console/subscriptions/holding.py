"""What holds the messages that wait for a subscription."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.core.subject import Subject
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.breaker import open_breakers


@dataclass(frozen=True)
class Hold:
    """Why messages of a subscription wait, as the end of "they wait …", and whether they wait in vain."""

    words: str
    gone: bool = False


def holding(places: Iterable[Subject]) -> dict[Subject, str]:
    """Of those that hold their messages: how, as the end of "they wait …". Three questions for any number."""
    asked = {(place.namespace, place.name): place for place in places}
    return {asked[pair]: hold.words for pair, hold in holds(asked).items()}


def holds(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Hold]:
    """The same of (topic, group)."""
    asked = list(pairs)
    rows = Subscription.objects.filter(topic__name__in={topic for topic, _ in asked}).select_related("topic")
    known = {(row.topic.name, row.group): row for row in rows if (row.topic.name, row.group) in asked}
    breakers = open_breakers(sorted(known)) if known else {}
    found = {}
    for pair in asked:
        row = known.get(pair)
        if row is None:
            found[pair] = Hold(f"for {pair[1]}, which is gone", gone=True)
        elif said := _said(row, None if breakers is None else pair in breakers):
            found[pair] = Hold(said)
    return found


def _said(row: Subscription, broken: bool | None) -> str:
    """``broken`` is ``None`` while nobody knows whether its breaker is open."""
    if row.paused:
        return f"because {row.group} is paused"
    if row.topic.paused:
        return f"because {row.topic.name} is paused"
    if broken:
        return f"behind the open breaker of {row.group}"
    if broken is None and row.breaker_failures:
        return f"while the store cannot be asked whether the breaker of {row.group} is open"
    if row.handler == Subscription.Handler.CODE and not row.handler_name:
        return f"because {row.group} has no handler"
    return ""
