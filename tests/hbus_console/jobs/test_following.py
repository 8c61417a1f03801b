"""Jobs that run after other jobs: one run for each end that they follow, made by the transaction of that end."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import transaction
from django.test import Client

from engine.core.errors import BadInput, Conflict
from engine.cron.slots.job import AfterFailure, JobPolicy
from engine.cron.slots.steps import Begin, Beginning, End, GiveUp, ReadOpen, RunState
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, ScopedRole
from hbus_console.jobs.following import followers_seen, following, read_after
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.models import JobAfter, JobRun
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job, delete_job, pause_job
from hbus_console.jobs.services.triggering import Trigger
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
POLICY = JobPolicy()
NOW_S = 1_790_000_000.25


@pytest.fixture
def judge() -> SlotJudge:
    return SlotJudge(lambda: NOW_S)


def begun(job: str, judge: SlotJudge, policy: JobPolicy = POLICY) -> JobRun:
    """A run of the job that a worker has begun."""
    claimed = {"job": job, "version": 1, "slot": 1_790_000_000, "state": "claimed", "decided_us": 1, "changed_us": 1}
    run = JobRun.objects.create(**claimed, kind="manual", key=f"k{JobRun.objects.count()}", asked_by="ana")
    assert judge.begin(Begin(run.pk, 1, "node-1:jobs:0:7#a", policy)) is Beginning.BEGUN
    return run


def behind(run: JobRun) -> dict[str, str]:
    """What follows it, and where that stands."""
    rows = JobRun.objects.filter(kind="after", key=f"run-{run.pk}")
    return dict(rows.values_list("job", "state"))


@pytest.fixture
def chain(make_job: MakeJob) -> None:
    make_job("command", "true", "close")
    make_job("command", "true", "invoice", schedule="@never", after="close")
    make_job("command", "true", "page-somebody", schedule="@never", after="close failure")
    make_job("command", "true", "clean-up", schedule="@never", after="close any")


@pytest.fixture(autouse=True)
def _programs(settings: object) -> None:
    settings.HBUS_JOB_COMMANDS = ("true",)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize(
    ("state", "then"),
    [
        (RunState.DONE, {"invoice", "clean-up"}),
        (RunState.FAILED, {"page-somebody", "clean-up"}),
        (RunState.LOST, {"page-somebody", "clean-up"}),
    ],
)
def test_who_follows_an_end_runs_once_and_is_offered_at_once(judge: SlotJudge, state: RunState, then: set[str]) -> None:
    run = begun("close", judge)
    # The answer may be lost, and is asked for again.
    answers = [judge.end(End(run.pk, 1, state, POLICY)) for _ in range(2)]
    made = JobRun.objects.filter(kind="after")
    assert {each.job for each in made} == then
    assert [set(answer.next) for answer in answers] == [{each.pk for each in made}] * 2
    one = made.get(job="clean-up")
    assert (one.asked_by, one.asked_why) == ("job close", f"run {run.pk} of close ended: {state.value}")
    assert judge.begin(Begin(one.pk, 1, "w", POLICY)) is Beginning.BEGUN


@pytest.mark.usefixtures("chain")
def test_nobody_follows_an_attempt_that_is_made_again_but_its_last_one(judge: SlotJudge) -> None:
    policy = JobPolicy(after_failure=AfterFailure.RETRY, attempts=2, backoff_s=0)
    run = begun("close", judge, policy)
    judge.end(End(run.pk, 1, RunState.FAILED, policy))
    assert behind(run) == {}
    assert judge.begin(Begin(run.pk, 2, "w", policy)) is Beginning.BEGUN
    judge.end(End(run.pk, 2, RunState.FAILED, policy))
    assert behind(run) == {"page-somebody": "claimed", "clean-up": "claimed"}


@pytest.mark.usefixtures("chain")
def test_a_run_that_is_given_up_is_followed_unless_it_is_tried_again(judge: SlotJudge) -> None:
    run = begun("close", judge)
    (seen,), _ = judge.read_open(ReadOpen())
    assert judge.give_up(GiveUp(seen, RunState.LOST, "gone", True))
    assert behind(run) == {}
    (seen,), _ = judge.read_open(ReadOpen())
    assert judge.give_up(GiveUp(seen, RunState.ABANDONED, "nobody came"))
    assert set(behind(run)) == {"page-somebody", "clean-up"}


@pytest.mark.usefixtures("chain")
def test_what_was_cancelled_before_it_began_has_ended_and_what_was_skipped_has_not(judge: SlotJudge) -> None:
    claimed = {"job": "close", "version": 1, "slot": 1, "state": "claimed", "decided_us": 1, "changed_us": 1}
    cancelled = JobRun.objects.create(**claimed, kind="manual", key="a")
    assert judge.request_cancel(cancelled.pk, "ana cancelled it")
    assert behind(cancelled) == {"clean-up": "claimed"}
    skipped = JobRun.objects.create(**claimed, kind="manual", key="b")
    (seen,) = (row for row in judge.read_open(ReadOpen())[0] if row.id == skipped.pk)
    assert judge.give_up(GiveUp(seen, RunState.SKIPPED, "no need"))
    assert behind(skipped) == {}


@pytest.mark.usefixtures("chain")
def test_who_is_paused_is_skipped_with_the_reason(judge: SlotJudge) -> None:
    pause_job(SYSTEM, "invoice", "the ledger is closed")
    run = begun("close", judge)
    judge.end(End(run.pk, 1, RunState.DONE, POLICY))
    assert behind(run) == {"invoice": "skipped", "clean-up": "claimed"}
    assert JobRun.objects.get(job="invoice").reason == "paused: the ledger is closed"


@pytest.mark.usefixtures("chain")
def test_an_end_that_is_not_committed_is_followed_by_nobody(judge: SlotJudge) -> None:
    run = begun("close", judge)
    with transaction.atomic():
        judge.end(End(run.pk, 1, RunState.DONE, POLICY))
        transaction.set_rollback(True)
    assert behind(run) == {}
    judge.end(End(run.pk, 1, RunState.DONE, POLICY))
    assert set(behind(run)) == {"invoice", "clean-up"}


@pytest.mark.usefixtures("chain")
def test_a_circle_is_refused_with_its_way_and_nothing_changes() -> None:
    change_job(SYSTEM, "clean-up", {"after": "invoice any"})
    with pytest.raises(BadInput) as refused:
        change_job(SYSTEM, "close", {"after": "clean-up"})
    assert refused.value.what == (
        "It would run after itself: close runs after clean-up runs after invoice runs after close."
    )
    assert refused.value.field == "after"
    with pytest.raises(BadInput, match="close runs after close"):
        change_job(SYSTEM, "close", {"after": "close any"})
    assert not JobAfter.objects.filter(job__name="close").exists()


@pytest.mark.usefixtures("chain")
def test_lines_say_a_job_and_an_end_and_are_kept_as_such(make_job: MakeJob) -> None:
    made = make_job("command", "true", "both", after="\n close   any\ninvoice\n")
    assert made.after == "close any\ninvoice success"
    changed = change_job(SYSTEM, "both", {"after": "invoice failure"})
    assert [(each.job.name, each.ended) for each in following("invoice")] == [("both", "failure")]
    assert changed.version == 2
    change_job(SYSTEM, "both", {"after": ""})
    assert not following("invoice").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("close sometimes", "Line 1, 'close sometimes', is not a job and one of success, failure and any."),
        ("close any please", "Line 1, 'close any please', is not a job and one of success, failure and any."),
        ("a\n\nb\na any", "Line 4 names a a second time."),
        ("\n".join(f"j{number}" for number in range(21)), "It names 21 jobs, and may name 20."),
    ],
)
def test_what_is_no_such_line_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_after(text)
    assert (refused.value.field, refused.value.what) == ("after", why)


def test_a_job_that_is_not_there_is_refused(make_job: MakeJob) -> None:
    with pytest.raises(BadInput, match="There is no job close-of-year"):
        make_job("command", "true", "invoice", after="close-of-year")


@pytest.mark.usefixtures("chain")
def test_a_job_that_others_run_after_is_not_deleted() -> None:
    with pytest.raises(Conflict, match="clean-up on any, invoice on success, page-somebody on failure"):
        delete_job(SYSTEM, "close", "close", "not needed")
    delete_job(SYSTEM, "invoice", "invoice", "not needed")
    assert [each.job.name for each in following("close")] == ["clean-up", "page-somebody"]


MINE = Actor("mia", "user", grants=(ScopedRole(Role.ADMIN, "mine.*"),))


def test_a_job_that_one_may_not_see_is_not_there_to_run_after(make_job: MakeJob) -> None:
    make_job("command", "true", "close")
    make_job("command", "true", "mine.report")
    for name in ("close", "nowhere"):
        with pytest.raises(BadInput, match=f"There is no job {name}\\.") as caught:
            change_job(MINE, "mine.report", {"after": name}, "to see its ends")
        assert caught.value.field == "after"
    # What somebody who sees both has set stays, whoever changes the rest
    change_job(SYSTEM, "mine.report", {"after": "close"}, "agreed")
    change_job(MINE, "mine.report", {"after": "close any"}, "whatever comes")
    make_job("command", "true", "mine.more", after="mine.report")
    with pytest.raises(BadInput, match="There is no job close"):
        change_job(MINE, "mine.more", {"after": "mine.report\nclose"}, "as well")


def test_a_circle_through_what_one_may_not_see_does_not_name_it(make_job: MakeJob) -> None:
    make_job("command", "true", "mine.report")
    make_job("command", "true", "close", after="mine.report")
    make_job("command", "true", "mine.more", after="close")
    with pytest.raises(BadInput, match="runs after a job that you may not see runs after"):
        change_job(MINE, "mine.report", {"after": "mine.more"}, "round and round")


@pytest.mark.usefixtures("chain")
def test_who_follows_is_told_as_far_as_one_may_see_them(
    judge: SlotJudge, make_job: MakeJob, signed_in: Callable[..., Client]
) -> None:
    make_job("command", "true", "mine.report")
    change_job(SYSTEM, "invoice", {"after": "mine.report"}, "agreed")
    assert followers_seen(MINE, "mine.report").words == "1 that you may not see"
    assert followers_seen(SYSTEM, "mine.report").words == "invoice on success"
    (told,) = [each for each in foresee(MINE, "mine.report", Trigger()) if each.label == "then run"]
    assert told.said == "1 that you may not see"
    with pytest.raises(Conflict) as caught:
        delete_job(MINE, "mine.report", "mine.report", "not needed")
    assert "invoice" not in str(caught.value)
    run = begun("mine.report", judge)
    judge.end(End(run.pk, 1, RunState.DONE, POLICY))
    client = signed_in(Role.OPERATOR, scope="mine.*")
    for page in ("/jobs/mine.report/", f"/jobs/mine.report/runs/{run.pk}/"):
        assert "invoice" not in client.get(page).content.decode()
    assert "1 that you may not see" in client.get("/jobs/mine.report/").content.decode()


@pytest.mark.usefixtures("chain")
def test_pages_show_who_follows_whom(judge: SlotJudge, signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.OPERATOR)
    run = begun("close", judge)
    judge.end(End(run.pk, 1, RunState.DONE, POLICY))
    then = JobRun.objects.get(job="invoice")
    assert "followed by" in client.get("/jobs/close/").content.decode()
    page = client.get("/jobs/invoice/").content.decode()
    assert "None by itself." in page
    assert "Never by itself: after another job" in page
    follower = client.get(f"/jobs/invoice/runs/{then.pk}/").content.decode()
    assert f"run {run.pk:,} of close</a>, which is done" in follower
    assert (
        f'href="/jobs/invoice/runs/{then.pk}/">invoice</a> claimed'
        in client.get(f"/jobs/close/runs/{run.pk}/").content.decode()
    )


@pytest.mark.usefixtures("chain")
def test_the_page_of_a_run_moves_with_the_runs_that_it_tells_of(
    judge: SlotJudge, signed_in: Callable[..., Client]
) -> None:
    client, run = signed_in(Role.OPERATOR), begun("close", judge)

    def shown(run: JobRun) -> set[str]:
        found = re.search(r'data-shows="([^"]*)"', client.get(f"/jobs/{run.job}/runs/{run.pk}/").content.decode())
        assert found
        return set(found[1].split())

    # It is open when it ends: who may follow then is known before.
    waiting = {"job:close", "job:invoice", "job:page-somebody", "job:clean-up", f"log:{run.pk}"}
    assert shown(run) == waiting
    judge.end(End(run.pk, 1, RunState.DONE, POLICY))
    assert shown(run) == waiting - {"job:page-somebody"}
    then = JobRun.objects.get(job="invoice")
    # Nobody has begun it: whether a worker is free is of all that run, and of who lives.
    assert shown(then) == {"job:invoice", "job:close", f"log:{then.pk}", "runs", "nodes"}


def test_the_page_of_a_run_that_waits_for_room_of_its_tags_moves_with_all_runs(
    make_job: MakeJob, signed_in: Callable[..., Client]
) -> None:
    make_job("command", "true", "close", tags="night")
    run = JobRun.objects.create(job="close", version=1, slot=1, state="claimed", decided_us=1, changed_us=1)
    assert f'data-shows="job:close log:{run.pk} runs nodes tags"' in (
        signed_in(Role.OPERATOR).get(f"/jobs/close/runs/{run.pk}/").content.decode()
    )
