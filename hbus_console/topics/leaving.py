"""The right to take payloads to where nobody holds back what their topic masks.

Whoever may not reveal must not get there by a detour: a topic that masks less, or a receiver outside.
"""

from __future__ import annotations

from datetime import datetime

from hbus_console.access.permissions import Actor, Forbidden, allows
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules


def require_move(actor: Actor, topic: Topic, into: Topic) -> None:
    """Raise ``Forbidden`` unless ``actor`` may copy payloads of ``topic`` into another one."""
    rules = MaskingRules.of(topic)
    if not MaskingRules.of(into).keep(rules):
        _require(actor, topic, rules, f"which {into.name} does not hide")
    elif allows(actor, PAYLOAD_REVEAL, into.name):
        _require(actor, topic, rules, f"which they may reveal on {into.name}")
    elif into.subscriptions.filter(handler="webhook").exists():
        _require(actor, topic, rules, f"which webhooks on {into.name} would send out in clear")


def require_exit(actor: Actor, topic: Topic) -> None:
    """Raise ``Forbidden`` unless ``actor`` may send payloads of ``topic`` to a receiver outside."""
    _require(actor, topic, MaskingRules.of(topic), "which a webhook would send out in clear")


def require_return(actor: Actor, topic: Topic, died_at: datetime) -> None:
    """Raise ``Forbidden`` unless ``actor`` may publish again into ``topic`` what died in one of that name."""
    rules = MaskingRules.at(topic, died_at)
    if not MaskingRules.of(topic).keep(rules):
        _require(actor, topic, rules, "which may be masked in what died before that topic was made")


def _require(actor: Actor, topic: Topic, rules: MaskingRules, why: str) -> None:
    if not rules.hide_something or allows(actor, PAYLOAD_REVEAL, topic.name):
        return
    raise Forbidden(
        f"{actor.name} may not {PAYLOAD_REVEAL.words} on {topic.name}, {why}.",
        remedy=f"It takes the role {PAYLOAD_REVEAL.needs.value} on {topic.name}; an admin can grant it under Access.",
        action=PAYLOAD_REVEAL,
        resource=topic.name,
    )
