"""The lists: jobs with their day, and the runs of all of them."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from engine.cron.slots.steps import RunState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view
from hbus_console.cluster.services import living
from hbus_console.jobs.drawing import DAY_S, DayLine, day, tone_of_run, took_us
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.recent import newest_runs
from hbus_console.jobs.services.draft import KIND_WORDS
from hbus_console.jobs.standing import PAGE, STATES, JobFilters, JobRow, found_jobs, job_rows, next_slots
from hbus_console.teams.services import team_names
from hbus_console.ui.pages import clock
from hbus_console.ui.rows import NOBODY, read_filters

#: Jobs in the picture of the day, and of each so many runs and slots to come.
MOST_LINES, MOST_RUNS, MOST_COMING = 12, 400, 100
#: Slots of a day are counted as far as this.
MOST_COUNTED = 10_000
#: Runs of one page.
MOST_LISTED = 100


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def jobs(request: HttpRequest) -> HttpResponse:
    who, wanted, now_ms = actor(request), read_filters(JobFilters, request.GET), clock.now_ms()
    found = found_jobs(who, wanted)
    cursor = request.GET.get("cursor", "")
    page = list(found.filter(name__gt=cursor)[: PAGE + 1] if cursor else found[: PAGE + 1])
    rows = job_rows(page[:PAGE], now_ms * 1_000)
    begin_s = _midnight_s(now_ms)
    slots = list(_seen(who).filter(slot__gte=begin_s, kind=JobRun.Kind.SCHEDULE)[: MOST_COUNTED + 1].values_list("pk"))
    context = {
        "nav": "jobs",
        "rows": rows,
        "next_cursor": page[PAGE - 1].name if len(page) > PAGE else "",
        "found": found.count(),
        "any": Job.objects.exists(),
        "wanted": wanted,
        "teams": team_names(),
        "nobody": NOBODY,
        "kinds": KIND_WORDS.items(),
        "states": STATES,
        "lines": _lines(rows, begin_s, now_ms * 1_000),
        "hours": [f"{hour:02}:00" for hour in range(0, 25, 3)],
        "slots": len(slots),
        "most_slots": MOST_COUNTED,
        "nodes": _nodes(),
        "may_edit": allows(who, JOB_EDIT, SOMEWHERE),
    }
    return render(request, "jobs/list.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def runs(request: HttpRequest) -> HttpResponse:
    who, now_us = actor(request), clock.now_ms() * 1_000
    wanted = {name: request.GET.get(name, "") for name in ("job", "state", "kind")}
    found = _seen(who).filter(**{name: value for name, value in wanted.items() if value})
    rows, more = page_of_runs(found, request.GET.get("cursor", ""))
    context = {
        "nav": "runs",
        "runs": told_runs(rows, now_us),
        "next_cursor": more,
        "wanted": wanted,
        "narrowed": any(wanted.values()),
        "states": [state.value for state in RunState],
        "kinds": JobRun.Kind.values,
    }
    return render(request, "jobs/runs.html", context)


def page_of_runs(found: QuerySet[JobRun], cursor: str) -> tuple[list[JobRun], str]:
    """A page of runs, the newest first, and the cursor of the next one."""
    slot, _, number = cursor.partition(".")
    if slot.isdecimal() and number.isdecimal():
        found = found.filter(Q(slot__lt=int(slot)) | Q(slot=int(slot), pk__lt=int(number)))
    rows = list(found.order_by("-slot", "-pk")[: MOST_LISTED + 1])
    last = rows[MOST_LISTED - 1] if len(rows) > MOST_LISTED else None
    return rows[:MOST_LISTED], f"{last.slot}.{last.pk}" if last else ""


def told_runs(rows: list[JobRun], now_us: int) -> list[dict[str, object]]:
    """What a row of a list shows of each."""
    return [
        {
            "run": run,
            "slot_ms": run.slot * 1_000,
            "tone": tone_of_run(run.state),
            "took_us": took_us(run, now_us),
            "late_us": None if run.begun_us is None else max(0, run.begun_us - run.slot * 1_000_000),
        }
        for run in rows
    ]


def _seen(who: Actor) -> QuerySet[JobRun]:
    return JobRun.objects.filter(namespace_q(who, "job"))


def _lines(rows: list[JobRow], begin_s: int, now_us: int) -> list[dict[str, object]]:
    """The day of the first jobs on the page."""
    shown = rows[:MOST_LINES]
    ran = newest_runs([row.job.name for row in shown], MOST_RUNS, begin_s)
    return [
        {
            "job": row.job.name,
            "drawn": day(DayLine(row.job.name, ran[row.job.name], _coming(row, begin_s, now_us)), begin_s, now_us),
        }
        for row in shown
    ]


def _coming(row: JobRow, begin_s: int, now_us: int) -> list[int]:
    if row.state != "on":
        return []
    found = next_slots(row.job, now_us // 1_000_000, MOST_COMING)
    return [slot.at for slot in found if slot.at < begin_s + DAY_S]


def _midnight_s(now_ms: int) -> int:
    """When the day began, in the zone of whoever looks."""
    now: datetime = timezone.localtime(datetime.fromtimestamp(now_ms / 1_000, tz=timezone.get_current_timezone()))
    return int(now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp())


def _nodes() -> int | None:
    """How many nodes decide slots; ``None`` while nobody can tell."""
    found, trouble = living()
    return None if trouble else sum(node.role == "cron" and not node.silent for node in found)
