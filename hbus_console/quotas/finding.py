"""Policies by a part of their name or of whom they cover, and tenants that have a plan."""

from __future__ import annotations

from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from hbus_console.access.permissions import Actor
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.sight import plans_seen, policies_seen
from hbus_console.quotas.wording import limit_words
from hbus_console.ui.finding import MOST, Hit, HitGroup, group


def find(who: Actor, text: str) -> list[HitGroup]:
    """Two queries. Three, of who does not see everything."""
    rows = policies_seen(who).filter(Q(name__icontains=text) | Q(tenant__icontains=text))
    plans = plans_seen(who).filter(tenant__icontains=text)
    policies = (
        Hit(row.name, limit_words(snapshot(row)), reverse("quotas:policy", args=[row.name])) for row in rows[: MOST + 1]
    )
    tenants = (
        Hit(row.tenant, f"plan {row.plan}", f"{reverse('quotas:plans')}?{urlencode({'q': row.tenant})}")
        for row in plans[: MOST + 1]
    )
    return [group("Quota policies", policies), group("Tenants", tenants)]
