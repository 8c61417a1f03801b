"""The plans of tenants: which policies of plans hold for whom."""

from __future__ import annotations

from django.db import transaction

from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.models import PLAN_MOST, TENANT_MOST, TenantPlan, tenant_subject
from hbus_console.quotas.services.books import lock_book, write_book


def set_plan(actor: Actor, tenant: str, plan: str, reason: str = "") -> None:
    """Give a tenant a plan, or with an empty one none; nodes go by it within a second.

    Raises ``Forbidden`` and :class:`BadInput` naming the field. The tenant need not be known: it may come tomorrow.
    """
    require(actor, QUOTA_PLAN)
    tenant = checks.text(tenant, "tenant", most=TENANT_MOST, required=True)
    plan = checks.text(plan, "plan", most=PLAN_MOST)
    reason = checks.reason(reason, required=False)
    subject = tenant_subject(tenant)
    with transaction.atomic():
        state = lock_book()
        had = TenantPlan.objects.filter(tenant=tenant, until__isnull=True).first()
        before = had.plan if had else ""
        if before == plan:
            already(subject, f"has the plan {plan}" if plan else "has no plan")
            return
        entry = record(actor, "quota.plan", subject, reason=reason, before={"plan": before}, after={"plan": plan})
        since = state.number + 1
        TenantPlan.objects.filter(tenant=tenant, until__isnull=True).update(until=since)
        if plan:
            TenantPlan.objects.create(tenant=tenant, plan=plan, since=since, audit_seq=entry.seq)
        write_book(state, entry.seq)
