"""Going back to all policies and plans of an earlier book, in one act.

That may be thousands of rows, and nobody else changes anything meanwhile: they wait. What takes time is done before;
what is done under the lock is done in statements of many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db import transaction
from django.db.models import Max

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.database import BATCH, in_batches
from hbus_console.quotas.feature import QUOTA_EDIT, QUOTA_PLAN
from hbus_console.quotas.models import BookInForce, PolicyVersion, QuotaPolicy, book_subject
from hbus_console.quotas.services.audited import before_and_after
from hbus_console.quotas.services.books import lock_book, plans_at, policies_at, write_book
from hbus_console.quotas.services.differences import Difference, Settings, between
from hbus_console.quotas.services.draft import SETTINGS, checked, snapshot
from hbus_console.quotas.services.kept_books import book_at
from hbus_console.quotas.services.plans import write_plans
from hbus_console.teams.models import Team


def roll_back(actor: Actor, number: int, reason: str, *, revision: int | None = None) -> int:
    """Make all policies and plans what they were in the book of that number, and give the number of the new book.

    ``revision`` is the newest book that was known: it guards against what was changed meanwhile (:class:`Outdated`).
    A policy whose team is gone comes back without an owner. Raises ``NotThere`` for a book that is not kept, and
    ``BadInput`` naming the policy where one of then is none that could be saved today.
    """
    require(actor, QUOTA_EDIT)
    require(actor, QUOTA_PLAN)
    reason = checks.reason(reason)
    book_at(number, "number")
    then = _Then(number)
    then.rows_for(policies_at(None))
    with transaction.atomic():
        state = lock_book()
        checks.revision(revision, state.number, "The newest version of the policies")
        book_at(number, "number")
        is_now = policies_at(None)
        rows = then.rows_for(is_now)
        # What becomes of a policy is what is saved of it: an owner that is gone is nobody.
        wanted = then.settings | {row.name: snapshot(row) for row in rows}
        changes = between(is_now, wanted, plans_at(None), then.plans)
        if not changes:
            already(book_subject(state.number), f"is what version {number} was", reason=reason)
            return state.number
        before, after = before_and_after(changes, state.number + 1)
        entry = record(actor, "quota.roll_back", book_subject(number), reason=reason, before=before, after=after)
        _write_policies(state, changes, rows, entry.seq)
        write_plans(state, {tenant: plan for tenant, (_, plan) in changes.plans.items()}, entry.seq)
        write_book(state, entry.seq)
        return state.number


class _Then:
    """What an earlier book says, which it says for ever: read, and checked, before anybody is kept waiting."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.settings, self.plans = policies_at(number), plans_at(number)
        self._checked = dict[str, Settings]()

    def rows_for(self, is_now: Mapping[str, Settings]) -> list[QuotaPolicy]:
        """Of the policies that differ, each as it is to be again; not saved, and of no version yet."""
        teams = {team.name: team for team in Team.objects.all()}
        return [
            QuotaPolicy(name=name, team=teams.get(settings.get("owner") or ""), **self._clean(name))
            for name, settings in self.settings.items()
            if settings != is_now.get(name)
        ]

    def _clean(self, name: str) -> Settings:
        if name not in self._checked:
            defaults = {field: SETTINGS[field].default for field in SETTINGS.stored}
            try:
                self._checked[name] = checked({**defaults, **self.settings[name]})
            except BadInput as error:
                raise BadInput(
                    f"{name} cannot be again what it was in version {self._number}: {error.what}",
                    remedy="Go back to another version, or change each policy by itself.",
                    field="number",
                ) from error
        return self._checked[name]


def _write_policies(state: BookInForce, changes: Difference, rows: Iterable[QuotaPolicy], audit_seq: int) -> None:
    since = state.number + 1
    gone = [name for name, (_, wanted) in changes.policies.items() if wanted is None]
    last = dict[str, int]()
    for names in in_batches(list(changes.policies)):
        versions = PolicyVersion.objects.filter(policy__in=names)
        last |= dict(versions.order_by().values_list("policy").annotate(Max("number")))
        versions.filter(until__isnull=True).update(until=since)
    for names in in_batches(gone):
        QuotaPolicy.objects.filter(name__in=names).delete()
    kept = [row for row in rows if row.name in changes.policies]
    for row in kept:
        row.version = last.get(row.name, 0) + 1
    QuotaPolicy.objects.bulk_create(
        kept,
        BATCH,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=[*SETTINGS.stored, "team", "version", "updated_at"],
    )
    PolicyVersion.objects.bulk_create(
        [
            PolicyVersion(policy=row.name, number=row.version, settings=snapshot(row), since=since, audit_seq=audit_seq)
            for row in kept
        ],
        BATCH,
    )
