"""What an audit of the bus says of jobs: each planted fault is found, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from engine.core.clock import to_rfc3339
from engine.core.verdicts import AuditVerdict
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs import auditing
from hbus_console.jobs.auditing import judge_slots
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.undecided import UNDECIDED
from hbus_console.registry.judging import JudgedSpan, JudgedSubject
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
JOB = "close-of-day"
#: Midnight of a day that is long over, and the sixty minutes after it.
BEGIN = 1_790_035_200
MINUTES = [BEGIN + 60 * minute for minute in range(1, 61)]
PAUSED = "paused: the store is moved"


def have_run(slots: list[int], state: RunState = RunState.DONE, reason: str = "", job: str = JOB) -> list[JobRun]:
    rows = (
        JobRun(
            job=job,
            version=1,
            slot=slot,
            state=state,
            reason=reason,
            decided_us=slot * 1_000_000,
            changed_us=slot * 1_000_000,
            ended_us=None if state in (RunState.CLAIMED, RunState.RUNNING) else slot * 1_000_000,
        )
        for slot in slots
    )
    return JobRun.objects.bulk_create(rows)


def begun_at(job: str, at: int, decided: int) -> None:
    JobVersion.objects.filter(job__name=job).update(made_at=datetime.fromtimestamp(at, tz=UTC))
    JobCursor.objects.filter(job=job).update(at=decided)


@pytest.fixture(autouse=True)
def _now(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little after the hour, by the database's clock; and all runs of then are kept."""
    settings.HBUS_RUN_DAYS = 36_500
    monkeypatch.setattr(auditing, "database_time", lambda: float(MINUTES[-1] + 5))


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    made = make_job("http", "https://1.1.1.1/", schedule="* * * * *")
    begun_at(JOB, BEGIN, MINUTES[-1])
    return made


def judged(from_s: int | None = None, to_s: int | None = None) -> list[JudgedSubject]:
    def ms(at: int | None) -> int | None:
        return None if at is None else at * 1000

    return list(judge_slots(JudgedSpan(ms(from_s), ms(to_s), 0)))


def counts(found: JudgedSubject) -> Mapping[tuple[str, str], int]:
    return {(each.kind, each.why): each.count for each in found.findings}


def test_of_slots_that_all_have_one_run_or_a_reason_nothing_is_wrong(job: Job) -> None:
    have_run(MINUTES)
    (found,) = judged()
    assert (found.verdict, found.judged, found.findings) == (AuditVerdict.CLEAN, 60, [])
    assert (found.subject, found.scope) == (job.subject, JOB)
    assert (found.from_ms, found.to_ms) == ((BEGIN + 3) * 1000, (MINUTES[-1] + 1) * 1000)


def test_each_planted_fault_is_found_and_no_other(job: Job) -> None:
    have_run(MINUTES[4:50])
    have_run(MINUTES[50:57], RunState.SKIPPED, PAUSED)
    have_run(MINUTES[57:59], RunState.FAILED, "ValueError: no such hotel")
    (nameless,) = have_run(MINUTES[59:], RunState.SKIPPED)
    (invented,) = have_run([MINUTES[10] + 7])
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX one_run_of_a_slot")
    doubles = have_run(MINUTES[20:22])
    (found,) = judged()
    assert (found.verdict, found.judged) == (AuditVerdict.WRONG, 60)
    assert counts(found) == {
        ("missing", ""): 4,
        ("doubled", ""): 2,
        ("invented", ""): 1,
        ("unexplained", ""): 1,
        ("skipped", PAUSED): 7,
        ("failed", "ValueError: no such hotel"): 2,
    }
    said = {each.kind: each.samples for each in found.findings}
    assert [(it.at_ms, it.subject) for it in said["missing"]] == [(slot * 1000, job.subject) for slot in MINUTES[:4]]
    runs = {kind: [str(it.subject) for it in samples] for kind, samples in said.items() if kind != "missing"}
    assert runs["doubled"] == [f"run:{JOB}/{row.pk}" for row in doubles]
    assert runs["invented"] == [f"run:{JOB}/{invented.pk}"]
    assert runs["unexplained"] == [f"run:{JOB}/{nameless.pk}"]
    assert [each.severity.value for each in found.findings] == [*["wrong"] * 4, "explained", "notice"]


def test_what_has_a_reason_is_explained_and_no_fault(job: Job) -> None:
    have_run(MINUTES[:50])
    have_run(MINUTES[50:], RunState.SKIPPED, PAUSED)
    (found,) = judged()
    assert (found.verdict, counts(found)) == (AuditVerdict.EXPLAINED, {("skipped", PAUSED): 10})


def test_of_a_span_it_is_the_span(job: Job) -> None:
    have_run(MINUTES[11:])
    assert judged(from_s=MINUTES[10], to_s=MINUTES[20])[0].judged == 10
    assert counts(judged(from_s=MINUTES[10], to_s=MINUTES[20])[0]) == {("missing", ""): 1}
    (found,) = judged(from_s=MINUTES[11], to_s=MINUTES[20])
    assert (found.verdict, found.judged) == (AuditVerdict.CLEAN, 9)
    assert judged(to_s=BEGIN) == []


