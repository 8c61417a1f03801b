"""Going back to all policies and plans of an earlier book, in one act."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import transaction

from engine.core.errors import NotThere
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.quotas.feature import QUOTA_EDIT, QUOTA_PLAN
from hbus_console.quotas.models import PolicyVersion, QuotaBook, QuotaPolicy, TenantPlan, book_subject
from hbus_console.quotas.services.books import lock_book, plans_at, policies_at, write_book
from hbus_console.quotas.services.draft import SETTINGS, checked
from hbus_console.quotas.services.policies import first_version, keep_version
from hbus_console.teams.models import Team

Settings = dict[str, Any]


class Difference(NamedTuple):
    """What differs between two books, by name: what each policy or plan was, and is; ``None`` where it was not."""

    policies: dict[str, tuple[Settings | None, Settings | None]]
    plans: dict[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.policies or self.plans)


def difference(older: int | None, newer: int | None) -> Difference:
    """Between two books by their numbers; ``None``: what stands now."""
    was, is_now = policies_at(older), policies_at(newer)
    had, has = plans_at(older), plans_at(newer)
    return Difference(
        {
            name: (was.get(name), is_now.get(name))
            for name in sorted(was.keys() | is_now.keys())
            if was.get(name) != is_now.get(name)
        },
        {
            tenant: (had.get(tenant, ""), has.get(tenant, ""))
            for tenant in sorted(had.keys() | has.keys())
            if had.get(tenant) != has.get(tenant)
        },
    )


def roll_back(actor: Actor, number: int, reason: str) -> int:
    """Make all policies and plans what they were in the book of that number, and give the number of the new book.

    A policy whose team is gone comes back without an owner. Raises ``NotThere`` for a book that never was.
    """
    require(actor, QUOTA_EDIT)
    require(actor, QUOTA_PLAN)
    reason = checks.reason(reason)
    with transaction.atomic():
        state = lock_book()
        if not QuotaBook.objects.filter(number=number).exists():
            raise NotThere(
                f"There is no version {number} of the policies.", remedy="Look at the list of them.", field="number"
            )
        changes = difference(None, number)
        if not changes:
            already(book_subject(state.number), f"is what version {number} was")
            return state.number
        entry = record(
            actor,
            "quota.roll_back",
            book_subject(number),
            reason=reason,
            before={
                "policies": _side(changes.policies, 0),
                "plans": {name: had for name, (had, _) in changes.plans.items()},
            },
            after={
                "policies": _side(changes.policies, 1),
                "plans": {name: has for name, (_, has) in changes.plans.items()},
            },
        )
        since = state.number + 1
        teams = {team.name: team for team in Team.objects.all()}
        rows = {row.name: row for row in QuotaPolicy.objects.select_related("team").filter(name__in=changes.policies)}
        for name, (_, wanted) in changes.policies.items():
            row = rows.get(name)
            if wanted is None:
                PolicyVersion.objects.filter(policy=name, until__isnull=True).update(until=since)
                if row is not None:
                    row.delete()
                continue
            if row is None:
                row = QuotaPolicy(name=name, version=first_version(name) - 1)
            defaults = {field: SETTINGS[field].default for field in SETTINGS.stored}
            for field, value in checked({**defaults, **wanted}).items():
                setattr(row, field, value)
            row.team = teams.get(wanted.get("owner") or "")
            row.version += 1
            row.save()
            keep_version(row, state, entry.seq)
        for tenant, (_, plan) in changes.plans.items():
            TenantPlan.objects.filter(tenant=tenant, until__isnull=True).update(until=since)
            if plan:
                TenantPlan.objects.create(tenant=tenant, plan=plan, since=since, audit_seq=entry.seq)
        write_book(state, entry.seq)
        return state.number


def _side(changes: dict[str, tuple[Settings | None, Settings | None]], side: int) -> dict[str, Settings | None]:
    return {name: pair[side] for name, pair in changes.items()}
