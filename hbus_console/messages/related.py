"""The messages under the correlation id of an audit entry."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.links import SHOWN, Group
from hbus_console.audit.models import AuditEntry
from hbus_console.messages.models import LedgerMessage

_AROUND_MS = 3_600_000


def related(actor: Actor, entry: AuditEntry) -> list[Group]:
    """Messages that the same request, or what followed from it, has published."""
    if not entry.correlation_id or not allows(actor, VIEW):
        return []
    seen = LedgerMessage.objects.filter(namespace_q(actor, "topic"), correlation_id=entry.correlation_id)
    messages = list(seen.order_by("published_ms")[:SHOWN])
    if not messages:
        return []
    since = round(entry.at.timestamp() * 1000) - _AROUND_MS
    query = urlencode({"correlation": entry.correlation_id, "from": since})
    return [Group("messages/_related.html", messages, True, f"{reverse('messages:search')}?{query}", "all messages")]
