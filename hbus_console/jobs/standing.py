"""How jobs stand: their last runs, the next one, and what is worth saying of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from django.db.models import Q, QuerySet
from django.utils.safestring import SafeString

from engine.core.errors import HbusError
from engine.cron.expression import Slot
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.jobs.drawing import STRIP, strip, took_us
from hbus_console.jobs.known import schedule_of
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.recent import newest_runs
from hbus_console.ui import formats
from hbus_console.ui.rows import Filters, owned

#: Rows of one page.
PAGE = 50
#: What the list can be narrowed to.
STATES = ("on", "paused", "ownerless")
_TROUBLE = {
    RunState.FAILED: "bad",
    RunState.LOST: "bad",
    RunState.ABANDONED: "bad",
    RunState.SKIPPED: "warn",
    RunState.CANCELLED: "warn",
}


@dataclass(frozen=True)
class JobFilters(Filters):
    """What the list of jobs is narrowed to."""

    kind: str = ""


@dataclass(frozen=True)
class JobRow:
    """A job and how it stands."""

    job: Job
    runs: Sequence[JobRun]
    next: Slot | None
    #: Why its schedule cannot be read, if it cannot.
    unreadable: str
    now_us: int

    @property
    def strip(self) -> SafeString:
        return strip(self.runs, self.now_us)

    @property
    def state(self) -> str:
        """The word for it."""
        if self.unreadable:
            return "unreadable"
        if self.job.paused:
            return "paused"
        return "ownerless" if self.job.team_id is None else "on"

    @property
    def next_us(self) -> int | None:
        """How long until the next slot."""
        return None if self.next is None else max(0, self.next.at * 1_000_000 - self.now_us)

    @property
    def usual_us(self) -> int | None:
        """The median of what was done."""
        done = [took for run in self.runs if run.state == RunState.DONE and (took := took_us(run, self.now_us))]
        return round(median(done)) if done else None

    @property
    def said(self) -> tuple[str, str, str]:
        """What is worth saying, its tone, and the whole of it; empty where nothing is."""
        if self.unreadable:
            return "its schedule cannot be read", "bad", self.unreadable
        if self.job.paused:
            return "paused", "warn", self.job.pause_reason
        if self.job.team_id is None:
            return "nobody owns it: its slots are skipped", "bad", ""
        newest = next((run for run in self.runs if run.ended_us is not None), None)
        if newest is None or RunState(newest.state) not in _TROUBLE:
            return "", "", ""
        told = f"{formats.clock(newest.slot * 1000)[:5]} {newest.state}"
        return told, _TROUBLE[RunState(newest.state)], newest.reason


def found_jobs(who: Actor, wanted: JobFilters) -> QuerySet[Job]:
    """The jobs that ``who`` may see and the filters fit, by name."""
    rows = owned(Job.objects.filter(namespace_q(who, "name")).select_related("team"), wanted.owner)
    if wanted.q:
        rows = rows.filter(Q(name__icontains=wanted.q) | Q(description__icontains=wanted.q))
    if wanted.kind:
        rows = rows.filter(kind=wanted.kind)
    match wanted.state:
        case "paused":
            rows = rows.filter(paused=True)
        case "ownerless":
            rows = rows.filter(team=None)
        case "on":
            rows = rows.filter(paused=False).exclude(team=None)
    return rows.order_by("name")


def job_rows(jobs: Sequence[Job], now_us: int) -> list[JobRow]:
    """How they stand: one question for the runs of all of them."""
    runs = newest_runs([job.name for job in jobs], STRIP)
    return [_row(job, runs[job.name], now_us) for job in jobs]


def _row(job: Job, runs: Sequence[JobRun], now_us: int) -> JobRow:
    try:
        following = next(iter(schedule_of(job).slots(now_us // 1_000_000)), None)
    except HbusError as error:
        return JobRow(job, runs, None, error.what, now_us)
    return JobRow(job, runs, following, "", now_us)


def next_slots(job: Job, now_s: int, most: int) -> list[Slot]:
    """The slots to come; none of a schedule that cannot be read."""
    try:
        return list(islice(schedule_of(job).slots(now_s), most))
    except HbusError:
        return []
