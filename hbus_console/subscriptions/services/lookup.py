"""Finding the subscription that an act is done to."""

from __future__ import annotations

from engine.core.errors import NotThere
from engine.core.redaction import shown_url
from hbus_console.access.permissions import Actor, allows
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.leaving import may_call


def subscription(topic: str, group: str, *, lock: bool = False) -> Subscription:
    """The subscription with its topic and team, locked for change on request; raises :class:`NotThere`."""
    rows = Subscription.objects.select_related("topic", "team")
    if lock:
        rows = rows.select_for_update(of=("self",))
    found = rows.filter(topic__name=topic, group=group).first()
    if found is None:
        raise NotThere(
            f"There is no subscription {group!r} on {topic!r}.", remedy="List those of the topic.", field="group"
        )
    return found


def address(row: Subscription, reader: Actor | None = None) -> str:
    """Where a webhook calls: whole for who may change it, for others without what may be a key. To change it on a topic
    that masks takes the right to reveal."""
    if reader is not None and allows(reader, SUBSCRIPTION_EDIT, row.topic.name) and may_call(reader, row.topic):
        return row.webhook_url
    return shown_url(row.webhook_url)
