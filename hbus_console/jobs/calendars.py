"""Calendars of jobs: days that several of them leave out together, kept once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import QuerySet

from engine.core.errors import BadInput
from hbus_console.jobs.models import Job, JobCalendar
from hbus_console.jobs.tags import check_word

#: Calendars of one job.
MOST_CALENDARS = 10


def read_calendars(text: str) -> list[str]:
    """The names in ``holidays-pt freezes``, in order. Raises ``BadInput`` naming the one that is none."""
    found = sorted(set(text.replace(",", " ").split()))
    for name in found:
        check_calendar(name, "calendars")
    if len(found) > MOST_CALENDARS:
        raise BadInput(
            f"These are {len(found)} calendars.", remedy=f"A job has {MOST_CALENDARS} at most.", field="calendars"
        )
    return found


def check_calendar(name: str, field: str = "name") -> str:
    """Raises ``BadInput`` for what is no name of a calendar."""
    return check_word(name, "name of a calendar", field)


def left_out(own: str, calendars: str) -> str:
    """All lines that a job leaves out: its ``own``, and those of its calendars."""
    return "\n".join(text for text in (own, calendars) if text)


def lines_of(names: Iterable[str], *, lock: bool = False) -> str:
    """What these calendars say now, each line with the name of its own. Raises ``BadInput`` where one is not there.

    With ``lock`` nobody else changes them before the transaction is over.
    """
    wanted = list(names)
    rows = JobCalendar.objects.filter(name__in=wanted).order_by("name")
    return lines_among({row.name: row.lines for row in (rows.select_for_update() if lock else rows)}, wanted)


def lines_among(found: Mapping[str, str], wanted: Sequence[str]) -> str:
    """Likewise, out of the lines of calendars that were ``found``."""
    if missing := [name for name in wanted if name not in found]:
        raise BadInput(
            f"There is no calendar {missing[0]}.", remedy="Make it first, or correct its name.", field="calendars"
        )
    return "\n".join(named(name, found[name]) for name in wanted)


def named(name: str, lines: str) -> str:
    """The lines of a calendar as a job holds them: what follows the days is said of the slots that they skip."""
    return "\n".join(f"{line.strip()} ({name})" for line in lines.splitlines() if line.strip())


def users_of(name: str) -> list[Job]:
    """The jobs that leave out what this calendar says, by name."""
    return users_among(Job.objects.filter(calendars__contains=name), name)


def users_among(rows: QuerySet[Job], name: str) -> list[Job]:
    """Those of ``rows`` that do, by name, with no more than tells which they are and when they run."""
    told = rows.only("name", "schedule", "zone", "calendars").order_by("name")
    return [row for row in told if name in row.calendars.split()]