def test_what_is_under_way_is_told_and_leaves_a_span_open_that_was_asked_for(job: Job) -> None:
    have_run(MINUTES[:-1])
    have_run(MINUTES[-1:], RunState.RUNNING)
    assert (judged()[0].verdict, counts(judged()[0])) == (AuditVerdict.CLEAN, {("under_way", ""): 1})
    assert judged(to_s=MINUTES[-1] + 1)[0].verdict is AuditVerdict.OPEN
    # What the span does not reach is nothing to it.
    assert judged(to_s=MINUTES[-1])[0].verdict is AuditVerdict.CLEAN


def test_what_nobody_has_decided_is_not_missing_and_leaves_it_open(job: Job) -> None:
    have_run(MINUTES[:40])
    begun_at(JOB, BEGIN, MINUTES[39])
    (found,) = judged()
    # The youngest ten minutes are not waited for, unless somebody asks for them.
    assert (found.verdict, counts(found), found.judged) == (AuditVerdict.OPEN, {("undecided", ""): 10}, 40)
    (asked,) = judged(to_s=MINUTES[-1] + 1)
    assert (asked.verdict, counts(asked)) == (AuditVerdict.OPEN, {("undecided", ""): 20})
    begun_at(JOB, BEGIN, MINUTES[-5])
    have_run(MINUTES[40:-4])
    assert judged()[0].verdict is AuditVerdict.CLEAN


def test_a_row_from_before_the_span_speaks_for_those_that_a_change_left_out(job: Job) -> None:
    rest = f"nor those after it until {to_rfc3339(MINUTES[40] * 1_000)}, which have no row of their own"
    have_run(MINUTES[:10])
    have_run([MINUTES[10]], RunState.SKIPPED, f"{UNDECIDED}, {rest}")
    have_run(MINUTES[41:])
    (found,) = judged(from_s=MINUTES[20])
    assert (found.verdict, found.judged) == (AuditVerdict.EXPLAINED, 40)
    assert sum(counts(found).values()) == 21


def test_of_more_slots_than_are_judged_the_newest_are_and_the_rest_is_told(
    job: Job, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("http", "https://1.1.1.1/", "later", schedule="*/30 * * * *")
    begun_at("later", BEGIN, MINUTES[-1])
    have_run([MINUTES[29], MINUTES[59]], job="later")
    have_run(MINUTES[30:])
    monkeypatch.setattr(auditing, "MOST_SLOTS", 40)
    dense, sparse = judged()
    assert dense.verdict is AuditVerdict.CLEAN
    assert 15 <= dense.judged <= 20
    assert dense.from_ms > MINUTES[38] * 1000
    assert counts(dense) == {("left_out", f"before {to_rfc3339(dense.from_ms)}"): 1}
    assert (sparse.judged, sparse.findings) == (2, [])


def test_what_was_removed_as_one_too_many_is_not_missed(job: Job, make_job: MakeJob, settings: Settings) -> None:
    have_run(MINUTES)
    JobRun.objects.filter(slot__lte=MINUTES[49]).delete()
    settings.HBUS_RUN_MAX = 10
    (found,) = judged()
    assert (found.verdict, found.judged) == (AuditVerdict.CLEAN, 9)


def test_a_schedule_that_cannot_be_read_is_told_and_judged_by_nobody(job: Job) -> None:
    have_run(MINUTES)
    version = JobVersion.objects.get(job=job)
    JobVersion.objects.filter(pk=version.pk).update(settings={**version.settings, "zone": "Europe/Atlantis"})
    (found,) = judged()
    assert (found.verdict, [each.kind for each in found.findings]) == (AuditVerdict.OPEN, ["unreadable"])
    assert "Atlantis" in found.findings[0].why


def test_each_schedule_is_judged_for_as_long_as_it_held(job: Job) -> None:
    have_run(MINUTES[:30])
    change_job(SYSTEM, JOB, {"schedule": "*/10 * * * *"}, "less often")
    JobVersion.objects.filter(number=2).update(made_at=datetime.fromtimestamp(MINUTES[29] + 30, tz=UTC))
    JobCursor.objects.filter(job=JOB).update(at=MINUTES[-1])
    have_run([MINUTES[39], MINUTES[49], MINUTES[59]])
    (found,) = judged()
    assert (found.verdict, found.judged) == (AuditVerdict.CLEAN, 33)


def test_many_jobs_cost_a_few_questions_each_and_no_lock(make_job: MakeJob) -> None:
    for number in range(20):
        make_job("http", "https://1.1.1.1/", f"job-{number}", schedule="* * * * *")
        begun_at(f"job-{number}", BEGIN, MINUTES[-1])
        have_run(MINUTES, job=f"job-{number}")
    with CaptureQueriesContext(connection) as asked:
        assert len(judged()) == 20
    assert len(asked) <= 5 + 2 * 20
    assert all(each["sql"].startswith("SELECT") and "FOR UPDATE" not in each["sql"] for each in asked.captured_queries)
