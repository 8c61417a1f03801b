"""Jobs: made with an owner, changed with a version and a trace, held, and deleted with what is left of them told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F

from engine.core.clock import to_rfc3339
from engine.core.errors import BadInput, Conflict, NotThere
from engine.cron.slots.planning import due_after
from engine.cron.slots.steps import RunState
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.jobs.feature import JOB_DELETE, JOB_EDIT, JOB_GOVERN, JOB_PAUSE
from hbus_console.jobs.following import check_after, following, keep_after
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.known import cron_job
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion, PingAddress
from hbus_console.jobs.rights import identity_of
from hbus_console.jobs.services.draft import SETTINGS, JobDraft, checked, refuse_another_place, snapshot
from hbus_console.jobs.services.secrets import forget_secrets, refuse_carrying, shown_settings, with_known
from hbus_console.jobs.services.work import WORK_SETTINGS, check_work
from hbus_console.jobs.tags import keep_tags
from hbus_console.teams import services as teams

#: What says when it runs: what was missed under another of these is not caught up with.
WHEN = ("schedule", "zone", "gap", "fold")
#: Why slots are skipped that came before a change, and of how many that is told at once.
RESTORED = "job.restore"
UNDECIDED = "the job was changed before anybody decided this slot"
LEFT_OUT = ", nor those after it until {}, which have no row of their own"

Now = Callable[[], float]


class Why(NamedTuple):
    """As the audit log has it."""

    action: str
    reason: str


@transaction.atomic
def create_job(actor: Actor, draft: JobDraft, reason: str = "", *, now_s: Now = database_time) -> Job:
    """Make a job; its slots count from now on.

    Raises ``Forbidden``, :class:`BadInput` naming the field, and :class:`Conflict` when the name is taken.
    """
    name = checks.name(draft.name, "name")
    require(actor, JOB_EDIT, name)
    reason = checks.reason(reason, required=False)
    if Job.objects.filter(name=name).exists():
        raise Conflict(f"There is already a job {name}.", remedy="Choose another name.", field="name")
    clean = checked(with_known(asdict(draft), {}))
    check_work(actor, clean)
    check_after(name, clean["after"])
    made = Job(name=name, team=teams.owner(draft.owner), acts_as=identity_of(actor), **clean)
    made.save()
    keep_after(made)
    keep_tags(made)
    if made.kind == WorkName.ELSEWHERE:
        PingAddress.objects.create(job=made)
    JobCursor.objects.update_or_create(job=name, defaults={"version": made.version, "at": int(now_s())})
    entry = record(actor, "job.create", made.subject, reason=reason, after=shown_settings(snapshot(made)))
    JobVersion.objects.create(job=made, number=made.version, settings=snapshot(made), audit_seq=entry.seq)
    return made


@transaction.atomic
def change_job(
    actor: Actor,
    name: str,
    changes: Mapping[str, Any],
    reason: str = "",
    *,
    version: int | None = None,
    now_s: Now = database_time,
) -> Job:
    """Change some settings, which makes a version; an empty ``owner`` takes it away, and its slots are skipped.

    Only what differs is changed, and each setting asks for its own permission. ``version`` guards a form against a
    change made meanwhile (:class:`Outdated`).
    """
    # Before the row is looked for: nobody learns by it which jobs there are.
    require(actor, JOB_EDIT, name)
    for field in changes.keys() - set(SETTINGS.changeable):
        raise BadInput(f"A job has no setting {field!r} to change.", remedy="See the API's description.", field=field)
    row = job(name, lock=True)
    checks.revision(version, row.version, name)
    return _change(actor, row, changes, Why("job.change", reason), now_s)


@transaction.atomic
def restore_version(actor: Actor, name: str, number: int, reason: str, *, now_s: Now = database_time) -> Job:
    """Make its settings what they were in a version, as a new one; whether it is paused stays as it is.

    Raises :class:`NotThere` for a version that it never had.
    """
    require(actor, JOB_EDIT, name)
    row = job(name, lock=True)
    reason = checks.reason(reason)
    found = row.versions.filter(number=number).first()
    if found is None:
        raise NotThere(f"{name} has no version {number}.", remedy="Look at its versions.", field="version")
    # A setting that is newer than the version stays as it is.
    was = {field: value for field, value in found.settings.items() if field in SETTINGS.changeable}
    return _change(actor, row, was, Why(RESTORED, reason), now_s)


@transaction.atomic
def pause_job(actor: Actor, name: str, reason: str) -> Job:
    """Skip its slots from now on, each with a row; what runs goes on. Pausing twice leaves one trace."""
    require(actor, JOB_PAUSE, name)
    row = job(name, lock=True)
    reason = checks.reason(reason)
    if row.paused:
        already(row.subject, "is paused", "job.pause")
        return row
    return _set_pause(actor, row, True, reason)


@transaction.atomic
def resume_job(actor: Actor, name: str, reason: str = "") -> Job:
    """Run its slots again, from the next one on."""
    require(actor, JOB_PAUSE, name)
    row = job(name, lock=True)
    reason = checks.reason(reason, required=False)
    if not row.paused:
        already(row.subject, "runs", "job.resume")
        return row
    return _set_pause(actor, row, False, reason)


@transaction.atomic
def delete_job(actor: Actor, name: str, typed_name: str, reason: str, *, now_s: Now = database_time) -> None:
    """Delete a job. What waits for a worker never runs, and says so; what runs goes on; all rows of runs are kept.

    ``typed_name`` is what a person typed to confirm.
    """
    require(actor, JOB_DELETE, name)
    row = job(name, lock=True)
    reason = checks.reason(reason)
    checks.typed(typed_name, name)
    if after := list(following(name).values_list("job__name", flat=True)):
        raise Conflict(f"{', '.join(after)} would never run: it runs after {name}.", remedy="Change that first.")
    now_us = round(now_s() * 1_000_000)
    # Before its runs, as whoever begins or ends one of them locks the two.
    JobCursor.objects.filter(job=name).delete()
    waiting = JobRun.objects.filter(job=name, ended_us=None, state=RunState.CLAIMED)
    ended = {"ended_us": now_us, "changed_us": now_us, "reason": "the job was deleted"}
    # What began once has not been skipped.
    waiting.exclude(last_end="").update(state=F("last_end"), **ended)
    waiting.update(state=RunState.SKIPPED, **ended)
    if row.kind == WorkName.ELSEWHERE:
        # Nobody would hear of their end.
        JobRun.objects.filter(job=name, ended_us=None).update(state=RunState.CANCELLED, **ended)
    record(actor, "job.delete", row.subject, reason=reason, before=shown_settings(snapshot(row)))
    forget_secrets(row)
    row.delete()


def job(name: str, *, lock: bool = False) -> Job:
    """The job, locked for change on request; raises :class:`NotThere`."""
    rows = Job.objects.select_related("team")
    if lock:
        rows = rows.select_for_update(of=("self",))
    found = rows.filter(name=name).first()
    if found is None:
        raise NotThere(f"There is no job {name!r}.", remedy="Create it with an owner first.", field="job")
    return found


def _change(actor: Actor, row: Job, changes: Mapping[str, Any], why: Why, now_s: Now) -> Job:
    before = snapshot(row)
    wanted = SETTINGS.differing(before, with_known(changes, before))
    if not wanted:
        already(row.subject, "is as you sent it")
        return row
    for act in SETTINGS.acts_of(wanted):
        require(actor, act, row.name)
    reason = checks.reason(why.reason, required=JOB_GOVERN in SETTINGS.acts_of(wanted))
    clean = checked({**before, **{field: value for field, value in wanted.items() if field != "owner"}})
    refuse_another_place(before, clean)
    # A version's secrets were given for what that version did.
    if why.action != RESTORED:
        refuse_carrying(before, clean, changes.get("parameters"))
    owner = row.team
    if "owner" in wanted:
        owner = teams.owner(wanted["owner"]) if wanted["owner"] else None
    if any(clean[field] != before[field] for field in WORK_SETTINGS):
        check_work(actor, clean)
        row.acts_as = identity_of(actor)
    if clean["after"] != before["after"]:
        check_after(row.name, clean["after"])
    if any(clean[field] != before[field] for field in WHEN):
        _tell_undecided(row, now_s())
    for field, value in clean.items():
        setattr(row, field, value)
    row.team = owner
    if snapshot(row) == before:
        return row
    _save_version(actor, row, Why(why.action, reason), before)
    return row


def _set_pause(actor: Actor, row: Job, paused: bool, reason: str) -> Job:
    before = snapshot(row)
    row.paused, row.pause_reason = paused, reason if paused else ""
    _save_version(actor, row, Why("job.pause" if paused else "job.resume", reason), before)
    return row


def _save_version(actor: Actor, row: Job, why: Why, before: Mapping[str, Any]) -> None:
    row.version += 1
    row.save()
    keep_after(row)
    keep_tags(row)
    # A node that knows the version before decides nothing from here on.
    JobCursor.objects.filter(job=row.name).update(version=row.version)
    after = snapshot(row)
    shown = shown_settings(after)
    if before["parameters"] != after["parameters"] and shown_settings(before)["parameters"] == shown["parameters"]:
        shown["masked"] = "changed"
    entry = record(actor, why.action, row.subject, reason=why.reason, before=shown_settings(before), after=shown)
    JobVersion.objects.create(job=row, number=row.version, settings=after, audit_seq=entry.seq)


def _tell_undecided(row: Job, now_s: float) -> None:
    """What came under the settings that end now, and nobody decided, is skipped with a row; it starts anew from now."""
    cursor = JobCursor.objects.select_for_update().get(job=row.name)
    at, known = int(now_s), cron_job(row)
    slots = due_after(known, cursor.at, at)
    left_out = due_after(known, slots[-1], at) if slots else []
    now_us = round(now_s * 1_000_000)
    JobRun.objects.bulk_create(
        (
            JobRun(
                job=row.name,
                version=row.version,
                slot=slot,
                state=RunState.SKIPPED,
                reason=UNDECIDED + (LEFT_OUT.format(to_rfc3339(at * 1000)) if left_out and slot == slots[-1] else ""),
                decided_us=now_us,
                ended_us=now_us,
                changed_us=now_us,
            )
            for slot in slots
        ),
        ignore_conflicts=True,
    )
    cursor.at = max(cursor.at, at)
    cursor.save(update_fields=["at"])
