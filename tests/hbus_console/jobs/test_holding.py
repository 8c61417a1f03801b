"""A run whose lease is over says so before anybody has found it lost: on its page, in lists, live as on reload."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from engine.core.clock import SystemClock
from engine.cron.slots.steps import Acquire, RunState
from hbus_console.access.acts import Role
from hbus_console.jobs import live
from hbus_console.jobs.models import Job, JobAttempt, JobRun
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store
from hbus_console.wiring.cron import slot_store
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

#: However slow the machine is, it lasts until the test takes it away.
LEASE_S = 3_600
BADGE = re.compile(r'<span class="badge bad"[^>]*>lease over</span>')


def running(**more: Any) -> JobRun:
    run = ran(RunState.RUNNING, ended_us=None, **more)
    run.owner = "vm:jobs:0:7#a"
    run.save(update_fields=["owner"])
    JobAttempt.objects.create(run=run.pk, number=1, epoch=1, owner=run.owner, begun_us=run.begun_us)
    assert slot_store().acquire(Acquire(run.pk, run.owner, LEASE_S, 0)) == run.epoch
    return run


def path_of(run: JobRun) -> str:
    return f"/jobs/{run.job}/runs/{run.pk}/"


def test_a_run_says_that_its_lease_is_held_and_no_figure_that_ages(page: Client, make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", name=NAME, lease_s=LEASE_S)
    html = html_of(page, path_of(running()))
    said = re.search(r"<dt>lease</dt><dd><span>held</span> \(<a href=\"/jobs/nodes/\">all leases</a>\)", html)
    assert said
    assert "lease over" not in html
    # The clock of the page counts on from when it began.
    assert re.search(r"<span>begun <time [^>]*data-ago>[^<]*</time></span>", html)


def test_a_run_that_is_tried_again_says_when_by_an_instant(page: Client, job: Job) -> None:
    waiting = claimed()
    JobRun.objects.filter(pk=waiting.pk).update(not_before_us=round((time.time() + 3_600) * 1e6))
    assert re.search(r"waits for its time, <time [^>]*data-ago>in [^<]*</time></span>", html_of(page, path_of(waiting)))


@pytest.mark.parametrize("path", ["/runs/", f"/jobs/{NAME}/"], ids=["runs", "job"])
def test_a_list_says_that_the_lease_of_a_run_is_over(page: Client, job: Job, path: str) -> None:
    run = running()
    assert '<span class="badge info">running</span>' in html_of(page, path)
    slot_store().take_away(run.pk, run.epoch)
    html = html_of(page, path)
    assert BADGE.search(html)
    assert ">running</span>" not in html


def test_the_page_of_a_run_and_its_attempts_say_that_its_lease_is_over(page: Client, job: Job) -> None:
    run = running()
    slot_store().take_away(run.pk, run.epoch)
    html = html_of(page, path_of(run))
    assert len(BADGE.findall(html)) == 2
    assert "over: it ends as lost lease once that was gone for 30 s" in html
    assert "Its worker did not renew its lease." in html
    assert ">running</span>" not in html


def test_the_list_of_jobs_says_it_of_the_job_and_of_the_bar(page: Client, job: Job) -> None:
    run = running()
    assert "lease over" not in html_of(page, "/jobs/")
    slot_store().take_away(run.pk, run.epoch)
    html = html_of(page, "/jobs/")
    assert re.search(r'<span class="badge bad" title="[^"]*running, lease over">[^<]*running, lease over</span>', html)
    assert re.search(r"<title>[^<]*running, lease over[^<]*</title><rect class=\"bad\"", html)


def test_a_lease_under_another_epoch_is_said_to_be_anothers(page: Client, job: Job) -> None:
    run = running()
    JobRun.objects.filter(pk=run.pk).update(epoch=0)
    assert "another has it, under epoch 1" in html_of(page, path_of(run))


def test_what_has_ended_meanwhile_has_no_lease_that_is_over(page: Client, job: Job) -> None:
    run = running()
    slot_store().take_away(run.pk, run.epoch)
    JobRun.objects.filter(pk=run.pk).update(state=RunState.DONE, ended_us=run.begun_us)
    assert "lease over" not in html_of(page, "/runs/")


def test_what_runs_elsewhere_has_no_lease(page: Client, make_job: MakeJob) -> None:
    make_job("elsewhere", "the partner's crontab", name="partner-export")
    run = ran(RunState.RUNNING, ended_us=None)
    JobRun.objects.filter(pk=run.pk).update(job="partner-export")
    assert "lease over" not in html_of(page, "/runs/")
    assert "lease over" not in html_of(page, f"/jobs/partner-export/runs/{run.pk}/")


def test_open_pages_are_told_that_a_lease_is_over_although_no_row_moves(job: Job) -> None:
    run = running()
    JobRun.objects.update(changed_us=1)

    def mark(*scopes: str) -> object:
        return live.cells(round(time.time() * 1000), scopes).marks.get(f"job:{NAME}")

    before = mark("*")
    slot_store().take_away(run.pk, run.epoch)
    assert mark("*") != before
    assert mark(NAME) != before
    assert mark("hotel") is None
    slot_store().acquire(Acquire(run.pk, run.owner, LEASE_S, 0))
    assert mark("*") == before


def test_whoever_waits_for_a_slot_is_told_that_a_lease_is_over(page: Client, job: Job) -> None:
    run, waiting = running(), claimed()
    JobRun.objects.update(changed_us=1)

    def mark(*scopes: str) -> object:
        return live.cells(round(time.time() * 1000), scopes).marks.get("runs")

    before = mark("*")
    slot_store().take_away(run.pk, run.epoch)
    assert mark("*") != before
    assert mark("hotel") is None
    shows = re.search(r'data-shows="([^"]*)"', html_of(page, path_of(waiting)))
    assert shows
    assert {"runs", "nodes"} <= set(shows.group(1).split())


# ---- what a run waits for that could begin --------------------------------------------------------


class _Ahead(SystemClock):
    """So far ahead that its stamp is young as long as a test takes."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


