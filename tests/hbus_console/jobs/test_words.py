"""What pages of jobs say, to the word."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from engine.cron.slots.steps import RunState
from hbus_console.access.acts import Role
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.views import nodes
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.mark.parametrize(
    ("kind", "says"),
    [("manual", "after it was asked for"), ("after", "after it was due"), ("schedule", "after its slot")],
)
def test_a_run_began_after_what_it_has(page: Client, job: Job, kind: str, says: str) -> None:
    run = ran(kind=kind, key="" if kind == "schedule" else "run-1", asked_by="ana")
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    assert re.findall(r"<span>began [^<]* (after [^<]*)</span>", html) == [says]


def test_clocks_are_apart_whichever_is_ahead(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    class Store:
        def __init__(self, client: object) -> None:
            pass

        def time(self) -> float:
            return 7.25

    monkeypatch.setattr(nodes, "database_time", lambda: 7.0)
    monkeypatch.setattr(nodes, "slot_store", Store)
    assert nodes._apart_ms() == 250


def test_a_filter_is_refused_for_what_is_wrong_with_it(page: Client) -> None:
    answer = page.get("/runs/?job=%00x")
    assert answer.status_code == 400
    assert "Job holds control characters, or marks of direction." in answer.content.decode()
    assert "Job has 101 characters." in page.get(f"/runs/?job={'x' * 101}").content.decode()
    assert "holds control characters, or marks of direction." in page.get("/audit/?target=%00x").content.decode()


def test_what_is_wrong_with_a_schedule_is_a_sentence_and_a_wrong_zone_is_said_beside_it(page: Client) -> None:
    def said(schedule: str, zone: str) -> str:
        html = page.post("/jobs/preview/", {"schedule": schedule, "zone": zone}).content.decode()
        return " ".join(re.sub(r"<[^>]*>", "", html).split()).replace("&#x27;", "'")

    both = said("99 * * * *", "Mars/Base")
    assert "(at character 1 of 99 * * * *). Write" in both
    assert "'Mars/Base' is no time zone." in both
    assert "time zone" not in said("99 * * * *", "UTC")
    assert said("@daily", "Mars/Base").startswith("'Mars/Base' is no time zone.")


def test_a_second_cancel_is_told_of_which_run_that_is(signed_in: Callable[..., Client], job: Job) -> None:
    claimed = {"version": 1, "slot": 1, "state": "claimed", "decided_us": 1, "changed_us": 1}
    run = JobRun.objects.create(job=NAME, kind="manual", key="k", asked_by="ana", **claimed)
    client, address = signed_in(Role.OPERATOR), reverse("jobs:cancel", args=[NAME, run.pk])
    client.post(address, {"reason": "not now"})
    html = client.post(address, {"reason": "not now"}, follow=True).content.decode()
    assert f"your reason was not kept: run {run.pk} is cancelled already." in html


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("lost lease", "it lost its lease"),
        ("failed", "it failed"),
        ("done", "it is done"),
        ("skipped", "it is skipped"),
    ],
)
def test_the_course_of_a_run_ends_in_a_sentence(page: Client, job: Job, state: str, says: str) -> None:
    run = ran(RunState(state))
    assert f"<div>{says}<" in html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")


@pytest.mark.parametrize("path", ["/runs/", f"/jobs/{NAME}/"], ids=["runs", "job"])
def test_what_a_run_said_and_who_asked_for_it_stand_apart(page: Client, job: Job, path: str) -> None:
    ran(summary="8 steps", kind="manual", key="k", asked_by="admin", asked_why="watch")
    assert ">8 steps · admin: “watch”</span>" in html_of(page, path)
