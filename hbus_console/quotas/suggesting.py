"""The names that a field suggests while somebody writes in it: the first few that hold what was written."""

from __future__ import annotations

from django.db.models import Q

from hbus_console.access.permissions import Actor
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.sight import plans_seen, policies_seen
from hbus_console.quotas.wording import limit_words

#: Whoever looks for another one writes more of it.
SUGGESTED = 20
#: What a field suggests: the value, and what is said of it.
Options = list[tuple[str, str]]


def policies_like(who: Actor, text: str) -> Options:
    """Policies by a part of their name, or of whom they cover, with their limits."""
    rows = policies_seen(who)
    if text:
        rows = rows.filter(Q(name__icontains=text) | Q(tenant__icontains=text))
    return [(row.name, limit_words(snapshot(row))) for row in rows.order_by("name")[:SUGGESTED]]


def plans_like(who: Actor, text: str) -> Options:
    """Plans by a part of their name: those that a tenant has, and those that a policy is for."""
    given = plans_seen(who).filter(plan__icontains=text).order_by("plan").values_list("plan", flat=True)
    covered = policies_seen(who).filter(plan__icontains=text).exclude(plan="").order_by("plan")
    names = {*given.distinct()[:SUGGESTED], *covered.values_list("plan", flat=True).distinct()[:SUGGESTED]}
    return [(name, "") for name in sorted(names)[:SUGGESTED]]
