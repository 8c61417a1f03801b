"""Jobs and their runs over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.services import triggering
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Caller = Callable[..., Any]
NEW = {"name": "close-of-day", "owner": "ops", "kind": "http", "target": "https://1.1.1.1/close"}
WHEN = {"schedule": "0 3 * * *", "zone": "Europe/Lisbon"}


@pytest.fixture
def call(calling: Callable[..., Caller], make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setattr(triggering, "offer", lambda _: None)
    return calling()


def test_a_jobs_whole_life(call: Caller) -> None:
    made = call("POST", "jobs", {**NEW, **WHEN, "reason": "new"})
    assert (made.status_code, made.json()["owner"], made.json()["revision"]) == (201, "ops", 1), made.content
    changed = call("PATCH", "jobs/close-of-day", {"timeout_s": 60, "revision": 1})
    assert (changed.status_code, changed.json()["timeout_s"], changed.headers["ETag"]) == (200, 60, '"2"')
    outdated = call("PATCH", "jobs/close-of-day", {"timeout_s": 61, "revision": 1})
    assert outdated.status_code == 409
    assert call("POST", "jobs/close-of-day/pause", {"reason": "a release"}).json()["paused"]
    assert not call("POST", "jobs/close-of-day/resume").json()["paused"]
    versions = call("GET", "jobs/close-of-day/versions").json()["results"]
    assert [each["number"] for each in versions] == [4, 3, 2, 1]
    restored = call("POST", "jobs/close-of-day/versions/1/restore", {"reason": "it was better"}).json()
    assert (restored["timeout_s"], restored["revision"]) == (3600, 5)
    gone = call("DELETE", "jobs/close-of-day", {"typed_name": "close-of-day", "reason": "old"})
    assert gone.status_code == 204
    assert call("GET", "jobs/close-of-day").status_code == 404


def test_its_slots_to_come_are_told_on_the_wall_and_in_utc(call: Caller) -> None:
    call("POST", "jobs", {**NEW, **WHEN})
    slots = call("GET", "jobs/close-of-day/slots?limit=3").json()["results"]
    assert len(slots) == 3
    assert all(slot["local"].startswith(slot["local"][:11] + "03:00:00") for slot in slots)


def test_a_run_is_triggered_once_a_key_and_read_with_its_log(call: Caller) -> None:
    call("POST", "jobs", {**NEW, **WHEN})
    body = {"parameters": {"hotel": "HB-1", "password": "x"}, "reason": "why", "key": "k"}
    made = call("POST", "jobs/close-of-day/trigger", body)
    assert (made.status_code, made.json()["new"]) == (201, True), made.content
    run = made.json()["run"]
    assert (run["state"], run["kind"], run["asked_by"], run["asked_why"]) == (
        "claimed",
        "manual",
        "p-admin-1/test",
        "why",
    )
    assert run["parameters"] == {"hotel": "HB-1", "password": "•••"}
    again = call("POST", "jobs/close-of-day/trigger", body)
    assert (again.status_code, again.json()["new"], again.json()["run"]["id"]) == (200, False, run["id"])

    begun = JobRun.objects.get(pk=run["id"]).slot * 1_000_000 + 250_000
    JobRun.objects.update(state=RunState.DONE, begun_us=begun, ended_us=begun + 1_500_000, epoch=1)
    LogPiece.objects.create(run=run["id"], seq=1, attempt=1, at_us=begun, text="closed\n")
    shown = call("GET", f"jobs/close-of-day/runs/{run['id']}").json()
    assert (shown["state"], shown["late_s"], shown["took_s"]) == ("done", pytest.approx(0.25), 1.5)
    log = call("GET", f"jobs/close-of-day/runs/{run['id']}/log").json()["results"]
    assert [(piece["seq"], piece["text"]) for piece in log] == [(1, "closed\n")]
    assert [each["id"] for each in call("GET", "runs?state=done").json()["results"]] == [run["id"]]
    assert call("GET", "jobs/close-of-day/runs?kind=schedule").json()["results"] == []
    assert call("GET", f"jobs/other/runs/{run['id']}").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schedule": "61 * * * *"}, "schedule"),
        ({"kind": "magic"}, "kind"),
        ({"kind": "function", "target": "no.such"}, "target"),
        ({"kind": "publish", "target": "no.such"}, "target"),
        ({"kind": "command", "target": "rm -rf /"}, "target"),
        ({"target": "http://127.0.0.1/"}, "target"),
        ({"options": {"method": "BREW"}}, "options"),
        ({"options": {"headers": {"Host": "x"}}}, "options"),
        ({"options": {"colour": "red"}}, "options"),
        ({"parameters_schema": {"type": "thing"}}, "parameters_schema"),
        ({"parameters_schema": {"type": "object", "required": ["hotel"]}}, "parameters"),
        ({"timeout_s": -1}, "timeout_s"),
    ],
)
def test_bad_input_names_its_field_and_a_remedy(call: Caller, body: dict[str, Any], field: str) -> None:
    refused = call("POST", "jobs", {**NEW, **WHEN, **body})
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.content
    assert refused.json()["remedy"]
