"""A job elsewhere over the API: made, read with its ping address, and given another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.jobs.models import JobRun
from hbus_console.teams.models import Team
from tests.hbus_console.jobs.pings.conftest import HOUR, NAME, WHERE, Bell

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Caller = Callable[..., Any]


def test_it_is_made_read_and_given_another_address(calling: Callable[..., Caller]) -> None:
    Team.objects.create(name="ops", contact="#ops")
    call = calling()
    body = {"name": NAME, "owner": "ops", "kind": "elsewhere", "target": WHERE, "schedule": "@hourly", "grace_s": 600}
    made = call("POST", "jobs", body)
    assert (made.status_code, made.json()["kind"], "hbp_" in made.content.decode()) == (201, "elsewhere", False)
    shown = call("GET", f"jobs/{NAME}/ping").json()
    assert shown["address"].startswith("http://testserver/ping/hbp_")
    assert (shown["heard"], shown["heard_at"], shown["refused_at"]) == ("", None, None)
    path = shown["address"].removeprefix("http://testserver")
    assert Client().post(f"{path}/start").status_code == 200
    assert call("GET", f"jobs/{NAME}/ping").json()["heard"] == "start"
    renewed = call("POST", f"jobs/{NAME}/ping/renew", {"reason": "it leaked"}).json()
    assert renewed["address"] != shown["address"]
    assert Client().post(path).status_code == 404
    keyed = call("POST", f"jobs/{NAME}/ping/renew", {"reason": "again"}, **{"Idempotency-Key": "k"})
    assert (keyed.status_code, keyed.json()["field"]) == (422, "Idempotency-Key")


def test_it_is_for_who_may_change_the_job(calling: Callable[..., Caller], bell: Bell) -> None:
    assert calling(Role.OPERATOR)("GET", f"jobs/{NAME}/ping").status_code == 403
    assert calling(Role.EDITOR, "other.*")("GET", f"jobs/{NAME}/ping").status_code == 403
    assert calling(Role.EDITOR)("GET", f"jobs/{NAME}/ping").status_code == 200


def test_its_runs_are_read_as_any_and_none_is_asked_for(calling: Callable[..., Caller], bell: Bell) -> None:
    run = bell.ping(30, body=b"42 files")
    call = calling()
    shown = call("GET", f"jobs/{NAME}/runs/{run.pk}").json()
    assert (shown["state"], shown["took_s"], shown["late_s"], shown["owner"]) == ("done", None, None, WHERE)
    (piece,) = call("GET", f"jobs/{NAME}/runs/{run.pk}/log").json()["results"]
    assert piece["text"].endswith("\n42 files\n")
    refused = call("POST", f"jobs/{NAME}/trigger", {"reason": "now"})
    assert (refused.status_code, refused.json()["remedy"]) == (422, f"Start it there: {WHERE}.")
    bell.ping(31)
    assert len(call("GET", f"jobs/{NAME}/runs?kind=ping").json()["results"]) == 1
    assert JobRun.objects.filter(slot__gt=HOUR).count() == 1
