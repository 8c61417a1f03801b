"""What the search box finds: topics and subscriptions by name, messages by id, key or correlation id."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.messages.models import LedgerMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.topics.scopes import topic_filter

#: How many of each kind are shown; the page says when there are more.
MOST = 8
#: Fewer characters than this match names only: a message is looked up by an exact or nearly whole value.
_LEAST_FOR_MESSAGES = 3


@dataclass(frozen=True)
class Hit:
    """One line of the answer."""

    text: str
    note: str
    href: str


@dataclass(frozen=True)
class Group:
    """Hits of one kind. ``more``: there are further ones that are not shown."""

    title: str
    hits: list[Hit]
    more: bool


def find(who: Actor, text: str) -> list[Group]:
    """Everything ``who`` may see that ``text`` leads to; groups without a hit are left out. Five indexed queries."""
    text = text.strip()
    if not text:
        return []
    scopes = visible_scopes(who)
    groups = [_topics(text, scopes), _subscriptions(text, scopes)]
    if len(text) >= _LEAST_FOR_MESSAGES:
        groups += [
            _messages("Messages by id", Q(message_id__gte=text, message_id__lt=text + "\U0010ffff"), scopes),
            _messages("Messages by key", Q(key=text), scopes),
            _messages("Messages by correlation id", Q(correlation_id=text), scopes),
        ]
    return [group for group in groups if group.hits]


def _topics(text: str, scopes: tuple[str, ...]) -> Group:
    rows = Topic.objects.filter(scopes_q(scopes, "name"), name__icontains=text).select_related("team")[: MOST + 1]
    hits = [
        Hit(row.name, row.team.name if row.team else "no owner", reverse("topics:detail", args=[row.name]))
        for row in rows
    ]
    return Group("Topics", hits[:MOST], len(hits) > MOST)


def _subscriptions(text: str, scopes: tuple[str, ...]) -> Group:
    rows = Subscription.objects.filter(scopes_q(scopes, "topic__name"), group__icontains=text).select_related("topic")
    hits = [
        Hit(row.group, f"on {row.topic.name}", reverse("subscriptions:detail", args=[row.topic.name, row.group]))
        for row in rows[: MOST + 1]
    ]
    return Group("Subscriptions", hits[:MOST], len(hits) > MOST)


def _messages(title: str, wanted: Q, scopes: tuple[str, ...]) -> Group:
    rows = LedgerMessage.objects.filter(topic_filter(scopes), wanted).order_by("-published_ms")[: MOST + 1]
    hits = [Hit(row.message_id, row.topic, reverse("messages:message", args=[row.message_id])) for row in rows]
    return Group(title, hits[:MOST], len(hits) > MOST)
