"""The plans of tenants: which policies of plans hold for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db import transaction

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.database import BATCH, in_batches
from hbus_console.faults import GatheredFaults
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.models import PLAN_MOST, TENANT_MOST, BookInForce, TenantPlan, book_subject, tenant_subject
from hbus_console.quotas.services.audited import before_and_after
from hbus_console.quotas.services.books import lock_book, write_book
from hbus_console.quotas.services.differences import Difference

#: Tenants whose plans are set in one act.
MOST_AT_ONCE = 1_000


class PlanWanted(NamedTuple):
    """Which plan a tenant is to have; empty: none."""

    tenant: str
    plan: str


class PlansSet(NamedTuple):
    """What became of it: the newest book, how many tenants have another plan by it, and how many had theirs already."""

    book: int
    changed: int
    unchanged: int


def set_plan(actor: Actor, tenant: str, plan: str, reason: str = "") -> None:
    """Give a tenant a plan, or with an empty one none; nodes go by it within a second.

    Raises ``Forbidden`` and :class:`BadInput` naming the field. The tenant need not be known: it may come tomorrow.
    """
    require(actor, QUOTA_PLAN)
    tenant, plan = _tenant(tenant, "tenant"), checks.text(plan, "plan", most=PLAN_MOST)
    reason = checks.reason(reason, required=False)
    subject = tenant_subject(tenant)
    with transaction.atomic():
        state = lock_book()
        before = plans_of([tenant]).get(tenant, "")
        if before == plan:
            already(subject, f"has the plan {plan}" if plan else "has no plan", reason=reason)
            return
        entry = record(actor, "quota.plan", subject, reason=reason, before={"plan": before}, after={"plan": plan})
        write_plans(state, {tenant: plan}, entry.seq)
        write_book(state, entry.seq)


def set_plans(actor: Actor, wanted: Sequence[PlanWanted], reason: str = "") -> PlansSet:
    """Give several tenants their plans: all of them in one book with one audit entry, or none.

    Raises ``Forbidden``, and :class:`BadInput` naming each entry at fault (``plans[3].tenant``), and ``plans`` where
    there is none, or more than :data:`MOST_AT_ONCE`.
    """
    require(actor, QUOTA_PLAN)
    if not wanted:
        raise BadInput("No tenant is named.", remedy="Name one with its plan.", field="plans")
    if len(wanted) > MOST_AT_ONCE:
        raise BadInput(
            f"One act sets the plans of 1 to {MOST_AT_ONCE:,} tenants, not of {len(wanted):,}.",
            remedy="Split it.",
            field="plans",
        )
    faults = GatheredFaults()
    asked = _checked(wanted, faults)
    with faults.gathered():
        reason = checks.reason(reason, required=False)
    faults.tell()
    with transaction.atomic():
        state = lock_book()
        had = plans_of(list(asked))
        changes = {tenant: plan for tenant, plan in sorted(asked.items()) if had.get(tenant, "") != plan}
        unchanged = len(asked) - len(changes)
        if not changes:
            already(book_subject(state.number), "has these plans", reason=reason)
            return PlansSet(state.number, 0, unchanged)
        made = state.number + 1
        found = Difference({}, {tenant: (had.get(tenant, ""), plan) for tenant, plan in changes.items()})
        before, after = before_and_after(found, made)
        entry = record(actor, "quota.plans", book_subject(made), reason=reason, before=before, after=after)
        write_plans(state, changes, entry.seq)
        write_book(state, entry.seq)
        return PlansSet(state.number, len(changes), unchanged)


def plans_of(tenants: Sequence[str]) -> dict[str, str]:
    """The plan of each of these that has one."""
    found: dict[str, str] = {}
    for some in in_batches(tenants):
        rows = TenantPlan.objects.filter(tenant__in=some, until__isnull=True).exclude(plan="")
        found |= dict(rows.values_list("tenant", "plan"))
    return found


def write_plans(state: BookInForce, wanted: Mapping[str, str], audit_seq: int) -> None:
    """Let each of these tenants have that plan, or none, from the next book on. Under the lock of ``state``."""
    since = state.number + 1
    for tenants in in_batches(list(wanted)):
        TenantPlan.objects.filter(tenant__in=tenants, until__isnull=True).update(until=since)
    given = (
        TenantPlan(tenant=tenant, plan=plan, since=since, audit_seq=audit_seq)
        for tenant, plan in wanted.items()
        if plan
    )
    TenantPlan.objects.bulk_create(given, BATCH)


def _checked(wanted: Sequence[PlanWanted], faults: GatheredFaults) -> dict[str, str]:
    """The plan by the tenant."""
    asked: dict[str, str] = {}
    places: dict[str, int] = {}
    for place, each in enumerate(wanted):
        plan = ""
        with faults.gathered():
            plan = checks.text(each.plan, f"plans[{place}].plan", most=PLAN_MOST)
        with faults.gathered():
            field = f"plans[{place}].tenant"
            tenant = _tenant(each.tenant, field)
            if (first := places.setdefault(tenant, place)) != place:
                raise BadInput(
                    f"{tenant} stands there twice, first as plans[{first}].", remedy="Leave one out.", field=field
                )
            asked[tenant] = plan
    return asked


def _tenant(value: str, field: str) -> str:
    tenant = checks.text(value, field, most=TENANT_MOST, required=True)
    try:
        tenant_subject(tenant)
    except BadInput as error:
        raise BadInput(error.what, remedy=error.remedy, field=field) from error
    return tenant