@pytest.fixture
def two_slots(db: None, own_keys: None) -> None:
    detail, clock = {"processes": 2}, _Ahead()
    beat = NodeBeat(
        store.client(), settings.HBUS_PREFIX, name="vm:jobs:0", role="jobs", clock=clock, detail=lambda: detail
    )
    beat.beat()


def claimed(**more: Any) -> JobRun:
    return ran(RunState.CLAIMED, begun_us=None, ended_us=None, back_s=1, **more)


@pytest.mark.usefixtures("two_slots")
def test_a_claimed_run_says_that_all_slots_are_busy_and_with_what(page: Client, job: Job) -> None:
    first, waiting = running(), claimed()
    assert "waits for a worker</span>" in html_of(page, path_of(waiting))
    second = running(back_s=50)
    html = html_of(page, path_of(waiting))
    assert "waits for a worker: all 2 slots are busy, with" in html
    for run in (first, second):
        assert f">run {run.pk:,} of {NAME}</a>" in html
    # Whoever did it is dead, and its slot is free.
    slot_store().take_away(first.pk, first.epoch)
    assert "waits for a worker</span>" in html_of(page, path_of(waiting))


@pytest.mark.usefixtures("two_slots")
def test_who_may_not_see_what_workers_do_is_told_how_many_they_are(
    signed_in: Callable[..., Client], make_job: MakeJob, job: Job
) -> None:
    make_job("http", "https://1.1.1.1/", name="payroll")
    for back_s in (60, 50):
        JobRun.objects.filter(pk=running(back_s=back_s).pk).update(job="payroll")
    html = html_of(signed_in(Role.OPERATOR, NAME), path_of(claimed()))
    assert "all 2 slots are busy, with" in html
    assert "2 runs that you may not see" in html
    assert "payroll" not in html


@pytest.mark.usefixtures("two_slots")
def test_a_run_of_one_node_waits_for_the_workers_of_that(page: Client, job: Job) -> None:
    running()
    running(back_s=50)
    assert "a worker on vm: all 2 slots are busy" in html_of(page, path_of(claimed(part="@vm")))
    assert "a worker on hq: none is alive there" in html_of(page, path_of(claimed(part="@hq", kind="manual", key="k")))


def test_a_claimed_run_says_that_no_worker_is_alive(page: Client, job: Job) -> None:
    assert "waits for a worker: none is alive" in html_of(page, path_of(claimed()))
