"""``manage.py job trigger`` makes one run a key, follows it to its end, and says how that was."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command

from engine.core.errors import BadInput, HbusError
from engine.cron.slots.steps import RunState
from hbus_console.jobs.management.commands import job as command
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.services import triggering
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture(autouse=True)
def _made(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggering, "offer", lambda _: None)
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all"})


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("job", "trigger", "close-of-day", "--reason", "the night was long", *arguments, stdout=out)
    return out.getvalue()


def test_it_makes_one_run_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(run("--key", "k", "--parameters", '{"hotel": "HB-1"}', "--json"))
    made = JobRun.objects.get()
    assert told == {
        "id": made.pk, "job": "close-of-day", "new": True, "state": "claimed", "reason": "", "summary": ""
    }  # fmt: skip
    assert (made.parameters, made.asked_why) == ({"hotel": "HB-1"}, "the night was long")
    assert "was asked for before" in run("--key", "k", "--parameters", '{"hotel": "HB-1"}')


@pytest.mark.parametrize("parameters", ["{", "[1]", "7"])
def test_parameters_that_are_no_object_are_refused(parameters: str) -> None:
    with pytest.raises(BadInput) as refused:
        run("--parameters", parameters)
    assert refused.value.field == "parameters"
    assert not JobRun.objects.exists()


@pytest.mark.parametrize("state", [RunState.DONE, RunState.FAILED])
def test_it_follows_the_log_to_the_end(state: RunState, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def work(seconds: float) -> None:
        looks.append(seconds)
        made = JobRun.objects.get()
        LogPiece.objects.create(run=made.pk, seq=len(looks), attempt=1, at_us=1, text=f"line {len(looks)}\n")
        if len(looks) == 2:
            ended: dict[str, Any] = {"state": state, "reason": "no partner", "ended_us": 1, "summary": "two lines"}
            JobRun.objects.update(**ended)

    monkeypatch.setattr(command.time, "sleep", work)
    if state is RunState.DONE:
        assert run("--wait").endswith("waits for a worker.\nline 1\nline 2\nIt is done. two lines\n")
    else:
        with pytest.raises(HbusError, match="is failed: no partner"):
            run("--wait")
