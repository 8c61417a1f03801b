"""Jobs: made with an owner, changed with a version and a trace, held, and deleted with what is left of them told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F, Max

from engine.core.errors import BadInput, Conflict, NotThere
from engine.cron.slots.steps import RunState
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.faults import GatheredFaults
from hbus_console.jobs.calendars import lines_of
from hbus_console.jobs.feature import JOB_DELETE, JOB_EDIT, JOB_GOVERN, JOB_PAUSE
from hbus_console.jobs.following import check_after, followers_seen, keep_after
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.models import FormerJob, Job, JobCursor, JobRun, JobVersion, PingAddress
from hbus_console.jobs.rights import identity_of
from hbus_console.jobs.services.draft import SETTINGS, JobDraft, checked, refuse_another_place, snapshot
from hbus_console.jobs.services.secrecy import Secrecy, secrecy_of
from hbus_console.jobs.services.secrets import (
    arguments_of,
    forget_secrets,
    refuse_carrying,
    shown_settings,
    with_known,
    written_of,
)
from hbus_console.jobs.services.work import WORK_SETTINGS, check_work
from hbus_console.jobs.tags import keep_tags
from hbus_console.jobs.undecided import tell_undecided
from hbus_console.jobs.unseen import restored_after
from hbus_console.teams import services as teams
from hbus_console.teams.models import Team

#: What says when it runs: what was missed under another of these is not caught up with.
WHEN = ("schedule", "zone", "gap", "fold")
RESTORED = "job.restore"

Now = Callable[[], float]


class Why(NamedTuple):
    """As the audit log has it."""

    action: str
    reason: str


class MeantJob(NamedTuple):
    """What a job is to be: its settings but the owner, cleaned, and who answers for it."""

    settings: dict[str, Any]
    owner: Team | None
    #: Whether a secret was written out, which may be what it was: then the job is changed all the same.
    typed: bool = False


def checked_new(actor: Actor, draft: JobDraft, reason: str = "") -> MeantJob:
    """All that is asked of a new job, but whether there is what it runs after: that may be made with it.

    Raises as :func:`create_job`.
    """
    faults, name = GatheredFaults(), draft.name
    with faults.gathered():
        checks.name(name, "name")
    if not faults:
        # A name that is none is in nobody's namespace.
        require(actor, JOB_EDIT, name)
    with faults.gathered():
        if Job.objects.filter(name=name).exists():
            raise Conflict(f"There is already a job {name}.", remedy="Choose another name.", field="name")
    with faults.gathered():
        clean = checked(name, with_known(asdict(draft), {}, Secrecy()))
    with faults.gathered():
        owner = teams.owner(draft.owner)
    with faults.gathered():
        checks.reason(reason, required=False)
    faults.tell()
    check_work(actor, clean)
    return MeantJob(clean, owner)


def checked_change(actor: Actor, row: Job, changes: Mapping[str, Any], why: Why | None = None) -> MeantJob | None:
    """All that is asked of a change, but whether there is what it runs after; ``None`` where nothing would differ.

    Without a ``why`` nobody is asked for one. Raises as :func:`change_job`.
    """
    before = snapshot(row)
    secrecy = secrecy_of(row.name)
    meant = with_known(changes, before, secrecy, restores=why is not None and why.action == RESTORED)
    wanted = SETTINGS.differing(before, meant)
    # Whether it is the same is not told: a secret that is typed is a change, with its version and its trace.
    typed = secrecy.types_one(changes.get("parameters"), before)
    if typed:
        wanted["parameters"] = meant["parameters"]
    if not wanted:
        return None
    acts = SETTINGS.acts_of(wanted)
    for act in acts:
        require(actor, act, row.name)
    if why is not None:
        checks.reason(why.reason, required=JOB_GOVERN in acts)
    clean = checked(row.name, {**before, **{field: value for field, value in wanted.items() if field != "owner"}})
    refuse_another_place(before, clean)
    # A version's secrets were given for what that version did.
    if why is None or why.action != RESTORED:
        refuse_carrying(before, clean, changes, secrecy)
    owner = row.team
    if "owner" in wanted:
        owner = teams.owner(wanted["owner"]) if wanted["owner"] else None
    if typed or does_other_work(before, clean):
        restores = why is not None and why.action == RESTORED
        check_work(actor, clean, written_of(clean, before, changes, secrecy, restores=restores))
    return MeantJob(clean, owner, typed)


def does_other_work(before: Mapping[str, Any], clean: Mapping[str, Any]) -> bool:
    """Whether whoever makes such a change lends the job their rights."""
    return any(clean[field] != before[field] for field in WORK_SETTINGS)


@transaction.atomic
def create_job(actor: Actor, draft: JobDraft, reason: str = "", *, now_s: Now = database_time) -> Job:
    """Make a job; its slots count from now on.

    Raises ``Forbidden``, :class:`BadInput` naming the field, and :class:`Conflict` when the name is taken.
    """
    wanted = checked_new(actor, draft, reason)
    name, clean = draft.name, wanted.settings
    check_after(actor, name, clean["after"])
    made = Job(
        name=name,
        version=_first_version(name),
        team=wanted.owner,
        acts_as=identity_of(actor),
        calendar_lines=lines_of(clean["calendars"].split(), lock=True),
        **clean,
    )
    made.save()
    keep_after(made)
    keep_tags(made)
    if made.elsewhere:
        PingAddress.objects.create(job=made)
    JobCursor.objects.update_or_create(job=name, defaults={"version": made.version, "at": int(now_s())})
    settings = snapshot(made)
    shown = shown_settings(settings, Secrecy().also(settings))
    entry = record(actor, "job.create", made.subject, reason=checks.reason(reason, required=False), after=shown)
    JobVersion.objects.create(job=made, number=made.version, settings=settings, audit_seq=entry.seq)
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
    require_current(version, row.version, name, row.subject)
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
    if number == row.version:
        already(row.subject, f"is what it was in version {number}", reason=reason)
        return row
    # A setting that is newer than the version stays as it is.
    was = {field: value for field, value in found.settings.items() if field in SETTINGS.changeable}
    return _change(actor, row, was, Why(RESTORED, reason), now_s)


@transaction.atomic
def pause_job(actor: Actor, name: str, reason: str, *, now_s: Now = database_time) -> Job:
    """Skip its slots from now on, each with a row; what runs goes on. Pausing twice leaves one trace."""
    require(actor, JOB_PAUSE, name)
    row = job(name, lock=True)
    reason = checks.reason(reason)
    if row.paused:
        already(row.subject, "is paused", "job.pause", reason=reason)
        return row
    tell_undecided(row, now_s())
    return _set_pause(actor, row, True, reason)


@transaction.atomic
def resume_job(actor: Actor, name: str, reason: str = "", *, now_s: Now = database_time) -> Job:
    """Run its slots again, from the next one on: what came meanwhile is skipped, whether a node has seen it or not."""
    require(actor, JOB_PAUSE, name)
    row = job(name, lock=True)
    reason = checks.reason(reason, required=False)
    if not row.paused:
        already(row.subject, "runs", "job.resume", reason=reason)
        return row
    tell_undecided(row, now_s())
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
    if words := followers_seen(actor, name).words:
        raise Conflict(f"After {name} run: {words}.", remedy="Have them run after others first.")
    now_us = round(now_s() * 1_000_000)
    # Before its runs, as whoever begins or ends one of them locks the two.
    JobCursor.objects.filter(job=name).delete()
    waiting = JobRun.objects.filter(job=name, ended_us=None, state=RunState.CLAIMED)
    ended = {"ended_us": now_us, "changed_us": now_us, "reason": "the job was deleted"}
    # What began once has not been skipped.
    waiting.exclude(last_end="").update(state=F("last_end"), **ended)
    waiting.update(state=RunState.SKIPPED, **ended)
    if row.elsewhere:
        # Nobody would hear of their end.
        JobRun.objects.filter(job=name, ended_us=None).update(state=RunState.CANCELLED, **ended)
    before = shown_settings(snapshot(row), secrecy_of(name))
    record(actor, "job.delete", row.subject, reason=reason, before=before)
    forget_secrets(row)
    FormerJob.objects.filter(name=name).delete()
    FormerJob.objects.create(name=name, version=row.version)
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
    if isinstance(changes.get("after"), str):
        changes = {**changes, "after": restored_after(actor, changes["after"], before["after"])}
    # Before it is asked what differs: a refusal that a change alone met would say that there is none.
    checks.reason(why.reason, required=False)
    wanted = checked_change(actor, row, changes, why)
    if wanted is None:
        already(row.subject, "is as you sent it", reason=why.reason)
        return row
    clean, owner, typed = wanted
    if typed or does_other_work(before, clean):
        row.acts_as = identity_of(actor)
    if clean["after"] != before["after"]:
        check_after(actor, row.name, clean["after"], before["after"], typed=why.action != RESTORED)
    if any(clean[field] != before[field] for field in WHEN) or (owner is None) != (row.team is None):
        tell_undecided(row, now_s())
    for field, value in clean.items():
        setattr(row, field, value)
    row.team = owner
    row.calendar_lines = lines_of(row.calendars.split(), lock=True)
    if snapshot(row) == before and not typed:
        return row
    save_version(actor, row, Why(why.action, checks.reason(why.reason, required=False)), before, typed=typed)
    return row


def _set_pause(actor: Actor, row: Job, paused: bool, reason: str) -> Job:
    before = snapshot(row)
    row.paused, row.pause_reason = paused, reason if paused else ""
    save_version(actor, row, Why("job.pause" if paused else "job.resume", reason), before)
    return row


def save_version(actor: Actor, row: Job, why: Why, before: Mapping[str, Any], *, typed: bool = False) -> None:
    """Make what the ``row`` is now its next version, audited. In the transaction that locked it.

    ``typed``: with a secret that somebody wrote out, which may be what it was.
    """
    row.version += 1
    row.save()
    keep_after(row)
    keep_tags(row)
    # A node that knows the version before decides nothing from here on.
    JobCursor.objects.filter(job=row.name).update(version=row.version)
    after = snapshot(row)
    was, shown = told_change(before, after, secrecy_of(row.name), typed=typed)
    entry = record(actor, why.action, row.subject, reason=why.reason, before=was, after=shown)
    JobVersion.objects.create(job=row, number=row.version, settings=after, audit_seq=entry.seq)


def told_change(
    before: Mapping[str, Any], after: Mapping[str, Any], secrecy: Secrecy, *, typed: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings before and after a change, as the audit log has them; ``secrecy`` is that of the versions so far,
    ``typed`` as for :func:`save_version`.
    """
    secrecy = secrecy.also(after)
    shown, was = shown_settings(after, secrecy), shown_settings(before, secrecy)
    hides = ("parameters", "parameters_schema", "options", "target")
    unseen = any(before[name] != after[name] and was[name] == shown[name] for name in hides)
    if typed or unseen or arguments_of(before) != arguments_of(after):
        shown["masked"] = "changed"
    return was, shown


def _first_version(name: str) -> int:
    """Behind the last of a job that had the name before."""
    former = FormerJob.objects.filter(name=name).values_list("version", flat=True).first() or 0
    # Of those that were deleted before this was kept, runs may tell.
    seen = JobRun.objects.filter(job=name).aggregate(most=Max("version"))["most"] or 0
    return max(former, seen) + 1
