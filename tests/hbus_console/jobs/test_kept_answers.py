"""An answer that is kept for a key shows nothing that was called secret since it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import get_resolver
from pytest_django import Settings

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.api.again import JobsView
from hbus_console.jobs.services.jobs import change_job, delete_job
from hbus_console.jobs.showing import MASK
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller

NAME, PIN = "close-of-day", "LATEPIN77"
GIVEN = {"pin": PIN, "hotel": "HB-1"}
LATE = {"properties": {"pin": {"writeOnly": True, "default": PIN}}}
pytestmark = pytest.mark.usefixtures("offered")
ACTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "trigger": ("POST", f"jobs/{NAME}/trigger", {"parameters": GIVEN, "reason": "why"}),
    "pause": ("POST", f"jobs/{NAME}/pause", {"reason": "why"}),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("deleted", [False, True], ids=["declared late", "deleted and made anew"])
def test_what_is_called_secret_since_is_not_told_again(
    make_job: MakeJob, calling: Callable[..., Caller], act: tuple[str, str, dict[str, Any]], deleted: bool
) -> None:
    """Found by a stranger: to the same person, for a day."""
    schema = {"properties": {"pin": {"default": PIN}}}
    make_job("http", "https://1.1.1.1/", parameters=GIVEN, parameters_schema=schema)
    api, key = calling(Role.OPERATOR), {"Idempotency-Key": "L1"}
    first = api(*act, **key)
    assert PIN in first.content.decode()
    same = api(*act, **key)
    assert (same.content, same["Idempotent-Replayed"]) == (first.content, "true")
    if deleted:
        delete_job(SYSTEM, NAME, NAME, "why")
        make_job("http", "https://1.1.1.1/", parameters_schema=LATE)
    else:
        change_job(SYSTEM, NAME, {"parameters_schema": LATE, "parameters": GIVEN})
    again = api(*act, **key)
    assert (again.status_code, again["Idempotent-Replayed"]) == (first.status_code, "true")
    assert PIN not in again.content.decode()
    shown = again.json().get("run", again.json())
    assert shown["parameters"]["pin"] == MASK


@pytest.mark.parametrize("deleted", [False, True], ids=["declared late", "deleted and made anew"])
def test_nor_is_its_schema_to_who_may_edit_jobs_and_have_them_run_no_programs(
    make_job: MakeJob, calling: Callable[..., Caller], settings: Settings, deleted: bool
) -> None:
    settings.HBUS_JOB_COMMANDS = ["sh"]
    make_job("command", "sh", parameters=GIVEN, parameters_schema={"properties": {"pin": {"default": PIN}}})
    api, key = calling(Role.EDITOR), {"Idempotency-Key": "L2"}
    assert PIN in api(*ACTS["pause"], **key).content.decode()
    if deleted:
        delete_job(SYSTEM, NAME, NAME, "why")
        # It says nothing of what the one before it kept.
        make_job("command", "sh")
    else:
        change_job(SYSTEM, NAME, {"parameters_schema": LATE, "parameters": GIVEN})
    again = api(*ACTS["pause"], **key)
    assert again.headers.get("Idempotent-Replayed") == "true"
    assert PIN not in again.content.decode()


def test_each_act_on_a_job_gives_its_kept_answers_so() -> None:
    views: dict[str, Any] = {}

    def walk(patterns: Any, before: str) -> None:
        for each in patterns:
            path = before + str(each.pattern)
            if hasattr(each, "url_patterns"):
                walk(each.url_patterns, path)
            elif path.startswith("api/v1/jobs") and hasattr(each.callback, "view_class"):
                views[path] = each.callback.view_class

    walk(get_resolver().url_patterns, "")
    acting = {path: view for path, view in views.items() if {"post", "patch"} & set(vars(view))}
    others = sorted(path for path, view in acting.items() if not issubclass(view, JobsView))
    assert len(acting) > 6
    # These show no parameters, or nothing is kept of them.
    assert [path.rpartition("/")[2] for path in others] == ["renew", "dry-run"]
