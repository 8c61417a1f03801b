"""What pages look at every two seconds, alerts every ten, and lists each time, costs as much among many runs as among
few: each question takes the index that finds."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.core.clock import to_datetime
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs import live
from hbus_console.jobs.alerts import FailuresInARow
from hbus_console.jobs.models import Job, JobRun, JobTag, JobVersion, LogPiece, TagLimit
from hbus_console.jobs.narrowing import before, narrowed
from hbus_console.jobs.services.tags import standing_tags
from hbus_console.jobs.tags import full_tags, next_of_tags
from hbus_console.jobs.views.nodes import MOST_MARKERS
from hbus_console.teams.models import Team
from tests.costs import database_work
from tests.plans import measured, plans

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

#: All of it lies this long back, but for what a test says.
NOW_MS = 1_800_000_000_000
NOW_S, NOW_US = NOW_MS // 1_000, NOW_MS * 1_000
JOBS, RUNS = 200, 10_000
AGO_S = 86_400


def run(number: int, **more: object) -> JobRun:
    slot = NOW_S - AGO_S - (RUNS - number) // JOBS * 60
    at_us = slot * 1_000_000
    told = {"state": "done", "decided_us": at_us, "begun_us": at_us, "ended_us": at_us, "changed_us": at_us}
    return JobRun(**{"job": f"ops.job-{number % JOBS:03}", "version": 1, "slot": slot, **told, **more})


@pytest.fixture
def filled() -> None:
    team = Team.objects.create(name="ops", contact="#ops")
    jobs = Job.objects.bulk_create(
        Job(name=f"ops.job-{number:03}", team=team, schedule="* * * * *", kind="command", target="true", tags="nightly")
        for number in range(JOBS)
    )
    JobTag.objects.bulk_create(JobTag(job=job, tag="nightly") for job in jobs)
    JobRun.objects.bulk_create((run(number) for number in range(RUNS)), batch_size=500)
    versions = JobVersion.objects.bulk_create(
        (JobVersion(job=job, number=number, settings={}, audit_seq=1) for job in jobs for number in range(1, 21)),
        batch_size=500,
    )
    JobVersion.objects.filter(pk__in=[each.pk for each in versions]).update(made_at=to_datetime(NOW_MS - AGO_S * 1_000))
    LogPiece.objects.bulk_create(
        (
            LogPiece(run=1 + number // 10, seq=number % 10, attempt=1, at_us=NOW_US - AGO_S * 1_000_000, text="x")
            for number in range(4_000)
        ),
        batch_size=500,
    )
    measured("default", "ledger")


EVERYTHING, NAMESPACE, ONE = ("*",), ("ops.*",), ("ops.job-007",)
NEWEST = ("-slot", "-pk")


def looked_again() -> None:
    failures = FailuresInARow()
    failures._looked_ms = NOW_MS
    failures.read(NOW_MS)


def page(**wanted: str) -> Callable[[], object]:
    return lambda: list(narrowed(JobRun.objects.all(), **wanted).order_by(*NEWEST)[:101])


def page_of_api(**wanted: str) -> Callable[[], object]:
    return lambda: list(narrowed(JobRun.objects.all(), **wanted).order_by("-pk")[:51])


def markers() -> None:
    list(JobRun.objects.filter(kind="schedule").order_by(*NEWEST)[:MOST_MARKERS])


def page_after() -> None:
    slot = NOW_S - AGO_S - RUNS // JOBS // 2 * 60
    assert len(JobRun.objects.filter(before(slot, 2**40)).order_by(*NEWEST)[:101]) == 101


#: By what changed, and by those that go on, whose leases are looked at.
LOOK = "run_changed|job_run_open"
#: What is asked, and by which indexes the runs are found that it is about.
ASKED: dict[str, tuple[Callable[[], object], str]] = {
    "a look of who sees everything": (lambda: live.cells(NOW_MS, EVERYTHING), LOOK),
    "a look of who sees a namespace": (lambda: live.cells(NOW_MS, NAMESPACE), LOOK),
    "a look of who sees one job": (lambda: live.cells(NOW_MS, ONE), LOOK),
    "the last change that everybody sees": (lambda: live.kept(NOW_MS, EVERYTHING), "run_changed"),
    "the last change that one sees": (lambda: live.kept(NOW_MS, NAMESPACE), "run_changed"),
    "failures in a row, again": (looked_again, "run_changed"),
    "the slots that were decided last": (markers, "run_newest"),
    "runs that run": (page(state="running"), "job_run_open"),
    "runs that were cancelled": (page(state="cancelled"), "run_state_newest"),
    "runs that were done": (page(state="done"), "run_state_newest"),
    "runs that pings told of": (page(kind="ping"), "run_kind_newest"),
    "runs that run, of a job": (page(job="ops.job-007", state="running"), "job_run_open"),
    "runs that were done, of a job": (page(job="ops.job-007", state="done"), "job_run_newest"),
    "runs that run, by the API": (page_of_api(state="running"), "job_run_open"),
    "runs that were cancelled, by the API": (page_of_api(state="cancelled"), "run_state_last"),
    "runs that were done, by the API": (page_of_api(state="done"), "run_state_last"),
    "runs that pings told of, by the API": (page_of_api(kind="ping"), "run_kind_last"),
    "a page far behind": (page_after, "run_newest"),
    "room under a tag": (lambda: full_tags(["nightly"]), "job_run_open"),
    "who waits for room under a tag": (lambda: next_of_tags(["nightly"]), "job_run_open"),
    "all tags": (lambda: standing_tags(SYSTEM), "job_run_open"),
}


def test_runs_are_found_by_the_index_that_finds_and_in_few_steps(filled: None) -> None:
    TagLimit.objects.create(tag="nightly", most_at_once=1)
    elsewise: dict[str, object] = {}
    for name, (ask, index) in ASKED.items():
        with plans() as seen:
            ask()
        plan = seen.of("jobs_jobrun")
        # PostgreSQL may well take another index, or read it backwards; but not the table.
        found = all(re.search(index, each) for each in plan) or (connection.vendor == "postgresql" and _no_scan(plan))
        with database_work("default") as cost:
            ask()
        # Who reads all of them takes some 30,000 at the least.
        if not (plan and found and cost.units <= 10_000):
            elsewise[name] = (cost.units, plan)
    assert elsewise == {}


def _no_scan(plan: list[str]) -> bool:
    return not any("Seq Scan on jobs_jobrun" in each for each in plan)


def test_a_look_finds_versions_pings_and_logs_by_when_they_came(filled: None) -> None:
    with plans() as seen, plans("ledger") as logs:
        live.cells(NOW_MS, NAMESPACE)
    (versions,), (pieces,) = seen.of("jobs_jobversion"), logs.of("jobs_logpiece")
    assert "version_newest" in versions
    assert "log_piece_newest" in pieces
    with database_work("ledger") as cost:
        live.cells(NOW_MS, NAMESPACE)
    cost.at_most(500)


@pytest.mark.sqlite
def test_a_look_finds_pings_by_when_they_came() -> None:
    with plans() as seen:
        live.cells(NOW_MS, EVERYTHING)
    (pings,) = seen.of("jobs_pingaddress")
    assert "ping_heard" in pings
    assert "ping_refused" in pings


@pytest.mark.parametrize("scopes", [EVERYTHING, NAMESPACE, ONE], ids=["everything", "a namespace", "one job"])
def test_a_look_tells_of_what_one_may_see_that_changed_lately(scopes: tuple[str, ...]) -> None:
    for job, at_us in (("ops.job-007", NOW_US - 5), ("ops.job-007", NOW_US - 9), ("else.where", NOW_US)):
        JobRun.objects.bulk_create([run(7, job=job, changed_us=at_us, slot=at_us)])
    marks = live.cells(NOW_MS, scopes).marks
    assert marks["job:ops.job-007"] == (NOW_US - 5, 2)
    assert ("job:else.where" in marks) == (scopes == EVERYTHING)
    assert live.kept(NOW_MS, scopes).marks["tags"] == (NOW_US if scopes == EVERYTHING else NOW_US - 5)


RARE = {
    "/runs/?state=running": 1,
    "/runs/?state=cancelled": 1,
    "/runs/?state=failed": 0,
    "/runs/?kind=ping": 1,
    "/runs/?kind=manual": 0,
    "/runs/?job=ops.job-003&state=running": 1,
    "/jobs/ops.job-003/?state=running": 1,
}


def test_what_is_rare_is_found_on_a_page_among_many(filled: None, signed_in: Callable[..., Client]) -> None:
    JobRun.objects.bulk_create(
        [
            run(3, state="running", ended_us=None, slot=1),
            run(4, state="cancelled", slot=2),
            run(5, kind="ping", slot=3),
        ]
    )
    client = signed_in()
    client.get("/runs/")
    for path, found in RARE.items():
        with database_work("default") as cost:
            answer = client.get(path)
        assert len(answer.context["runs"]) == found, path
        cost.at_most(25_000, path)


def test_pages_of_runs_follow_each_other_without_gap_or_repetition() -> None:
    JobRun.objects.bulk_create(run(number, slot=number // 3, job=f"j{number}") for number in range(30))
    seen: list[int] = []
    rows = list(JobRun.objects.order_by(*NEWEST)[:4])
    while rows:
        seen += [row.pk for row in rows]
        rows = list(JobRun.objects.filter(before(rows[-1].slot, rows[-1].pk)).order_by(*NEWEST)[:4])
    assert seen == list(JobRun.objects.order_by(*NEWEST).values_list("pk", flat=True))
    assert len(seen) == 30


def test_jobs_that_fail_are_looked_for_once_and_follow_each_other_on_pages(
    filled: None, signed_in: Callable[..., Client]
) -> None:
    failed = [f"ops.job-{number:03}" for number in range(0, JOBS, 2)]
    JobRun.objects.bulk_create(
        run(number, state="failed", slot=NOW_S) for number in range(RUNS, RUNS + JOBS) if number % 2 == 0
    )
    client, path = signed_in(), "/jobs/?state=failing"
    with CaptureQueriesContext(connection) as queries:
        first = client.get(path)
    assert len([query for query in queries if "CASE WHEN" in query["sql"]]) == 1
    second = client.get(f"{path}&cursor={first.context['next_cursor']}")
    listed = [row.job.name for answer in (first, second) for row in answer.context["rows"]]
    assert (listed, second.context["next_cursor"]) == (failed, "")
    assert [answer.context["found"] for answer in (first, second)] == [len(failed)] * 2
    # Whose place a page began behind may be none of them any more.
    behind = client.get(f"{path}&cursor=ops.job-195").context
    assert [row.job.name for row in behind["rows"]] == ["ops.job-196", "ops.job-198"]
