"""The lists: jobs with their day, and the runs of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from engine.cron.slots.steps import OPEN, RunState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view
from hbus_console.cluster.services import living
from hbus_console.jobs.busy import saturation
from hbus_console.jobs.drawing import TOUCHING, DayLine, day, tone_of_run
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.known import coming
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.narrowing import before, narrowed
from hbus_console.jobs.recent import newest_runs
from hbus_console.jobs.services.draft import KIND_WORDS
from hbus_console.jobs.services.tags import seen_tags
from hbus_console.jobs.standing import BY_RUNS, PAGE, STATES, JobFilters, JobRow, RunFilters, found_jobs, job_rows
from hbus_console.jobs.told_runs import told_runs
from hbus_console.jobs.wall import WallDay, day_of
from hbus_console.nodes.stamps import of_role
from hbus_console.teams.services import team_names
from hbus_console.ui import formats
from hbus_console.ui.pages import clock
from hbus_console.ui.rows import NOBODY, owned, read_filters

#: Jobs in the picture of the day, of each so many runs, and of its slots to come one in so many seconds.
MOST_LINES, MOST_RUNS, APART_S = 12, 400, 900
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
    page, number = _page(found, cursor, by_runs=wanted.state in BY_RUNS)
    rows = job_rows(page[:PAGE], now_ms * 1_000)
    today = day_of(now_ms, timezone.get_current_timezone())
    drawn = _most_to_tell(rows, today)
    context = {
        "nav": "jobs",
        "rows": rows,
        "next_cursor": page[PAGE - 1].name if len(page) > PAGE else "",
        "found": number,
        "any": Job.objects.filter(namespace_q(who, "name")).exists(),
        "wanted": wanted,
        "teams": team_names(),
        "nobody": NOBODY,
        "kinds": KIND_WORDS.items(),
        "states": STATES,
        "tags": seen_tags(who),
        "lines": _lines(drawn, today, now_ms * 1_000),
        "axis": today.axis(now_ms // 1_000),
        "today": _today(who, today),
        "nodes": _nodes(),
        "saturation": saturation(who),
        "may_edit": allows(who, JOB_EDIT, SOMEWHERE),
    }
    return render(request, "jobs/list.html", context)


def _page(found: QuerySet[Job], cursor: str, *, by_runs: bool) -> tuple[list[Job], int]:
    """Those behind ``cursor``, one more than a page has, and how many there are of all.

    ``by_runs``: the runs of each job say whether it is one. They are asked once, and not for the number again.
    """
    if not by_runs:
        return list(found.filter(name__gt=cursor)[: PAGE + 1] if cursor else found[: PAGE + 1]), found.count()
    names = list(found.values_list("name", flat=True))
    if cursor and cursor not in names:
        # It is none of them any more. Where its place was the database alone knows: it orders them.
        return list(found.filter(name__gt=cursor)[: PAGE + 1]), len(names)
    first = names.index(cursor) + 1 if cursor else 0
    rows = Job.objects.select_related("team").filter(name__in=names[first : first + PAGE + 1])
    return list(rows.order_by("name")), len(names)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def runs(request: HttpRequest) -> HttpResponse:
    who, now_us = actor(request), clock.now_ms() * 1_000
    wanted = read_filters(RunFilters, request.GET)
    found = narrowed(_seen(who), job=wanted.job, state=wanted.state, kind=wanted.kind)
    if wanted.owner:
        found = found.filter(job__in=list(owned(Job.objects.all(), wanted.owner).values_list("name", flat=True)))
    rows, more = page_of_runs(found, request.GET.get("cursor", ""))
    context = {
        "nav": "runs",
        "runs": told_runs(who, rows, now_us),
        "next_cursor": more,
        "wanted": wanted,
        "states": [state.value for state in RunState],
        "kinds": JobRun.Kind.values,
        "teams": team_names(),
        "nobody": NOBODY,
    }
    return render(request, "jobs/runs.html", context)


def page_of_runs(found: QuerySet[JobRun], cursor: str) -> tuple[list[JobRun], str]:
    """A page of runs, the newest first, and the cursor of the next one."""
    slot, _, number = cursor.partition(".")
    if slot.isdecimal() and number.isdecimal():
        found = found.filter(before(int(slot), int(number)))
    rows = list(found.order_by("-slot", "-pk")[: MOST_LISTED + 1])
    last = rows[MOST_LISTED - 1] if len(rows) > MOST_LISTED else None
    return rows[:MOST_LISTED], f"{last.slot}.{last.pk}" if last else ""


def _seen(who: Actor) -> QuerySet[JobRun]:
    return JobRun.objects.filter(namespace_q(who, "job"))


def _today(who: Actor, today: WallDay) -> dict[str, object]:
    """What became of the slots of today: how many there were, and how many of them are not over."""
    found = _seen(who).filter(slot__gte=today.begin_s, kind=JobRun.Kind.SCHEDULE)
    rows = found.order_by("-slot", "-pk").values_list("job", "slot", "state")[: MOST_COUNTED + 1]
    # Of a divided slot there is a row for each part.
    slots = {(job, slot) for job, slot, _ in rows}
    not_over = {(job, slot) for job, slot, state in rows if state in OPEN}
    return {"slots": min(len(slots), MOST_COUNTED), "more": len(rows) > MOST_COUNTED, "open": len(not_over)}


def _most_to_tell(rows: list[JobRow], today: WallDay) -> list[JobRow]:
    """Of the jobs on the page those whose day is worth a line: trouble first, then work; in the order of the page."""

    def told(row: JobRow) -> tuple[int, int, int]:
        states = [tone_of_run(run.state) for run in row.runs if run.slot >= today.begin_s]
        comes = row.coming is not None and row.next is not None and row.next.at < today.end_s
        return states.count("bad") + states.count("warn"), len(states), comes

    ranked = sorted(rows, key=told, reverse=True)[:MOST_LINES]
    chosen = {row.job.name for row in ranked if any(told(row))}
    return [row for row in rows if row.job.name in chosen]


def _lines(rows: list[JobRow], today: WallDay, now_us: int) -> list[dict[str, object]]:
    ran = newest_runs([row.job.name for row in rows], MOST_RUNS, today.begin_s)
    return [
        {"job": row.job.name, "drawn": day(_line(row, ran[row.job.name], today), today.begin_s, now_us)} for row in rows
    ]


def _line(row: JobRow, ran: Sequence[JobRun], today: WallDay) -> DayLine:
    cut = len(ran) == MOST_RUNS
    said = f"{'the last ' if cut else ''}{formats.counted(len(ran), 'run')} today"
    failed = sum(tone_of_run(run.state) == "bad" for run in ran)
    said += f", {formats.num(failed)} failed" if failed else ""
    said += f"; the next at {row.coming.short}" if row.coming else ""
    cut_s = ran[-1].slot if cut else 0
    comes, often = _coming(row, today)
    return DayLine(row.job.name, ran, comes, today.span_s, cut_s, row.over, said, often=often)


def _coming(row: JobRow, today: WallDay) -> tuple[list[int], set[int]]:
    """Slots to come today, so far apart that each is seen: of one a second that is one in a thousand. And after which
    of them others come so soon that the picture has no gap for them.
    """
    found: list[int] = []
    often: set[int] = set()
    slot = row.next if row.coming else None
    while slot is not None and slot.at < today.end_s:
        found.append(slot.at)
        soon = next(coming(row.job, slot.at), None)
        if soon is not None and soon.at - slot.at < TOUCHING * today.span_s:
            often.add(slot.at)
        slot = next(coming(row.job, slot.at + APART_S - 1), None)
    return found, often


def _nodes() -> int | None:
    """How many nodes decide slots; ``None`` while nobody can tell."""
    found, trouble = living()
    return None if trouble else len(of_role(found, "cron"))
