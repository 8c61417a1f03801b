"""How jobs stand: their last runs, the next one, and what is worth saying of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, When
from django.utils.safestring import SafeString

from engine.core.errors import HbusError
from engine.cron.expression import Slot
from engine.cron.slots.overlap import RUNS
from engine.cron.slots.steps import RunState
from engine.cron.slots.watching import NO_PING
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.drawing import OVER, OVER_TONE, STRIP, strip, tone_of_run
from hbus_console.jobs.holding import leases_of
from hbus_console.jobs.known import coming
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.recent import newest_runs
from hbus_console.jobs.wall import SlotOnWall, short_wall, told_slot
from hbus_console.ui.rows import Filters, owned

#: Rows of one page.
PAGE = 50
#: What the list can be narrowed to.
STATES = ("on", "failing", "paused", "ownerless")
#: Of these, what the runs of a job say.
BY_RUNS = ("on", "failing")
_TROUBLE = {state: tone for state in RunState if (tone := tone_of_run(state)) in ("warn", "bad")}
_FAILED = frozenset(state for state, tone in _TROUBLE.items() if tone == "bad")
#: Reasons in the word that a row of the list has room for; another that is short stands as it is.
_WORDS = {RUNS: "overlap"}
_ROOM = 26


@dataclass(frozen=True)
class JobFilters(Filters):
    """What the list of jobs is narrowed to."""

    kind: str = ""
    tag: str = ""


@dataclass(frozen=True)
class RunFilters(Filters):
    """What the list of all runs is narrowed to."""

    job: str = ""
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
    #: Who paused it, if it is.
    paused_by: str = ""
    #: Of its runs those whose leases are over.
    over: frozenset[int] = frozenset()

    @property
    def city(self) -> str:
        """The last of its zone's name: ``Sao Paulo``."""
        return self.job.zone.rpartition("/")[2].replace("_", " ")

    @property
    def strip(self) -> SafeString:
        return strip(self.runs, self.now_us, self.over)

    @property
    def state(self) -> str:
        """The word for it."""
        if self.unreadable:
            return "unreadable"
        if self.job.paused:
            return "paused"
        if self.job.team_id is None:
            return "ownerless"
        return "failing" if self.ended and RunState(self.ended.state) in _FAILED else "on"

    @property
    def ended(self) -> JobRun | None:
        """Of the runs that are over the newest."""
        return next((run for run in self.runs if run.ended_us is not None), None)

    @property
    def coming(self) -> SlotOnWall | None:
        """The next slot that would run."""
        return None if self.next is None or self.job.held else told_slot(self.next, self.now_us)

    @property
    def usual_us(self) -> int | None:
        """The median of what was done."""
        done = [took for run in self.runs if run.state == RunState.DONE and (took := run.took_us(self.now_us))]
        return round(median(done)) if done else None

    @property
    def said(self) -> tuple[str, str, str]:
        """What is worth saying, its tone, and the whole of it; empty where nothing is."""
        if self.unreadable:
            return "its schedule cannot be read", "bad", self.unreadable
        if self.job.paused:
            return f"paused by {self.paused_by}" if self.paused_by else "paused", "warn", self.job.pause_reason
        if self.job.team_id is None:
            return "ownerless: its slots are skipped", "bad", ""
        if run := next((run for run in self.runs if run.pk in self.over), None):
            return f"{short_wall(run.slot, self.job.zone, self.now_us)} {run.state}, {OVER}", OVER_TONE, ""
        run = self.ended
        if run is None or RunState(run.state) not in _TROUBLE:
            return "", "", ""
        why = "no ping" if run.reason.startswith(NO_PING) else _WORDS.get(run.reason, run.reason)
        told = f"{short_wall(run.slot, self.job.zone, self.now_us)} {run.state}"
        return f"{told}, {why}" if 0 < len(why) <= _ROOM else told, _TROUBLE[RunState(run.state)], run.reason


def found_jobs(who: Actor, wanted: JobFilters) -> QuerySet[Job]:
    """The jobs that ``who`` may see and the filters fit, by name."""
    rows = owned(Job.objects.filter(namespace_q(who, "name")).select_related("team"), wanted.owner)
    if wanted.q:
        rows = rows.filter(Q(name__icontains=wanted.q) | Q(description__icontains=wanted.q))
    if wanted.kind:
        rows = rows.filter(kind=wanted.kind)
    if wanted.tag:
        rows = rows.filter(tagged__tag=wanted.tag)
    match wanted.state:
        case "paused":
            rows = rows.filter(paused=True)
        case "ownerless":
            rows = rows.filter(team=None)
        case "on":
            rows = rows.filter(paused=False).exclude(team=None).exclude(name__in=_failing(rows))
        case "failing":
            rows = rows.filter(paused=False, name__in=_failing(rows)).exclude(team=None)
    return rows.order_by("name")


def _failing(jobs: QuerySet[Job]) -> QuerySet[Job, str]:
    """The names of those whose newest run that is over did not do what it should: one look at an index for each."""
    # Of the parts of a slot one that failed stands for it.
    failed_first = Case(When(state__in=_FAILED, then=0), default=1)
    newest = JobRun.objects.filter(job=OuterRef("name"), ended_us__isnull=False).order_by("-slot", failed_first, "-pk")
    last = jobs.order_by().annotate(last_state=Subquery(newest.values("state")[:1]))
    return last.filter(last_state__in=_FAILED).values_list("name", flat=True)


def job_rows(jobs: Sequence[Job], now_us: int) -> list[JobRow]:
    """How they stand: one question for the runs of all of them, one for who paused those that are, one to the store."""
    runs = newest_runs([job.name for job in jobs], STRIP)
    paused = _paused_by([job for job in jobs if job.paused])
    over = leases_of(run for some in runs.values() for run in some).over
    return [_row(job, runs[job.name], now_us, paused.get(job.name, ""), over) for job in jobs]


def _paused_by(jobs: Sequence[Job]) -> dict[str, str]:
    """Who paused each, by its name."""
    if not jobs:
        return {}
    entries = AuditEntry.objects.filter(action="job.pause", namespace__in=[job.name for job in jobs])
    return dict(entries.order_by("seq").values_list("namespace", "actor"))


def _row(job: Job, runs: Sequence[JobRun], now_us: int, paused_by: str, over: frozenset[int]) -> JobRow:
    try:
        following = next(coming(job, now_us // 1_000_000), None)
    except HbusError as error:
        return JobRow(job, runs, None, error.what, now_us, paused_by, over)
    return JobRow(job, runs, following, "", now_us, paused_by, over)


def next_slots(job: Job, now_s: int, most: int) -> list[Slot]:
    """The slots to come; none of a schedule that cannot be read."""
    try:
        return list(islice(coming(job, now_s), most))
    except HbusError:
        return []
