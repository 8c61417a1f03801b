"""What moves: marks of the jobs whose runs or settings changed lately, or whose workers lost a lease, of ``runs``,
``jobs`` and the limits of ``tags`` as families, of the logs that grow (``log:RUN``) and of what runs tell of their
progress (``progress:RUN``). Beside them what bears no time of its change: ``followers``, who runs after whom, and
``calendars``; and ``tags`` again, for they count the runs of all jobs. ``soon`` changes with every minute: how long it
is until a slot is said to the minute.

A page of many jobs shows ``job``, which is any of them: that one was deleted, the audit log's marks tell.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from datetime import datetime, timedelta

from django.db.models import Count, Max, Q

from engine.core.clock import to_datetime
from engine.cron.subjects import job_subject
from hbus_console.access.permissions import GLOBAL, covers
from hbus_console.access.scopes import scopes_q
from hbus_console.jobs.holding import Leases, going_on, leases_of_numbers
from hbus_console.jobs.models import (
    JobAfter,
    JobCalendar,
    JobRun,
    JobTag,
    JobVersion,
    LogPiece,
    PingAddress,
    TagLimit,
)
from hbus_console.jobs.run_progress import RunProgress
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll
from hbus_console.wiring.spark import spark_standing

#: Runs whose leases are looked at, of all scopes together, those that began first.
MOST_LEASES = 2_000
#: How far back changes are looked for: some looks, so that none is missed where one comes late.
LATELY_MS = 10_000
#: Runs that changed last, among which the newest is looked for that one may see.
LATEST = 500


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """What changed lately in ``scopes``."""
    since_us = (now_ms - LATELY_MS) * 1_000
    marks: dict[str, Hashable] = {}
    for job, times in _changed(since_us, scopes).items():
        marks[str(job_subject(job))] = (max(times), len(times))
    without = {str(job_subject(job)): missing for job, missing in _without_lease(scopes).items()}
    if marks or without:
        # All of them: the token differs also when the last of the jobs stands still, or a slot is free again.
        marks["runs"] = frozenset([*marks.items(), *without.items()])
    for name, missing in without.items():
        marks[name] = (marks.get(name), missing)
    since = to_datetime(now_ms) - timedelta(milliseconds=LATELY_MS)
    numbers = _numbers(since, scopes)
    for job, number in numbers:
        name = str(job_subject(job))
        marks[name] = (marks.get(name), number)
    if numbers:
        marks["jobs"] = frozenset(numbers)
    # A ping that is refused, or comes beside the slots, need not change a run.
    heard = PingAddress.objects.filter(Q(heard_us__gte=since_us) | Q(refused_us__gte=since_us)).order_by()
    for job, *when in heard.values_list("job__name", "heard_us", "refused_us"):
        if _sees(scopes, job):
            name = str(job_subject(job))
            marks[name] = (marks.get(name), *when)
    limited = dict(TagLimit.objects.filter(updated_at__gte=since).values_list("tag", "most_at_once"))
    if limits := frozenset((tag, limited[tag]) for tag in _seen_tags(limited, scopes)):
        marks["tags"] = limits
    moved = RunProgress.objects.filter(at_us__gte=since_us).order_by("-at_us")
    told = dict(moved.values_list("run", "at_us"))
    growing = _growing(since_us)
    # They lie in another database than what says whose they are.
    asked = JobRun.objects.filter(pk__in={*growing, *told}).order_by() if growing or told else JobRun.objects.none()
    for run, job in asked.values_list("pk", "job"):
        if _sees(scopes, job):
            marks |= {f"log:{run}": growing[run]} if run in growing else {}
            marks |= {f"progress:{run}": told[run]} if run in told else {}
    return LiveCells(marks=marks)


def _without_lease(scopes: tuple[str, ...]) -> dict[str, Hashable]:
    """By job the runs whose leases are over, or of whose leases nobody can tell: no row moves then."""
    jobs, leases = once_a_poll(_leases)
    found: dict[str, set[int | str]] = {}
    for run in leases.asked if leases.trouble else leases.over:
        if _sees(scopes, jobs[run]):
            found.setdefault(jobs[run], {leases.trouble}).add(run)
    return {job: frozenset(missing) for job, missing in found.items()}


def _leases() -> tuple[dict[int, str], Leases]:
    """The runs that go on, with their jobs, and their leases."""
    rows = going_on(JobRun.objects.all()).order_by("begun_us").values_list("pk", "job")
    jobs = dict(rows[:MOST_LEASES])
    return jobs, leases_of_numbers(list(jobs))


def _sees(scopes: tuple[str, ...], job: str) -> bool:
    return any(covers(scope, job) for scope in scopes)


# These three are grouped, and narrowed to the scopes, here and not by the database: SQLite would walk the index that
# groups, or the one that narrows, over all rows there are, instead of the one that tells what is new.
def _changed(since_us: int, scopes: tuple[str, ...]) -> dict[str, list[int]]:
    """When each run of a job changed that did, by the job."""
    found: dict[str, list[int]] = {}
    runs = JobRun.objects.filter(changed_us__gte=since_us).order_by("-changed_us")
    for job, at_us in runs.values_list("job", "changed_us"):
        found.setdefault(job, []).append(at_us)
    return {job: times for job, times in found.items() if _sees(scopes, job)}


def _numbers(since: datetime, scopes: tuple[str, ...]) -> list[tuple[str, int]]:
    """The newest version of each job that has one of late."""
    found: dict[str, int] = {}
    versions = JobVersion.objects.filter(made_at__gte=since).order_by("-made_at")
    for job, number in versions.values_list("job__name", "number"):
        found[job] = max(number, found.get(job, 0))
    return [(job, number) for job, number in found.items() if _sees(scopes, job)]


def _growing(since_us: int) -> dict[int, int]:
    """The last piece of each log that grows."""
    found: dict[int, int] = {}
    pieces = LogPiece.objects.filter(at_us__gte=since_us).order_by("-at_us")
    for run, seq in pieces.values_list("run", "seq"):
        found[run] = max(seq, found.get(run, 0))
    return found


def _seen_tags(tags: Collection[str], scopes: tuple[str, ...]) -> Iterable[str]:
    """Those of a job in ``scopes``; of who sees all also those that no job has."""
    if GLOBAL in scopes or not tags:
        return tags
    return JobTag.objects.filter(scopes_q(scopes, "job__name"), tag__in=tags).values_list("tag", flat=True)


def kept(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Who runs after whom, the calendars, the last change of any run that one may see, and how Spark stands.

    Of the first two all, also where one may not see the job: the pages count them.
    """
    # Whoever saves a job makes its rows anew, so the greatest number tells of a change, and how many of an end.
    followers = JobAfter.objects.aggregate(Count("pk"), Max("pk"))
    calendars = frozenset(JobCalendar.objects.values_list("name", "version"))
    # Only so many are looked at: whose runs lie further back is told once that they do.
    changed = JobRun.objects.order_by("-changed_us").values_list("job", "changed_us")
    latest = changed[: 1 if GLOBAL in scopes else LATEST]
    newest = next((at_us for job, at_us in latest if _sees(scopes, job)), None)
    marks = {"followers": tuple(followers.values()), "calendars": calendars, "tags": newest, "soon": now_ms // 60_000}
    return LiveCells(texts={"spark/kind": once_a_poll(spark_standing)}, marks=marks)
