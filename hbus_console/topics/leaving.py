"""The right to take payloads to where nobody holds back what their topic masks.

Whoever may not reveal must not get there by a detour: a topic that masks less, or a receiver outside.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from django.db.models import QuerySet

from hbus_console.access.permissions import Actor, Forbidden, allows
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules


def require_move(actor: Actor, topic: Topic, into: Topic) -> None:
    """Raise ``Forbidden`` unless ``actor`` may copy payloads of ``topic`` into another one."""
    rules = MaskingRules.of(topic)
    if why := _shown_there(actor, rules, into, lambda: into.subscriptions.filter(handler="webhook").exists()):
        _require(actor, topic, rules, why)


def may_move(actor: Actor, topic: Topic, among: QuerySet[Topic]) -> list[Topic]:
    """Those of ``among`` into which :func:`require_move` lets ``actor`` copy; two queries, however many there are."""
    rules = MaskingRules.of(topic)
    if _is_free(actor, topic, rules):
        return list(among)
    calling = set(among.filter(subscriptions__handler="webhook").values_list("pk", flat=True))
    return [into for into in among if not _shown_there(actor, rules, into, partial(calling.__contains__, into.pk))]


def require_exit(actor: Actor, topic: Topic) -> None:
    """Raise ``Forbidden`` unless ``actor`` may send payloads of ``topic`` to a receiver outside."""
    _require(actor, topic, MaskingRules.of(topic), "which a webhook would send out in clear")


def require_return(actor: Actor, topic: Topic, died_at: datetime) -> None:
    """Raise ``Forbidden`` unless ``actor`` may publish again into ``topic`` what died in one of that name."""
    rules = MaskingRules.at(topic, died_at)
    if not MaskingRules.of(topic).keep(rules):
        _require(actor, topic, rules, "which may be masked in what died before that topic was made")


def _shown_there(actor: Actor, rules: MaskingRules, into: Topic, has_webhooks: Callable[[], bool]) -> str:
    """Why what ``rules`` hide would not stay hidden from ``actor`` in ``into``; empty when it would."""
    if not MaskingRules.of(into).keep(rules):
        return f"which {into.name} does not hide"
    if allows(actor, PAYLOAD_REVEAL, into.name):
        return f"which they may reveal on {into.name}"
    return f"which webhooks on {into.name} would send out in clear" if has_webhooks() else ""


def _is_free(actor: Actor, topic: Topic, rules: MaskingRules) -> bool:
    return not rules.hide_something or allows(actor, PAYLOAD_REVEAL, topic.name)


def _require(actor: Actor, topic: Topic, rules: MaskingRules, why: str) -> None:
    if _is_free(actor, topic, rules):
        return
    raise Forbidden(
        f"{actor.name} may not {PAYLOAD_REVEAL.words} on {topic.name}, {why}.",
        remedy=f"It takes the role {PAYLOAD_REVEAL.needs.value} on {topic.name}; an admin can grant it under Access.",
        action=PAYLOAD_REVEAL,
        resource=topic.name,
    )
