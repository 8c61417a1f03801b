"""Messages by the beginning of their id, by their key or by their correlation id."""

from __future__ import annotations

from django.db.models import Q

from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.messages.addresses import page_of
from hbus_console.messages.by_event import off_index
from hbus_console.messages.models import LedgerMessage
from hbus_console.topics.scopes import topic_filter
from hbus_console.ui.finding import MOST, Hit, HitGroup, group

#: Fewer characters than this match names only: a message is looked up by an exact or nearly whole value.
_LEAST = 3


def find(who: Actor, text: str) -> list[HitGroup]:
    """What ``who`` may see, the newest first: three queries, each on an index."""
    if len(text) < _LEAST:
        return []
    scopes = visible_scopes(who)
    seen, by_id = topic_filter(scopes), topic_filter(scopes, "its_topic")
    return [
        _group("Messages by id", by_id & Q(message_id__gte=text, message_id__lt=text + "\U0010ffff")),
        _group("Messages by key", seen & Q(key=text)),
        _group("Messages by correlation id", seen & Q(correlation_id=text)),
    ]


def _group(title: str, wanted: Q) -> HitGroup:
    rows = LedgerMessage.objects.alias(its_topic=off_index("topic")).filter(wanted).order_by("-published_ms")
    hits = (Hit(row.message_id, row.topic, page_of(*row.identity)) for row in rows[: MOST + 1])
    return group(title, hits, ids=True)
