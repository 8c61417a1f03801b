"""The pages of jobs and runs say what the rows say, and their forms and sheets do what the services do."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from engine.cron.slots.steps import RunState, SlotKey
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs import live
from hbus_console.jobs.models import Job, JobRun, LogPiece
from hbus_console.jobs.parameter_form import read_parameters
from hbus_console.jobs.services import triggering
from hbus_console.jobs.services.jobs import change_job, pause_job
from hbus_console.jobs.showing import masked, restored
from hbus_console.jobs.views import lists
from hbus_console.wiring.cron import slot_store
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NAME = "close-of-day"
SCHEMA = {
    "type": "object",
    "required": ["hotel"],
    "properties": {
        "hotel": {"type": "string"},
        "rooms": {"type": "integer"},
        "full": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["night", "day"]},
        "pin": {"type": "string", "writeOnly": True},
    },
}
FORM = {"name": NAME, "owner": "ops", "kind": "http", "target": "https://1.1.1.1/", "schedule": "0 3 * * *"}
WHEN = {"zone": "Europe/Lisbon", "gap": "end", "fold": "first", "grace_s": "30", "catch_up": "last"}
REST = {"catch_up_window_s": "86400", "catch_up_most": "100", "overlap": "run", "most_at_once": "0", "lease_s": "30"}
NEWER = {"jitter_s": "0", "overlap_on": "cluster", "manual_runs": "bound"}
PARTS = {"division": "whole", "shards": "1", "tags": ""}
LAST = {"after_loss": "end", "after_failure": "end", "attempts": "1", "backoff_s": "10", "backoff_most_s": "600"}
WHOLE = {**FORM, **WHEN, **REST, **NEWER, **PARTS, **LAST, "timeout_s": "3600"}


@pytest.fixture
def page(signed_in: Callable[..., Client], make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(triggering, "offer", lambda _: None)
    return signed_in()


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    return make_job("http", "https://1.1.1.1/", zone="Europe/Lisbon")


def ran(state: RunState = RunState.DONE, took_s: float = 2, back_s: int = 60, **more: Any) -> JobRun:
    slot = int(time.time()) - back_s
    begun = slot * 1_000_000 + 15_000
    ended = begun + round(took_s * 1_000_000)
    times = {"decided_us": begun, "begun_us": begun, "ended_us": ended, "changed_us": ended}
    return JobRun.objects.create(job=NAME, version=1, slot=slot, state=state, owner="w#1", epoch=1, **times | more)


def html_of(page: Client, address: str) -> str:
    answer = page.get(address)
    assert answer.status_code == 200, answer.content
    return str(answer.content.decode())


def test_the_list_says_how_each_job_stands(page: Client, job: Job) -> None:
    ran(took_s=4, back_s=120)
    ran(RunState.FAILED, back_s=60, reason="it ended with exit code 3")
    html = html_of(page, "/jobs/")
    assert "1 job" in html
    assert html.count('<rect class="ok"') >= 1
    assert html.count('<rect class="bad"') >= 1
    assert re.search(r' title="([\w: ]+ failed, it ended with exit code 3)">\1</span>', html)
    assert "4 s" in html
    assert "no scheduling node: no slot is decided" in html


@pytest.mark.parametrize("address", ["/jobs/", f"/jobs/{NAME}/"])
def test_how_long_it_is_until_a_slot_counts_by_itself(page: Client, make_job: MakeJob, address: str) -> None:
    """Nothing happens while it comes nearer, and so nothing would tell the page to be fetched again."""
    make_job("http", "https://1.1.1.1/", schedule="*/5 * * * *")
    shown = re.sub(r"<time [^>]*data-ago>[^<]*</time>", "COUNTS", html_of(page, address))
    assert re.search(r"next [^<]*COUNTS" if NAME in address else r"<span title=[^>]*>.*COUNTS</span>", shown)
    assert not re.search(r"\bin \d+ (m|s)\b", shown)


def test_the_day_of_a_page_says_of_how_many_jobs_it_is(
    page: Client, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        make_job("http", "https://1.1.1.1/", name=f"job-{number}", schedule="59 23 * * *")
        JobRun.objects.create(
            job=f"job-{number}", version=1, slot=int(time.time()), state=RunState.FAILED, decided_us=1, changed_us=1
        )
    monkeypatch.setattr(lists, "MOST_LINES", 2)
    monkeypatch.setattr(lists, "PAGE", 3)
    assert "2 of 5 jobs, with most to tell on this page<" in html_of(page, "/jobs/")
    monkeypatch.setattr(lists, "PAGE", 50)
    assert "2 of 5 jobs, with most to tell<" in html_of(page, "/jobs/")


def test_many_jobs_are_as_few_queries(
    page: Client, make_job: MakeJob, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(30):
        make_job("http", "https://1.1.1.1/", name=f"job-{number:02}")
    with django_assert_max_num_queries(20):
        html = html_of(page, "/jobs/")
    assert html.count("<th scope=") == 30


def test_what_is_paused_or_nobodys_is_said_and_found(page: Client, job: Job) -> None:
    pause_job(SYSTEM, NAME, "a release")
    assert 'title="paused by system: a release">paused by system<' in html_of(page, "/jobs/?state=paused")
    assert "No job fits" in html_of(page, "/jobs/?state=on")
    assert "It is paused by system: “a release”." in html_of(page, f"/jobs/{NAME}/")
    Job.objects.update(team=None, paused=False)
    assert "ownerless: its slots are skipped" in html_of(page, "/jobs/?state=ownerless")


def test_a_job_shows_its_runs_newest_first_and_by_state(page: Client, job: Job) -> None:
    first, second = ran(back_s=120), ran(RunState.SKIPPED, back_s=60, reason="another run of the job was running")
    html = html_of(page, f"/jobs/{NAME}/")
    assert html.index(f"runs/{second.pk}/") < html.index(f"runs/{first.pk}/")
    assert "At 03:00 every day, Europe/Lisbon time." in html
    assert " 03:00:00</span>" in html
    assert html_of(page, f"/jobs/{NAME}/?state=skipped").count('<th scope="row">') == 1
    assert "another run of the job was running" in html


def test_a_run_says_why_it_ran_and_what_it_wrote(page: Client, job: Job) -> None:
    run = ran(RunState.FAILED, reason="it ended with exit code 3", parameters={"hotel": "HB-1", "token": "x"})
    for seq, text in ((1, "first line\n"), (2, "<b>second</b>\n"), (9, "last line\n")):
        LogPiece.objects.create(run=run.pk, seq=seq, attempt=1 if seq < 9 else 2, at_us=1, text=text)
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    assert "it ended with exit code 3" in html
    assert "&lt;b&gt;second&lt;/b&gt;" in html
    assert "… a part of the log was left out here" in html
    assert "— attempt 2 —" in html
    assert f">{slot_store().lease_key(run.pk)}<" in html
    assert f">{slot_store().marker_key(SlotKey(NAME, 1, run.slot))}<" in html
    assert "•••" in html
    found = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/?q=LAST")
    assert "last line" in found
    assert "first line" not in found
    told = page.get(f"/jobs/{NAME}/runs/{run.pk}/log/")
    assert told["Content-Disposition"] == f'attachment; filename="{NAME}-{run.pk}.log"'
    assert told.content.decode().startswith("first line\n<b>second</b>\n")
    assert page.get(f"/jobs/other/runs/{run.pk}/").status_code == 404


def test_a_job_is_made_in_a_form_which_keeps_what_was_typed(page: Client) -> None:
    wrong = page.post("/jobs/new/", {**WHOLE, "schedule": "61 * * * *", "options": '{"method": "PUT"'})
    assert wrong.status_code == 422
    assert "cannot be read as JSON" in wrong.content.decode()
    assert "{&quot;method&quot;: &quot;PUT&quot;" in wrong.content.decode()
    made = page.post("/jobs/new/", {**WHOLE, "options": '{"method": "PUT"}', "reason": "new"})
    assert (made.status_code, made["Location"]) == (302, f"/jobs/{NAME}/")
    assert Job.objects.get().options == {"method": "PUT"}


def test_settings_keep_the_secrets_that_they_do_not_show(page: Client, make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all", "pin": "4711"}, parameters_schema=SCHEMA)
    html = html_of(page, f"/jobs/{NAME}/settings/")
    assert "4711" not in html
    assert "•••" in html
    sent = {**WHOLE, "parameters": '{"hotel": "HB-1", "pin": "•••"}', "timeout_s": "60", "revision": "1"}
    shown = page.post(f"/jobs/{NAME}/settings/", {**sent, "parameters_schema": '{"type": "object"}'})
    assert shown.status_code == 422
    assert "pin is secret, and would go another way" in shown.content.decode()
    assert "4711" not in shown.content.decode()
    saved = page.post(f"/jobs/{NAME}/settings/", {**sent, "parameters_schema": json.dumps(SCHEMA)})
    assert saved.status_code == 302, saved.content.decode()[:3000]
    row = Job.objects.get()
    assert (row.parameters, row.timeout_s, row.version) == ({"hotel": "HB-1", "pin": "4711"}, 60, 2)
    outdated = page.post(f"/jobs/{NAME}/settings/", {**sent, "timeout_s": "61"})
    assert outdated.status_code == 422


def test_versions_tell_their_difference_and_are_restored(page: Client, job: Job) -> None:
    change_job(SYSTEM, NAME, {"timeout_s": 60}, "too long")
    html = html_of(page, f"/jobs/{NAME}/versions/")
    assert '<span class="mono">timeout_s</span> <del>3600</del> <ins>60</ins>' in html
    assert "“too long”" in html
    page.post(f"/jobs/{NAME}/versions/1/restore/", {"reason": "it was better"})
    assert (Job.objects.get().timeout_s, Job.objects.get().version) == (3600, 3)


def test_a_run_is_triggered_by_the_fields_of_its_schema_and_once_a_page(page: Client, make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all", "pin": "4711"}, parameters_schema=SCHEMA)
    html = html_of(page, f"/jobs/{NAME}/")
    assert 'name="p.mode"' in html
    assert 'name="p.pin" type="password" value=""' in html
    key = re.search(r'name="key" value="(\w+)"', html)
    assert key is not None
    sent = {"p.hotel": "HB-1", "p.rooms": "3", "p.full": "yes", "p.mode": "day", "key": key[1], "reason": "why"}
    answers = [page.post(f"/jobs/{NAME}/trigger/", sent) for _ in range(2)]
    run = JobRun.objects.get()
    assert {answer["Location"] for answer in answers} == {f"/jobs/{NAME}/runs/{run.pk}/"}
    assert run.parameters == {"hotel": "HB-1", "rooms": 3, "full": True, "mode": "day", "pin": "4711"}
    refused = page.post(f"/jobs/{NAME}/trigger/", {**sent, "p.rooms": "many", "key": "other"}, headers={"X-Form": "1"})
    assert JobRun.objects.count() == 1
    assert refused.status_code in (302, 422)


def test_a_run_is_cancelled(page: Client, job: Job) -> None:
    run = ran(RunState.CLAIMED, begun_us=None, ended_us=None)
    assert "Cancel…" in html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    page.post(f"/jobs/{NAME}/runs/{run.pk}/cancel/", {"reason": "not needed"})
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED
    assert run.reason.endswith("cancelled it: not needed")
    assert "Cancel…" not in html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")


@pytest.mark.parametrize(
    ("schedule", "said"),
    [("", ""), ("0 3 * * *", "At 03:00"), ("61 * * * *", "at character 1"), ("0 0 30 2 *", "never")],
)
def test_while_it_is_typed_a_schedule_says_what_it_means(page: Client, schedule: str, said: str) -> None:
    answer = page.post("/jobs/preview/", {"schedule": schedule, "zone": "Europe/Lisbon"})
    assert answer.status_code == 200
    assert said in answer.content.decode()


def test_runs_of_all_jobs_are_listed_and_narrowed(page: Client, job: Job) -> None:
    run = ran()
    assert f"/jobs/{NAME}/runs/{run.pk}/" in html_of(page, "/runs/")
    assert "No run fits" in html_of(page, "/runs/?state=failed")


def test_what_changes_is_marked_and_what_stands_is_not(job: Job) -> None:
    now_ms = round(time.time() * 1000)
    marks = live.cells(now_ms, ("*",)).marks
    assert set(marks) == {f"job:{NAME}", "jobs"}
    run = ran(back_s=1, took_s=0.5)
    LogPiece.objects.create(run=run.pk, seq=1, attempt=1, at_us=now_ms * 1_000, text="x")
    after = live.cells(now_ms, ("*",)).marks
    assert after[f"job:{NAME}"] != marks[f"job:{NAME}"]
    assert {"runs", f"log:{run.pk}"} <= set(after)
    assert live.cells(now_ms, ("other.*",)).marks == {}
    assert live.cells(now_ms + 60_000, ("*",)).marks == {}


def test_the_search_box_finds_jobs_by_name_and_runs_by_number(page: Client, job: Job) -> None:
    run = ran()
    assert f"/jobs/{NAME}/" in page.get("/search/?q=of-day").content.decode()
    assert f"/jobs/{NAME}/runs/{run.pk}/" in page.get(f"/search/?q={run.pk}").content.decode()


def test_nested_secrets_stay_when_a_form_shows_them_masked() -> None:
    known = {"db": {"host": "a", "password": "x"}, "list": [{"token": "y"}]}
    shown = masked(known)
    assert shown == {"db": {"host": "a", "password": "•••"}, "list": [{"token": "•••"}]}
    assert restored({**shown, "db": {**shown["db"], "host": "b"}}, known, shown) == {
        "db": {"host": "b", "password": "x"},
        "list": [{"token": "y"}],
    }


def test_the_preview_says_how_far_it_looked(page: Client) -> None:
    form = {"schedule": "0 0 29 2 *", "excluded": "02-29", "zone": "Europe/Rome"}
    assert "None within 100 years" in page.post("/jobs/preview/", form).content.decode()
    assert "Never." in page.post("/jobs/preview/", {"schedule": "@never"}).content.decode()


def test_who_may_not_see_a_job_is_not_told_that_a_log_of_it_grows(make_job: MakeJob) -> None:
    runs = {}
    for name in ("mine.close", "theirs.close"):
        make_job("http", "https://1.1.1.1/", name)
        runs[name] = triggering.trigger(SYSTEM, name, triggering.Trigger(None, "why")).run.pk
        LogPiece.objects.create(run=runs[name], seq=1, attempt=1, at_us=int(time.time() * 1_000_000), text="x")
    LogPiece.objects.create(run=max(runs.values()) + 1, seq=1, attempt=1, at_us=int(time.time() * 1_000_000), text="x")

    def growing(*scopes: str) -> set[str]:
        return {mark for mark in live.cells(round(time.time() * 1000), scopes).marks if mark.startswith("log:")}

    assert growing("mine.*") == {f"log:{runs['mine.close']}"}
    assert growing("mine.*", "theirs.close") == growing("*") == {f"log:{run}" for run in runs.values()}
    assert growing() == set()


def test_changes_of_several_jobs_are_all_in_the_marks_of_the_lists(make_job: MakeJob) -> None:
    now_ms = round(time.time() * 1000)
    for name in ("a", "b"):
        make_job("http", "https://1.1.1.1/", name=name)
    before = live.cells(now_ms, ("*",)).marks["jobs"]
    for name in ("a", "b"):
        change_job(SYSTEM, name, {"timeout_s": 60})
        after = live.cells(now_ms, ("*",)).marks["jobs"]
        assert after != before, name
        before = after


def test_a_yes_or_no_that_nobody_said_is_left_out() -> None:
    schema = {"properties": {"full": {"type": "boolean"}}}
    assert [read_parameters({"p.full": said}, schema) for said in ("", "yes", "no")] == [
        {},
        {"full": True},
        {"full": False},
    ]


def test_the_preview_leaves_out_what_the_form_leaves_out(page: Client) -> None:
    form = {"schedule": "0 9 * * *", "zone": "Europe/Lisbon", "excluded": "Sat,Sun"}
    told = [
        datetime.fromisoformat(each).weekday()
        for each in re.findall(r"\d{4}-\d\d-\d\d(?=T)", page.post("/jobs/preview/", form).content.decode())
    ]
    assert told
    assert max(told) < 5
    wrong = page.post("/jobs/preview/", {**form, "excluded": "Christmas"}).content.decode()
    assert "christmas is no day" in wrong


@pytest.mark.parametrize(
    ("schedule", "tone"), [("@every 10s", "next often"), ("*/5 * * * *", "next often"), ("*/30 * * * *", "next")]
)
def test_the_picture_of_the_day_tells_a_frequent_job_from_one_of_each_half_hour(
    page: Client, job: Job, monkeypatch: pytest.MonkeyPatch, schedule: str, tone: str
) -> None:
    Job.objects.update(schedule=schedule)
    # A midnight: the whole day is to come.
    monkeypatch.setattr(lists, "clock", ManualClock(1_795_651_200_000))
    tones = set(re.findall(r'<rect class="(next[\w ]*)"', html_of(page, "/jobs/")))
    assert tones == {tone}
