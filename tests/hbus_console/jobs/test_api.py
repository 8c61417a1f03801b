"""Jobs and their runs over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import Job, JobRun, LogPiece
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

    begun = JobRun.objects.get(pk=run["id"]).decided_us + 250_000
    JobRun.objects.update(state=RunState.DONE, begun_us=begun, ended_us=begun + 1_500_000, epoch=1)
    LogPiece.objects.create(run=run["id"], seq=1, attempt=1, at_us=begun, text="closed\n")
    shown = call("GET", f"jobs/close-of-day/runs/{run['id']}").json()
    assert (shown["state"], shown["late_s"], shown["took_s"]) == ("done", pytest.approx(0.25), 1.5)
    log = call("GET", f"jobs/close-of-day/runs/{run['id']}/log").json()["results"]
    assert [(piece["seq"], piece["text"]) for piece in log] == [(1, "closed\n")]
    assert [each["id"] for each in call("GET", "runs?state=done").json()["results"]] == [run["id"]]
    assert call("GET", "jobs/close-of-day/runs?kind=schedule").json()["results"] == []
    assert call("GET", f"jobs/other/runs/{run['id']}").status_code == 404


def test_the_list_is_narrowed_as_its_page_is(call: Caller) -> None:
    call("POST", "jobs", {**NEW, **WHEN, "description": "Closes the Night", "tags": "books night"})
    for name in ("paused", "failing", "nobodys"):
        call("POST", "jobs", {**NEW, **WHEN, "name": name})
    call("POST", "jobs/paused/pause", {"reason": "a release"})
    Job.objects.filter(name="nobodys").update(team=None)
    ended = {"slot": 1_790_000_000, "state": "failed", "decided_us": 1, "changed_us": 1, "ended_us": 1}
    JobRun.objects.create(job="failing", version=1, **ended)

    def found(filters: str) -> list[str]:
        return [each["name"] for each in call("GET", f"jobs?{filters}").json()["results"]]

    assert found("") == ["close-of-day", "failing", "nobodys", "paused"]
    by_state = {"on": "close-of-day", "failing": "failing", "paused": "paused", "ownerless": "nobodys"}
    assert {state: found(f"state={state}") for state in by_state} == {state: [job] for state, job in by_state.items()}
    assert (found("tag=night"), found("tag=nigh")) == (["close-of-day"], [])
    # Of the name, and of the description.
    assert (found("q=e-of"), found("q=closes")) == (["close-of-day"], ["close-of-day"])
    assert (found("owner="), found("owner=other"), len(found("owner=ops"))) == (["nobodys"], [], 3)
    assert call("GET", "jobs?state=asleep").status_code == 422


def test_a_run_is_as_late_as_its_page_says(call: Caller) -> None:
    call("POST", "jobs", {**NEW, **WHEN})
    slot = 1_790_000_000
    ran = {"job": "close-of-day", "version": 1, "slot": slot, "state": "done", "decided_us": 1, "changed_us": 1}

    def late_s(begun_us: int, **more: Any) -> float | None:
        made = JobRun.objects.create(**ran, **more, begun_us=begun_us, ended_us=begun_us + 1, key=str(begun_us))
        shown = call("GET", f"jobs/close-of-day/runs/{made.pk}").json()["late_s"]
        made.delete()
        return shown  # type: ignore[no-any-return]

    # By its jitter, or by the pause before an attempt, it was to begin later than its slot.
    assert late_s((slot + 60) * 1_000_000 + 7, not_before_us=(slot + 60) * 1_000_000) == 0.000007
    # The clock of who began it was behind.
    assert late_s((slot - 1) * 1_000_000) == 0
    assert late_s((slot + 1) * 1_000_000, kind="ping") is None


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
