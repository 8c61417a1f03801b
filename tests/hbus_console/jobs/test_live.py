"""Pages of jobs hear of what others do: of each such act, one of the names that the page shows is told."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial

import pytest
from django.test import Client

from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.models import Job, JobRun, PingAddress
from hbus_console.jobs.services.calendars import change_calendar, create_calendar, delete_calendar
from hbus_console.jobs.services.jobs import change_job, delete_job
from hbus_console.jobs.services.tags import set_limit
from hbus_console.teams.models import Team
from hbus_console.teams.services import change_team
from hbus_console.ui import live
from hbus_console.ui.changes import Changes, Scopes, merged
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.jobs.test_pages import page
from tests.hbus_console.ui.conftest import admin, browse, make_user

__all__ = ["admin", "browse", "make_user", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
FOLLOWED, FOLLOWER = "hotel.close-of-day", "hotel.invoices"

Hears = Callable[..., bool]


@pytest.fixture
def hears(page: Client, make_job: MakeJob) -> Hears:
    """Whether a page is told of an act, for who sees ``scopes``."""
    make_job("http", "https://1.1.1.1/", name=FOLLOWED)
    make_job("http", "https://1.1.1.1/", name=FOLLOWER, schedule="@never", after=f"{FOLLOWED} success")

    def find(path: str, act: Callable[[], object], scopes: Scopes = ("*",)) -> bool:
        shown = re.search(r'data-shows="([^"]*)"', page.get(path).content.decode())
        assert shown
        told, now_ms = Changes(), round(time.time() * 1000)
        for number, between in ((1, act), (2, lambda: None)):
            told.note(number, scopes, merged(part.marks for part in live.cells(now_ms, scopes)))
            between()
        shows = shown.group(1).split()
        # As live.js compares them.
        return any(
            name == each or name.startswith((f"{each}:", f"{each}/"))
            for name in told.since(1, scopes)
            for each in shows
        )

    return find


@pytest.mark.parametrize("scopes", [("*",), (FOLLOWED,)], ids=["everything", "one job"])
def test_the_page_of_a_job_hears_who_runs_after_it(hears: Hears, scopes: Scopes) -> None:
    path = f"/jobs/{FOLLOWED}/"
    assert not hears(path, lambda: None, scopes)
    assert hears(path, lambda: change_job(SYSTEM, FOLLOWER, {"after": f"{FOLLOWED} any"}), scopes)
    assert hears(path, lambda: change_job(SYSTEM, FOLLOWER, {"after": ""}), scopes)
    assert hears(path, lambda: change_job(SYSTEM, FOLLOWER, {"after": FOLLOWED}), scopes)
    assert hears(path, lambda: delete_job(SYSTEM, FOLLOWER, FOLLOWER, "no more"), scopes)


def test_the_page_of_a_job_hears_of_its_pings_and_of_its_owner(hears: Hears) -> None:
    row = PingAddress.objects.get_or_create(job=Job.objects.get(name=FOLLOWED))[0]
    path, now_us = f"/jobs/{FOLLOWED}/", time.time_ns() // 1_000
    assert hears(path, lambda: PingAddress.objects.filter(pk=row.pk).update(refused_us=now_us))
    assert hears(path, lambda: PingAddress.objects.filter(pk=row.pk).update(heard_us=now_us, heard="start"))
    assert hears(path, lambda: change_team(SYSTEM, Team.objects.get().name, {"name": "night desk"}), (FOLLOWED,))


@pytest.mark.parametrize("scopes", [("*",), (FOLLOWED,)], ids=["everything", "one job"])
def test_the_calendars_hear_of_those_that_no_job_has(hears: Hears, scopes: Scopes) -> None:
    path = "/jobs/calendars/"
    assert not hears(path, lambda: None, scopes)
    assert hears(path, lambda: create_calendar(SYSTEM, "holidays", "12-25", "kept once"), scopes)
    assert hears(path, lambda: change_calendar(SYSTEM, "holidays", "12-25", "what for", description="All"), scopes)
    assert hears(path, lambda: delete_calendar(SYSTEM, "holidays", "holidays", "unused"), scopes)


def test_tags_hear_of_runs_that_one_may_see_and_of_no_others(hears: Hears) -> None:
    run = {"version": 1, "slot": 1, "state": "running", "decided_us": 1}
    begin = partial(JobRun.objects.create, changed_us=time.time_ns() // 1_000, **run)
    assert not hears("/jobs/tags/", partial(begin, job=FOLLOWER), (FOLLOWED,))
    assert hears("/jobs/tags/", partial(begin, job=FOLLOWED), (FOLLOWED,))


def test_calendars_and_tags_hear_of_a_job_that_is_gone_and_of_a_limit(hears: Hears) -> None:
    assert hears("/jobs/tags/", lambda: set_limit(SYSTEM, "database", 3, "it is slow"))
    assert hears("/jobs/tags/", lambda: delete_job(SYSTEM, FOLLOWER, FOLLOWER, "no more"))
    assert hears("/jobs/calendars/", lambda: delete_job(SYSTEM, FOLLOWED, FOLLOWED, "no more"))
