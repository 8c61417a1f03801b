"""While workers have more to do than they can, every page about jobs says so, and of each run that it is late."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.cron.slots.steps import RunState
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.cluster import live, services
from hbus_console.cluster.concerns import concerns
from hbus_console.jobs import busy
from hbus_console.jobs.models import Job, JobRun
from hbus_console.ui.concern import Look
from hbus_console.ui.polling import one_poll
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.jobs.test_holding import running, two_slots
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page", "two_slots"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("two_slots")]


def late(seconds: int, **more: Any) -> JobRun:
    return ran(RunState.CLAIMED, begun_us=None, ended_us=None, back_s=seconds, **more)


@pytest.mark.parametrize("path", ["/jobs/", "/jobs/nodes/"])
def test_pages_say_how_many_runs_wait_since_when_and_how_busy_workers_are(
    page: Client, job: Job, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    # However slow the machine is, the first is no news yet.
    monkeypatch.setattr(busy, "TOLD_S", 1_000)
    running()
    running(back_s=50)
    late(1)
    assert "for a worker" not in html_of(page, path)
    late(1_018)
    said = re.search(r'<span class="text-warn">2 runs wait for a worker, the oldest due <time', html_of(page, path))
    assert said
    assert "2 of 2 slots busy" in html_of(page, path)


def test_the_cluster_says_it_of_the_role_and_nobody_is_called_silent(page: Client, job: Job) -> None:
    running()
    assert busy.role_words() == ("", "")
    late(118)
    assert busy.role_words() == ("1 run waits for a worker, 1 of 2 slots busy", "warn")
    html = re.sub(r"\s+", " ", html_of(page, "/cluster/"))
    assert "1 run waits for a worker, 1 of 2 slots busy" in html
    assert '<span class="badge warn">busy</span>' in html
    assert not [each.text for each in concerns(Look(SYSTEM, 0)) if "jobs" in each.text]


def test_how_many_runs_of_all_namespaces_wait_is_said_to_who_sees_all(
    page: Client, job: Job, signed_in: Callable[..., Client]
) -> None:
    """Found by a reviewer: who saw one namespace read how much waited in the others."""
    running()
    late(118)
    narrow = signed_in(Role.VIEWER, "elsewhere.*")
    for path in ("/cluster/", "/"):
        assert "1 run waits for a worker" in re.sub(r"\s+", " ", html_of(page, path)), path
        said = re.sub(r"\s+", " ", html_of(narrow, path))
        assert "for a worker" not in said, path
        assert "slots busy" not in said, path
        # That they are busy is of the installation as a whole.
        assert re.search(r'<span class="badge warn">busy</span>|jobs[^<]*busy', said), path


def test_it_is_asked_once_in_a_look_of_live_pages(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def count() -> None:
        asked.append(1)

    monkeypatch.setattr(busy, "saturation", count)
    with one_poll():
        for scopes in (("*",), ("booking.*",), ("stay.*",)):
            live.cells(0, scopes)
    assert asked == [1]


def test_what_runs_elsewhere_and_what_is_not_due_waits_for_no_worker(page: Client, job: Job, make_job: MakeJob) -> None:
    make_job("elsewhere", "the partner's crontab", name="partner-export")
    JobRun.objects.filter(pk=late(118).pk).update(job="partner-export")
    JobRun.objects.filter(pk=late(90).pk).update(waits=True)
    late(-60)
    assert busy.saturation() is None


def test_a_run_that_waits_is_late_while_it_does_and_is_said_to_wait(page: Client, job: Job) -> None:
    late(118)
    for path in (f"/jobs/{NAME}/", "/runs/"):
        html = html_of(page, path)
        assert '<span class="badge neutral">waits</span>' in html, path
        assert re.search(r'title="It was to begin then, and has not yet">due <time [^>]*>1 minute ago', html), path
        assert 'title="waits for a worker"' in html, path
        # Nor is there another word for it where one narrows the list; addresses and the API keep theirs.
        assert re.search(r'claimed"[^>]*>waits</(a|option)>', html), path
        assert ">claimed<" not in html, path
    assert "<title>" in html_of(page, "/jobs/")
    assert re.search(r"<title>[\d:.]+ waits</title>", html_of(page, "/jobs/"))


def test_one_of_whom_nobody_lives_is_called_what_it_is(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    def told(role: str) -> list[str]:
        dead = services.RoleStanding(role, "bad", "none alive", "")
        monkeypatch.setattr(services, "roles", lambda *_: [dead])
        return [each.text for each in concerns(Look(SYSTEM, 0)) if "alive" in each.text]

    assert told("jobs") == ["No worker for jobs is alive"]
    assert told("cron") == ["No node that decides slots is alive"]
    assert told("consumer") == ["No consumer is alive"]
