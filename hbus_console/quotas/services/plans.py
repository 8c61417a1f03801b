"""The plans of tenants: which policies of plans hold for whom."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.database import BATCH, in_batches
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.models import PLAN_MOST, TENANT_MOST, BookInForce, TenantPlan, tenant_subject
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
        write_plans(state, {tenant: plan}, entry.seq)
        write_book(state, entry.seq)


def write_plans(state: BookInForce, wanted: Mapping[str, str], audit_seq: int) -> None:
    """Let each of these tenants have that plan, or none, from the next book on. Under the lock of ``state``."""
    since = state.number + 1
    for tenants in in_batches(list(wanted)):
        TenantPlan.objects.filter(tenant__in=tenants, until__isnull=True).update(until=since)
    TenantPlan.objects.bulk_create(
        [
            TenantPlan(tenant=tenant, plan=plan, since=since, audit_seq=audit_seq)
            for tenant, plan in wanted.items()
            if plan
        ],
        BATCH,
    )
