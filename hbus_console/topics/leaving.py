"""The right to take payloads to where nobody holds back what their topic masks.

Whoever may not reveal must not get there by a detour: a topic that masks less, or a receiver outside. Where somebody
goes it who may, it is a reveal, and :func:`record_leaving` says so in the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import QuerySet

from engine.core.subject import Subject
from hbus_console.access.permissions import Actor, Forbidden, account_allows, allows
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules


def require_move(actor: Actor, topic: Topic, into: Topic) -> bool:
    """Raise ``Forbidden`` unless ``actor`` may copy payloads of ``topic`` into another one.

    Returns whether something that ``topic`` masks is shown there: then the copying is to be recorded.
    """
    rules = MaskingRules.of(topic)
    calling = _webhooks(into).exists()
    if why := _shown_there(actor, rules, into, lambda: calling):
        _require(actor, topic, rules, why)
    return rules.hide_something and (calling or not MaskingRules.of(into).keep(rules))


def may_move(actor: Actor, topic: Topic, among: QuerySet[Topic]) -> list[Topic]:
    """Those of ``among`` into which :func:`require_move` lets ``actor`` copy; two queries, however many there are."""
    rules = MaskingRules.of(topic)
    if _is_free(actor, topic, rules):
        return list(among)
    calling = set(among.filter(subscriptions__handler="webhook").values_list("pk", flat=True))
    return [into for into in among if not _shown_there(actor, rules, into, partial(calling.__contains__, into.pk))]


def require_call(actor: Actor, topic: Topic, group: str) -> bool:
    """Raise ``Forbidden`` unless ``actor`` may have payloads of ``topic`` handed again to its subscription ``group``.

    A webhook may be older than the masks, and its maker one who may not reveal: only what is published reaches it by
    itself. Returns whether it is sent something that ``topic`` masks: then the handing is to be recorded.
    """
    return _webhooks(topic).filter(group=group).exists() and require_exit(actor, topic)


def may_call(actor: Actor, topic: Topic) -> bool:
    """Whether :func:`require_call` lets ``actor`` have payloads handed again to a webhook of ``topic``."""
    return _is_free(actor, topic, MaskingRules.of(topic))


def sent_whole(topic: Topic) -> list[str]:
    """The webhooks that are sent in clear what ``topic`` masks, by name; none where it masks nothing."""
    if not MaskingRules.of(topic).hide_something:
        return []
    return sorted(row.group for row in topic.subscriptions.all() if row.handler == "webhook")


def require_exit(actor: Actor, topic: Topic) -> bool:
    """Raise ``Forbidden`` unless ``actor`` may send payloads of ``topic`` to a receiver outside.

    Returns whether it masks anything: then the sending is to be recorded.
    """
    rules = MaskingRules.of(topic)
    _require(actor, topic, rules, "which a webhook would send out in clear")
    return rules.hide_something


def require_return(actor: Actor, topic: Topic, died_at: datetime) -> bool:
    """Raise ``Forbidden`` unless ``actor`` may publish again into ``topic`` what died in one of that name.

    Returns whether something of it may be shown there that was masked when it died: then that is to be recorded.
    """
    rules = MaskingRules.at(topic, died_at)
    if MaskingRules.of(topic).keep(rules):
        return False
    _require(actor, topic, rules, "which may be masked in what died before that topic was made")
    return True


def record_leaving(
    actor: Actor, subject: Subject, rules: MaskingRules, where: Mapping[str, str], reason: str
) -> AuditEntry:
    """Audit that what ``rules`` hide of ``subject``, a topic or a message, is shown from now on in ``where``.

    In the transaction of the act that shows it.
    """
    after = {"fields": list(rules.masked_fields) or ["*"], "classification": rules.classification, **where}
    return record(actor, PAYLOAD_REVEAL.name, subject, reason=reason, after=after)


def _shown_there(actor: Actor, rules: MaskingRules, into: Topic, has_webhooks: Callable[[], bool]) -> str:
    """Why what ``rules`` hide would not stay hidden from ``actor`` in ``into``; empty when it would."""
    if not MaskingRules.of(into).keep(rules):
        return f"which {into.name} does not hide"
    # By whatever they may sign in with: a token that may less is put down again.
    if account_allows(actor, PAYLOAD_REVEAL, into.name):
        return f"which they may reveal on {into.name}"
    return f"which webhooks on {into.name} would send out in clear" if has_webhooks() else ""


def _webhooks(topic: Topic) -> QuerySet[Any]:
    return topic.subscriptions.filter(handler="webhook")


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
