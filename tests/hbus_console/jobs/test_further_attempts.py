"""A run that is tried again: its lateness is that of its first attempt, and each attempt is told as what it was."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from engine.cron.slots.job import JobPolicy
from engine.cron.slots.steps import Begin, Beginning, RunState
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.models import Job, JobAttempt, JobRun
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
S = 1_000_000
REASON = "its worker did not renew its lease"


def tried_again(state: RunState = RunState.RUNNING, **more: Any) -> JobRun:
    """Its first attempt began 2 s after it was due and lost its lease after 38 s; its second has gone on since."""
    run = ran(state, ended_us=None)
    due_us = run.slot * S
    run.state, run.attempt, run.epoch, run.last_end, run.reason = state, 2, 2, RunState.LOST, REASON
    run.first_late_us, run.begun_us = 2 * S, due_us + 199 * S if state == RunState.RUNNING else None
    run.ended_us, run.owner = more.get("ended_us"), "vm:jobs:0:8#b"
    run.save()
    first = {"begun_us": due_us + 2 * S, "ended_us": due_us + 40 * S, "state": RunState.LOST, "reason": REASON}
    JobAttempt.objects.create(run=run.pk, number=1, epoch=1, owner="vm:jobs:0:7#a", **first)
    if run.begun_us is not None:
        JobAttempt.objects.create(run=run.pk, number=2, epoch=2, owner=run.owner, begun_us=run.begun_us)
    return run


def words(page: Client, run: JobRun) -> str:
    return re.sub(r"\s+", " ", html_of(page, f"/jobs/{NAME}/runs/{run.pk}/"))


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.CLAIMED])
def test_what_the_attempt_before_waited_and_took_is_no_lateness(page: Client, job: Job, state: RunState) -> None:
    run = tried_again(state)
    assert "<span>first began 2 s after its slot</span>" in words(page, run)
    assert page.get(f"/api/v1/jobs/{NAME}/runs/{run.pk}").json()["late_s"] == 2
    assert re.search(r'<td class="num from-600">2 s</td>', html_of(page, f"/jobs/{NAME}/"))


def test_of_a_row_from_before_the_first_attempt_was_kept_nothing_is_invented() -> None:
    assert JobRun(slot=100, begun_us=472 * S, attempt=2).late_us is None


def test_the_judge_keeps_how_late_the_first_attempt_began_and_no_other(job: Job) -> None:
    run = JobRun.objects.create(job=NAME, version=1, slot=100, state="claimed", decided_us=1, changed_us=1)
    judge = SlotJudge()
    assert judge.begin(Begin(run.pk, 1, "vm:jobs:0:7#a", JobPolicy())) is Beginning.BEGUN
    first = JobRun.objects.get()
    assert first.late_us is not None
    assert first.begun_us is not None
    assert first.late_us == first.begun_us - 100 * S
    JobRun.objects.update(state="claimed", attempt=2, begun_us=None, last_end="lost lease")
    assert judge.begin(Begin(run.pk, 2, "vm:jobs:0:7#b", JobPolicy())) is Beginning.BEGUN
    again = JobRun.objects.get()
    assert again.attempt == 2
    assert again.late_us == first.late_us


def test_the_reason_of_the_attempt_before_is_told_as_that(page: Client, job: Job) -> None:
    run = tried_again()
    html = words(page, run)
    assert f'<span class="text-warn">attempt 1 lost its lease after 38 s: {REASON}</span>' in html
    assert "attempt 2 begun <time" in html
    assert f"attempt 1 lost its lease: {REASON}" in html_of(page, f"/jobs/{NAME}/")
    # Once it is over, its reason is its own.
    JobRun.objects.update(state=RunState.FAILED, reason="exit code 3", ended_us=run.begun_us)
    html = words(page, run)
    assert '<span class="text-bad">exit code 3</span>' in html
    assert "attempt 1 lost its lease: " not in html_of(page, f"/jobs/{NAME}/")


def test_its_course_has_every_attempt(page: Client, job: Job) -> None:
    run = tried_again()
    course = words(page, run).split('aria-label="Its course"')[1].split("</ol>")[0]
    said = ["#a began", "attempt 1 lost its lease", REASON, "#b began", "attempt 2, epoch 2: older ones may write"]
    places = [course.index(each) for each in said]
    assert places == sorted(places)
    assert course.count("older ones") == 1
