"""Tags of jobs: read, limited with a trace, waited for, and offered when there is room."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.errors import BadInput
from engine.cron.slots.steps import Begin, Beginning, End, Ending, RunState
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import policy_of
from hbus_console.jobs.live import cells
from hbus_console.jobs.models import Job, JobRun, JobTag, TagLimit
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.services.tags import set_limit, standing_tags
from hbus_console.jobs.services.triggering import Trigger
from hbus_console.jobs.tags import read_tags
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NOW_S = 1_790_000_000.25


@pytest.fixture(autouse=True)
def _programs(settings: object) -> None:
    settings.HBUS_JOB_COMMANDS = ("true",)  # type: ignore[attr-defined]


@pytest.fixture
def judge() -> SlotJudge:
    return SlotJudge(lambda: NOW_S)


def claimed(job: str, slot: int = 0) -> JobRun:
    us = round(NOW_S * 1_000_000)
    more = {"state": "claimed", "decided_us": us, "changed_us": us}
    return JobRun.objects.create(job=job, version=1, slot=int(NOW_S) + slot, **more)


def begun(judge: SlotJudge, run: JobRun) -> Beginning:
    policy = policy_of(Job.objects.get(name=run.job))
    return judge.begin(Begin(run.pk, 1 + run.epoch, "web-1:jobs:0:7#a", policy))


def ended(judge: SlotJudge, run: JobRun) -> Ending:
    run.refresh_from_db()
    return judge.end(End(run.pk, run.epoch, RunState.DONE, policy_of(Job.objects.get(name=run.job))))


def test_tags_are_words_in_order_each_once() -> None:
    assert read_tags(" nightly, database  nightly") == ["database", "nightly"]
    for text, field in (("Database", "tags"), ("a" * 41, "tags"), ("-x", "tags"), (" ".join("abcdefghijk"), "tags")):
        with pytest.raises(BadInput) as refused:
            read_tags(text)
        assert refused.value.field == field


def test_a_job_is_found_by_its_tags_as_they_are_now(make_job: MakeJob) -> None:
    made = make_job("command", "true", tags="nightly database")
    assert (made.tags, policy_of(made).tags) == ("database nightly", ("database", "nightly"))
    change_job(SYSTEM, made.name, {"tags": "database"})
    assert list(JobTag.objects.values_list("tag", flat=True)) == ["database"]


def test_runs_of_jobs_that_share_a_tag_wait_for_room_and_the_oldest_of_each_is_offered(
    make_job: MakeJob, judge: SlotJudge
) -> None:
    for name in ("close", "invoice", "report"):
        make_job("command", "true", name, tags="database")
    set_limit(SYSTEM, "database", 1, "one at a time")
    first, second, third, later = claimed("close"), claimed("invoice", 1), claimed("report", 2), claimed("invoice", 3)
    assert begun(judge, first) is Beginning.BEGUN
    assert [begun(judge, run) for run in (second, third, later)] == [Beginning.WAITS] * 3
    assert ended(judge, first).next == (second.pk, third.pk)
    assert begun(judge, second) is Beginning.BEGUN
    assert begun(judge, third) is Beginning.WAITS
    # Without a limit nobody waits.
    set_limit(SYSTEM, "database", 0, "enough room")
    assert begun(judge, third) is Beginning.BEGUN
    assert ended(judge, second).next == ()


def test_another_tag_is_no_business_of_a_run_and_a_free_one_waits_for_nobody(
    make_job: MakeJob, judge: SlotJudge
) -> None:
    make_job("command", "true", "close", tags="database")
    make_job("command", "true", "invoice", tags="disk")
    make_job("command", "true", "report", tags="database", manual_runs="free")
    set_limit(SYSTEM, "database", 1, "one at a time")
    assert [begun(judge, claimed(name)) for name in ("close", "invoice", "report")] == [
        Beginning.BEGUN,
        Beginning.BEGUN,
        Beginning.WAITS,
    ]
    free = claimed("report", 9)
    JobRun.objects.filter(pk=free.pk).update(kind="manual", key="k")
    assert begun(judge, free) is Beginning.BEGUN


def test_a_limit_is_set_once_with_a_trace_by_who_governs_all() -> None:
    with pytest.raises(Forbidden):
        set_limit(actor(Role.EDITOR), "database", 2, "why")
    for most, tag, field in (
        (-1, "database", "most_at_once"),
        (10_001, "database", "most_at_once"),
        (1, "Data", "tag"),
    ):
        with pytest.raises(BadInput) as refused:
            set_limit(SYSTEM, tag, most, "why")
        assert refused.value.field == field
    for _ in range(2):
        set_limit(SYSTEM, "database", 2, "it bears two")
    (entry,) = AuditEntry.objects.filter(action="job.limit")
    assert (str(entry.subject), entry.reason) == ("tag:database", "it bears two")
    set_limit(SYSTEM, "database", 0, "it bears all")
    assert TagLimit.objects.get().most_at_once == 0
    assert standing_tags(SYSTEM) == []


def test_a_limit_that_somebody_else_has_changed_meanwhile_is_not_written_over(signed_in: Callable[..., Client]) -> None:
    set_limit(SYSTEM, "database", 3, "it bears three")
    client = signed_in()
    sent = {"most_at_once": "9", "reason": "why", "was": "2"}
    answer = client.post("/jobs/tags/database/limit/", sent)
    said = (
        client.get(answer.headers["Location"]).content.decode()
        if answer.status_code == 302
        else answer.content.decode()
    )
    assert "was changed by somebody else meanwhile" in said
    assert TagLimit.objects.get().most_at_once == 3
    client.post("/jobs/tags/database/limit/", {**sent, "was": "3"})
    assert TagLimit.objects.get().most_at_once == 9


def test_who_sees_a_part_is_told_that_a_list_is_empty_as_far_as_they_see(
    make_job: MakeJob, signed_in: Callable[..., Client]
) -> None:
    make_job("http", "https://1.1.1.1/", name="hotel.close")
    html = signed_in(Role.VIEWER, "billing.*").get("/jobs/").content.decode()
    assert 'As far as you may see: in <span class="mono">billing.*</span>.' in html
    assert "As far as you may see" not in signed_in(Role.VIEWER).get("/jobs/tags/").content.decode()


def test_who_looks_at_tags_is_told_of_another_limit() -> None:
    set_limit(SYSTEM, "database", 2, "it bears two")
    now_ms = time.time_ns() // 1_000_000
    first = cells(now_ms, ("*",)).marks["tags"]
    set_limit(SYSTEM, "database", 0, "it bears all")
    assert cells(now_ms, ("*",)).marks["tags"] != first
    assert "tags" not in cells(now_ms + 60_000, ("*",)).marks


def test_what_waits_says_for_what(make_job: MakeJob, judge: SlotJudge, signed_in: Callable[..., Client]) -> None:
    make_job("command", "true", "close", tags="database")
    make_job("command", "true", "invoice", tags="database")
    set_limit(SYSTEM, "database", 1, "one at a time")
    begun(judge, claimed("close"))
    said = {each.label: each.said for each in foresee(SYSTEM, "invoice", Trigger())}
    assert said["begins"] == "once there is room under the tag database, of which 1 run"
    waiting = claimed("invoice")
    begun(judge, waiting)
    page = signed_in(Role.GOVERNOR)
    html = page.get(f"/jobs/invoice/runs/{waiting.pk}/").content.decode()
    assert "waits for room under the tag database, of which 1 run" in html
    (standing,) = standing_tags(SYSTEM)
    assert (standing.jobs, standing.running, standing.waiting, standing.full) == (2, 1, 1, True)


def test_of_what_one_may_not_see_a_tag_tells_its_limit_alone(
    make_job: MakeJob, judge: SlotJudge, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    make_job("command", "true", "lab.close", tags="database theirs")
    make_job("command", "true", "mine.close", tags="database")
    for tag in ("database", "theirs", "unused"):
        set_limit(SYSTEM, tag, 1, "one at a time")
    begun(judge, claimed("lab.close"))
    begun(judge, claimed("mine.close"))
    mine, all_of_them = actor(Role.GOVERNOR, "mine.*"), actor(Role.GOVERNOR)
    told = [(it.tag, it.jobs, it.most_at_once, it.running, it.waiting) for it in standing_tags(mine)]
    assert told == [("database", 1, 1, 0, 1)]
    assert calling(Role.VIEWER, "mine.*")("GET", "job-tags").json()["results"] == [
        {"tag": "database", "jobs": 1, "most_at_once": 1, "running": 0, "waiting": 1}
    ]
    assert "theirs" not in signed_in(Role.VIEWER, "mine.*").get("/jobs/tags/").content.decode()
    assert [(it.tag, it.running) for it in standing_tags(all_of_them)] == [
        ("database", 1),
        ("theirs", 1),
        ("unused", 0),
    ]
    assert [it.tag for it in standing_tags(actor(Role.EDITOR))] == ["database", "theirs"]
    now_ms = time.time_ns() // 1_000_000
    assert "tags" not in cells(now_ms, ("other.*",)).marks
    assert cells(now_ms, ("mine.*",)).marks["tags"] == frozenset({("database", 1)})
    assert len(frozenset(cells(now_ms, ("*",)).marks["tags"])) == 3  # type: ignore[call-overload]


def test_a_page_and_an_endpoint_show_tags_and_set_limits(
    make_job: MakeJob, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    make_job("command", "true", "close", tags="database nightly")
    make_job("command", "true", "report")
    page = signed_in(Role.GOVERNOR)
    assert "any number" in page.get("/jobs/tags/").content.decode()
    assert 'aria-label="Limit database…"' in page.get("/jobs/tags/").content.decode()
    assert page.post("/jobs/tags/database/limit/", {"most_at_once": "3", "reason": "why"}).status_code == 302
    html = page.get("/jobs/?tag=database").content.decode()
    assert ('href="/jobs/close/"' in html, 'href="/jobs/report/"' in html) == (True, False)
    api = calling(Role.GOVERNOR)
    listed = api("GET", "job-tags").json()["results"]
    assert [(each["tag"], each["most_at_once"]) for each in listed] == [("database", 3), ("nightly", 0)]
    answer = api("PUT", "job-tags/nightly", {"most_at_once": 1, "reason": "why"})
    assert (answer.status_code, answer.json()) == (200, {"tag": "nightly", "most_at_once": 1})
