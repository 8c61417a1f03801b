"""The right to take payloads to where nobody holds back what their topic masks.

Whoever may not reveal must not get there by a detour: a topic that masks less, or a receiver outside.
"""

from __future__ import annotations

from hbus_console.access.permissions import Actor, Forbidden, allows
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import Rules


def require_move(actor: Actor, topic: Topic, into: Topic) -> None:
    """Raise ``Forbidden`` unless ``actor`` may copy payloads of ``topic`` into another one."""
    there = Rules.of(into)
    if not there.keep(Rules.of(topic)):
        _require(actor, topic, f"which {into.name} does not hide")
    elif allows(actor, PAYLOAD_REVEAL, into.name):
        _require(actor, topic, f"which they may reveal on {into.name}")
    elif into.subscriptions.filter(handler=Subscription.Handler.WEBHOOK).exists():
        _require(actor, topic, f"which webhooks on {into.name} would send out in clear")


def require_exit(actor: Actor, topic: Topic) -> None:
    """Raise ``Forbidden`` unless ``actor`` may send payloads of ``topic`` to a receiver outside."""
    _require(actor, topic, "which a webhook would send out in clear")


def _require(actor: Actor, topic: Topic, why: str) -> None:
    if not Rules.of(topic).hide_something or allows(actor, PAYLOAD_REVEAL, topic.name):
        return
    raise Forbidden(
        f"{actor.name} may not {PAYLOAD_REVEAL.words} on {topic.name}, {why}.",
        remedy=f"It takes the role {PAYLOAD_REVEAL.needs.value} on {topic.name}; an admin can grant it under Access.",
        action=PAYLOAD_REVEAL,
        resource=topic.name,
    )
