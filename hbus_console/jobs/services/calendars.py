"""Calendars that jobs share: made, changed with every job that has them, and deleted once none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction

from engine.core.errors import BadInput, Conflict, NotThere
from engine.cron.exclusions import compile_exclusions
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.already import already
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.faults import GatheredFaults
from hbus_console.jobs.calendars import check_calendar, users_among, users_of
from hbus_console.jobs.feature import JOB_CALENDAR
from hbus_console.jobs.models import Job, JobCalendar
from hbus_console.jobs.opening import lock_cursors
from hbus_console.jobs.services.carrying import Carried, carried, write
from hbus_console.jobs.services.jobs import Why
from hbus_console.ui.formats import counted, listed

#: Characters of its lines, as of a job's own, and of what it is for.
MOST_TEXT, MOST_DESCRIPTION = 20_000, 500
#: Jobs that a refusal names.
_NAMED = 5


@dataclass(frozen=True)
class CalendarStanding:
    """A calendar and the jobs that have it, as far as one may see them."""

    row: JobCalendar
    jobs: list[Job]

    @property
    def entries(self) -> list[str]:
        """Its lines."""
        return self.row.lines.splitlines()


class CalendarChange(NamedTuple):
    """A calendar as it is from now on, and how many jobs were changed with it."""

    row: JobCalendar
    jobs: int


@transaction.atomic
def create_calendar(actor: Actor, name: str, lines: str, reason: str, *, description: str = "") -> JobCalendar:
    """Make one that no job has yet.

    Raises ``Forbidden``, ``BadInput`` naming each field at fault, and ``Conflict`` when the name is taken.
    """
    require(actor, JOB_CALENDAR)
    faults = GatheredFaults()
    with faults.gathered():
        check_calendar(name)
        if JobCalendar.objects.filter(name=name).exists():
            raise Conflict(f"There is already a calendar {name}.", remedy="Choose another name.", field="name")
    clean = _checked(faults, lines, description, reason)
    made = JobCalendar(name=name, **clean)
    made.save(force_insert=True)
    record(actor, "job.calendar_create", made.subject, reason=checks.reason(reason), after=_settings(made))
    return made


def change_calendar(
    actor: Actor, name: str, lines: str, reason: str, *, description: str = "", version: int | None = None
) -> CalendarChange:
    """Change it, and with it each job that has it, which makes a version of that; what was decided stays.

    Raises ``Forbidden``, ``NotThere``, ``BadInput`` naming each field at fault, also where it would leave a job no
    slot, and ``Outdated`` where ``version`` is not the one that it has.
    """
    require(actor, JOB_CALENDAR)
    clean, reason = _checked(GatheredFaults(), lines, description, reason), reason.strip()
    row = calendar(name)
    require_current(version, row.version, name, row.subject)
    ready = carried(_whole(users_of(name)), name, clean["lines"])
    with transaction.atomic():
        # As whoever changes a job locks the two.
        jobs = _locked_users(name)
        row = calendar(name, lock=True)
        require_current(version, row.version, name, row.subject)
        before = _settings(row)
        if before == clean:
            already(row.subject, "is as you sent it", reason=reason)
            return CalendarChange(row, 0)
        row.lines, row.description = clean["lines"], clean["description"]
        row.version += 1
        row.save()
        changed: list[Carried] = []
        if before["lines"] != clean["lines"]:
            jobs += _locked_users(name, but=jobs)
            ready = carried(jobs, name, clean["lines"], ready)
            changed = [ready[job.pk] for job in jobs if job.pk in ready]
        lock_cursors([each.job.name for each in changed])
        # Behind all jobs and cursors: who changes one of them, or ends its run, locks that before the audit log.
        record(actor, "job.calendar_change", row.subject, reason=reason, before=before, after=clean)
        write(actor, changed, Why("job.calendar", f"the calendar {name}: {reason}"[:300]))
        return CalendarChange(row, len(changed))


@transaction.atomic
def delete_calendar(actor: Actor, name: str, typed_name: str, reason: str) -> None:
    """Delete one that no job has. Raises ``Conflict`` naming the jobs, ``Forbidden``, ``NotThere``, ``BadInput``."""
    require(actor, JOB_CALENDAR)
    row = calendar(name, lock=True)
    reason = checks.reason(reason)
    checks.typed(typed_name, name)
    if jobs := users_of(name):
        named = [job.name for job in jobs[:_NAMED]]
        more = [f"{len(jobs) - _NAMED:,} more"] if len(jobs) > _NAMED else []
        raise Conflict(f"{listed([*named, *more])} leave out its days.", remedy="Take it from these jobs first.")
    record(actor, "job.calendar_delete", row.subject, reason=reason, before=_settings(row))
    row.delete()


def calendar(name: str, *, lock: bool = False) -> JobCalendar:
    """The calendar, locked for change on request; raises ``NotThere``."""
    rows = JobCalendar.objects.select_for_update() if lock else JobCalendar.objects
    found = rows.filter(name=name).first()
    if found is None:
        raise NotThere(f"There is no calendar {name!r}.", remedy="Make it first.", field="calendar")
    return found


def standing_calendars(who: Actor) -> list[CalendarStanding]:
    """All calendars, with the jobs that ``who`` may see of those that have them."""
    found: dict[str, list[Job]] = {}
    rows = Job.objects.filter(namespace_q(who, "name")).exclude(calendars="").order_by("name")
    for job in rows.only("name", "schedule", "zone", "calendars"):
        for name in job.calendars.split():
            found.setdefault(name, []).append(job)
    return [CalendarStanding(row, found.get(row.name, [])) for row in JobCalendar.objects.all()]


def standing_calendar(who: Actor, row: JobCalendar) -> CalendarStanding:
    """One of them."""
    seen = Job.objects.filter(namespace_q(who, "name"), calendars__contains=row.name)
    return CalendarStanding(row, users_among(seen, row.name))


def words_of_change(change: CalendarChange) -> str:
    """What a change of one led to."""
    led_to = f"and with it {counted(change.jobs, 'job')}" if change.jobs else "and no job with it"
    return f"Calendar {change.row.name} is changed, {led_to}."


def _locked_users(name: str, but: list[Job] | None = None) -> list[Job]:
    known = {job.pk for job in but or ()}
    return _whole([job for job in users_of(name) if job.pk not in known], lock=True)


def _whole(jobs: list[Job], *, lock: bool = False) -> list[Job]:
    """All that these have, as it is now."""
    rows = Job.objects.select_related("team").filter(pk__in=[job.pk for job in jobs]).order_by("name")
    return list(rows.select_for_update(of=("self",)) if lock else rows)


def _checked(faults: GatheredFaults, lines: str, description: str, reason: str) -> dict[str, Any]:
    """What of it is kept, cleaned. Raises all that does not fit, behind the ``faults`` that were found before."""
    clean: dict[str, Any] = {}
    with faults.gathered():
        clean["lines"] = checks.text(lines, "lines", most=MOST_TEXT, required=True, lines=True)
        try:
            compile_exclusions(clean["lines"])
        except BadInput as error:
            raise BadInput(error.what, remedy=error.remedy, field="lines") from error
    with faults.gathered():
        clean["description"] = checks.text(description, "description", most=MOST_DESCRIPTION)
    with faults.gathered():
        checks.reason(reason)
    faults.tell()
    return clean


def _settings(row: JobCalendar) -> dict[str, Any]:
    return {"lines": row.lines, "description": row.description}
