"""Where an entry leads: to its target, and to what happened under the same correlation id."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.access.scopes import topics_q
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.trail import visible
from hbus_console.messages.models import LedgerMessage
from hbus_console.operations.models import Operation, OperationItem

#: The page of a target, and the keyword of its address that takes the target's name; without one, a list.
_PAGES = {
    "topic": ("topics:detail", "name"),
    "message": ("messages:message", "message_id"),
    "user": ("accounts:user", "username"),
    "dead_letter": ("deadletters:list", ""),
    "alert": ("alerts:alert", "alert_id"),
    "alert_rule": ("alerts:rules", ""),
    "alert_channel": ("alerts:channels", ""),
    "operation": ("operations:operation", "operation_id"),
}
#: So many of each kind are listed.
SHOWN = 8


@dataclass(frozen=True)
class Related:
    """What shares the correlation id, as far as the reader may see it."""

    entries: list[AuditEntry] = field(default_factory=list)
    messages: list[LedgerMessage] = field(default_factory=list)
    more_entries: bool = False
    more_messages: bool = False
    search_url: str = ""


@dataclass(frozen=True)
class Work:
    """The operation that an entry is about: how far it is, its newest results, and what else was done to it."""

    operation: Operation
    items: list[OperationItem]
    entries: list[AuditEntry]


def work(actor: Actor, entry: AuditEntry) -> Work | None:
    """The operation of the entry, as far as the reader may see it; ``None`` when it is about something else."""
    if entry.target_type != "operation" or not entry.target.isdecimal():
        return None
    found = Operation.objects.filter(pk=entry.target).first()
    if found is None:
        return None
    items = found.items.filter(topics_q(actor)).order_by("-pk")
    same = visible(actor).filter(target_type="operation", target=entry.target).exclude(seq=entry.seq)
    return Work(found, list(items[:SHOWN]), list(same.order_by("-seq")[:SHOWN]))


def target_url(entry: AuditEntry) -> str:
    """The page of the entry's target; empty when it has none (any more)."""
    if entry.target_type == "subscription" and entry.namespace:
        return _reverse("subscriptions:detail", topic=entry.namespace, group=entry.subject.name)
    if entry.target_type in _PAGES:
        view, keyword = _PAGES[entry.target_type]
        return _reverse(view, **{keyword: entry.target} if keyword else {})
    return ""


def related(actor: Actor, entry: AuditEntry) -> Related:
    """Other entries and ledger messages of the entry's correlation id."""
    if not entry.correlation_id:
        return Related()
    others = visible(actor).filter(correlation_id=entry.correlation_id).exclude(seq=entry.seq)
    entries = list(others.order_by("-seq")[: SHOWN + 1])
    messages: list[LedgerMessage] = []
    if allows(actor, VIEW):
        seen = LedgerMessage.objects.filter(topics_q(actor), correlation_id=entry.correlation_id)
        messages = list(seen.order_by("published_ms")[: SHOWN + 1])
    search = _reverse("messages:search")
    query = urlencode({"correlation": entry.correlation_id, "from": _an_hour_around(entry)})
    return Related(
        entries=entries[:SHOWN],
        messages=messages[:SHOWN],
        more_entries=len(entries) > SHOWN,
        more_messages=len(messages) > SHOWN,
        search_url=f"{search}?{query}" if search and messages else "",
    )


def _an_hour_around(entry: AuditEntry) -> int:
    return round(entry.at.timestamp() * 1000) - 3_600_000


def _reverse(view: str, /, **kwargs: str) -> str:
    try:
        return reverse(view, kwargs=kwargs)
    except NoReverseMatch:
        # A target whose name does not fit the address any more, such as a deleted thing's.
        return ""
