"""Quota policies: made with an owner, changed with a version, tried, rolled back, and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Max, Min

from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.faults import GatheredFaults
from hbus_console.quotas.feature import QUOTA_EDIT
from hbus_console.quotas.models import BookInForce, PolicyVersion, QuotaPolicy
from hbus_console.quotas.services.books import lock_book, write_book
from hbus_console.quotas.services.draft import SETTINGS, PolicyDraft, checked, snapshot
from hbus_console.teams import services as teams
from hbus_console.teams.models import Team

#: As many as a node can look through for each new limiter without being felt.
MOST_POLICIES = 1_000


class _PolicyAct(NamedTuple):
    """As the audit log has it."""

    actor: Actor
    action: str
    reason: str


def create_policy(actor: Actor, draft: PolicyDraft, reason: str = "") -> QuotaPolicy:
    """Make a policy; every node goes by it within a second.

    Raises ``Forbidden``, :class:`BadInput` naming each field at fault, and :class:`Conflict` when the name is taken.
    """
    require(actor, QUOTA_EDIT)
    clean, owner, reason = check_draft(draft, reason)
    with transaction.atomic():
        state = lock_book()
        _refuse_taken(draft.name)
        if QuotaPolicy.objects.count() >= MOST_POLICIES:
            raise Conflict(
                f"There are {MOST_POLICIES:,} policies already.",
                remedy="Let one cover several tenants by a pattern or a plan.",
            )
        row = QuotaPolicy(name=draft.name, team=owner, version=first_version(draft.name), **clean)
        row.save(force_insert=True)
        entry = record(actor, "quota.create", row.subject, reason=reason, after=snapshot(row))
        keep_version(row, state, entry.seq)
        write_book(state, entry.seq)
    return row


def check_draft(draft: PolicyDraft, reason: str) -> tuple[dict[str, Any], Team, str]:
    """The settings, the owner and the reason of a policy to be made, cleaned. Raises as :func:`create_policy` does."""
    faults, clean = GatheredFaults(), dict[str, Any]()
    with faults.gathered():
        _refuse_taken(checks.name(draft.name, "name"))
    with faults.gathered():
        clean = checked(asdict(draft))
    with faults.gathered():
        owner = teams.owner(draft.owner)
    with faults.gathered():
        reason = checks.reason(reason, required=False)
    faults.tell()
    return clean, owner, reason


def check_change(
    before: Mapping[str, Any], changes: Mapping[str, Any], reason: str
) -> tuple[dict[str, Any], Team | None, str]:
    """Likewise, of what a policy would be that was ``before``; the owner is ``None`` where it stays, or is taken away.

    Raises :class:`BadInput` naming each field at fault.
    """
    faults, clean, owner = GatheredFaults(), dict[str, Any](), None
    with faults.gathered():
        clean = checked({**before, **{field: value for field, value in changes.items() if field != "owner"}})
    with faults.gathered():
        if changes.get("owner"):
            owner = teams.owner(changes["owner"])
    with faults.gathered():
        reason = checks.reason(reason, required=False)
    faults.tell()
    return clean, owner, reason


def _refuse_taken(name: str) -> None:
    if QuotaPolicy.objects.filter(name=name).exists():
        raise Conflict(f"There is already a policy {name}.", remedy="Choose another name.", field="name")


def change_policy(
    actor: Actor, name: str, changes: Mapping[str, Any], reason: str = "", *, version: int | None = None
) -> QuotaPolicy:
    """Change some settings, which makes a version of the policy and a book; an empty ``owner`` takes it away.

    ``version`` guards a form against a change made meanwhile (:class:`Outdated`).
    """
    require(actor, QUOTA_EDIT)
    for field in changes.keys() - set(SETTINGS.changeable):
        raise BadInput(
            f"A policy has no setting {field!r} to change.", remedy="See the API's description.", field=field
        )
    with transaction.atomic():
        state = lock_book()
        row = policy(name, lock=True)
        require_current(version, row.version, name, row.subject)
        return _change(_PolicyAct(actor, "quota.change", reason), state, row, changes)


def promote_trial(actor: Actor, name: str, reason: str, *, version: int | None = None) -> QuotaPolicy:
    """Hold everybody to what was tried at some. Raises ``Conflict`` where nothing is tried; ``version`` as for
    :func:`change_policy`.
    """
    require(actor, QUOTA_EDIT)
    with transaction.atomic():
        state = lock_book()
        row = policy(name, lock=True)
        require_current(version, row.version, name, row.subject)
        if not row.canary_percent:
            raise Conflict(f"Nothing is tried of {name}.", remedy="Say at how many tenants, and what.")
        wanted = {"limit": row.canary_limit, "burst": row.canary_burst, "canary_percent": 0}
        return _change(_PolicyAct(actor, "quota.promote", checks.reason(reason)), state, row, wanted)


def restore_policy(actor: Actor, name: str, number: int, reason: str, *, version: int | None = None) -> QuotaPolicy:
    """Make its settings what they were in a version, as a new one. Raises ``NotThere`` for one it never had;
    ``version`` as for :func:`change_policy`.
    """
    require(actor, QUOTA_EDIT)
    with transaction.atomic():
        state = lock_book()
        row = policy(name, lock=True)
        require_current(version, row.version, name, row.subject)
        reason = checks.reason(reason)
        found = PolicyVersion.objects.filter(policy=name, number=number).first()
        if found is None:
            raise _no_version(name, number)
        if number == row.version:
            already(row.subject, f"is what it was in version {number}", reason=reason)
            return row
        # A setting that is newer than the version stays as it is.
        was = {field: value for field, value in found.settings.items() if field in SETTINGS.changeable}
        return _change(_PolicyAct(actor, "quota.restore", reason), state, row, was)


def delete_policy(actor: Actor, name: str, typed_name: str, reason: str) -> None:
    """Delete it; nobody is held to it within a second. Its versions are kept."""
    require(actor, QUOTA_EDIT)
    with transaction.atomic():
        state = lock_book()
        row = policy(name, lock=True)
        reason = checks.reason(reason)
        checks.typed(typed_name, name)
        entry = record(actor, "quota.delete", row.subject, reason=reason, before=snapshot(row))
        PolicyVersion.objects.filter(policy=name, until__isnull=True).update(until=state.number + 1)
        row.delete()
        write_book(state, entry.seq)


def policy(name: str, *, lock: bool = False) -> QuotaPolicy:
    """The policy, locked for change on request; raises :class:`NotThere`."""
    rows = QuotaPolicy.objects.select_related("team")
    if lock:
        rows = rows.select_for_update(of=("self",))
    found = rows.filter(name=name).first()
    if found is None:
        raise missing(name)
    return found


def keep_version(row: QuotaPolicy, state: BookInForce, audit_seq: int) -> None:
    """Keep what the policy is from the next book on. ``row.version`` is the number of that."""
    since = state.number + 1
    PolicyVersion.objects.filter(policy=row.name, until__isnull=True).update(until=since)
    PolicyVersion.objects.create(
        policy=row.name, number=row.version, settings=snapshot(row), since=since, audit_seq=audit_seq
    )


def first_version(name: str) -> int:
    """Of a policy made anew under the name of one that was deleted: it goes on from there."""
    return (PolicyVersion.objects.filter(policy=name).aggregate(last=Max("number"))["last"] or 0) + 1


def _change(act: _PolicyAct, state: BookInForce, row: QuotaPolicy, changes: Mapping[str, Any]) -> QuotaPolicy:
    before = snapshot(row)
    wanted = SETTINGS.differing(before, changes)
    if not wanted:
        already(row.subject, "is as you sent it", reason=checks.reason(act.reason, required=False))
        return row
    clean, owner, reason = check_change(before, wanted, act.reason)
    if "owner" in wanted:
        row.team = owner
    for field, value in clean.items():
        setattr(row, field, value)
    after = snapshot(row)
    if after == before:
        return row
    row.version += 1
    row.save()
    entry = record(act.actor, act.action, row.subject, reason=reason, before=before, after=after)
    keep_version(row, state, entry.seq)
    write_book(state, entry.seq)
    return row


def _no_version(name: str, number: int) -> NotThere:
    oldest = PolicyVersion.objects.filter(policy=name).aggregate(oldest=Min("number"))["oldest"] or 0
    if 1 <= number < oldest:
        return NotThere(
            f"Version {number:,} of {name} was trimmed: none before version {oldest:,} is kept any more.",
            remedy="What it said is in the audit log.",
            field="version",
        )
    return NotThere(f"{name} has no version {number}.", remedy="Look at its versions.", field="version")


def missing(name: str) -> NotThere:
    """Of a policy that there is not, or that is not for who asks."""
    return NotThere(f"There is no policy {name!r}.", remedy="Make it first.", field="policy")
