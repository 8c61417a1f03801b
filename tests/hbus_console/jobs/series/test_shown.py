"""Series of jobs as a job's page, its charts and the endpoint show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.core.clock import ManualClock, to_rfc3339
from hbus_console.access.acts import Role
from hbus_console.jobs.api import series as series_api
from hbus_console.jobs.models import Job
from hbus_console.jobs.series.rows import JobSeriesPoint, JobsRolledUp
from hbus_console.jobs.views import series as series_views
from hbus_console.ui.spans import MOST_POINTS
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.jobs.series.planted import DAY_S, HOUR_S

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

JOB = "night.close"
NOW_S = 1_795_867_200 + 90
HOUR = NOW_S // HOUR_S * HOUR_S
SignedIn = Callable[..., Client]


@pytest.fixture
def rolled(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Two hours of which one is going on; rolled up a minute ago."""
    for module in (series_views, series_api):
        monkeypatch.setattr(module, "_clock", ManualClock(NOW_S * 1_000))
    for back, counts in enumerate(
        (
            {"runs": 5, "done": 5},
            {"runs": 9, "begun": 8, "done": 4, "failed": 1, "lost": 1, "abandoned": 2, "skipped": 1, "retried": 3}
            | {"p99_ms": 8.5, "late_longest_ms": 70.0},
        )
    ):
        JobSeriesPoint.objects.create(job=JOB, resolution="hour", at=HOUR - back * HOUR_S, **counts)
    JobsRolledUp.objects.create(pk=1, at_ms=(NOW_S - 60) * 1_000)
    return make_job("http", "https://1.1.1.1/", name=JOB)


@pytest.fixture
def viewer(rolled: Job, signed_in: SignedIn) -> Client:
    return signed_in(Role.VIEWER, "night.*")


def values(client: Client, what: str, name: str) -> list[float | None]:
    answer = client.get(f"/jobs/{JOB}/history/chart/?range=7d&what={what}")
    assert answer.status_code == 200
    found = answer.json()
    assert found["t"][-1] == HOUR - HOUR_S, "the hour that goes on is left out"
    (line,) = [each for each in found["series"] if each["name"] == name]
    return list(line["values"])


def test_a_chart_has_a_value_for_each_span_that_is_over(viewer: Client) -> None:
    assert values(viewer, "runs", "done")[-2:] == [0, 4]
    assert values(viewer, "runs", "failed")[-2:] == [0, 4]
    assert values(viewer, "runs", "skipped")[-1] == 1
    assert values(viewer, "runs", "tried again")[-1] == 3
    assert values(viewer, "failures", "runs that failed")[-2:] == [None, 50]
    assert values(viewer, "duration", "99 of 100 within")[-2:] == [None, 8.5]
    assert values(viewer, "lateness", "longest")[-2:] == [None, 70]
    assert viewer.get(f"/jobs/{JOB}/history/chart/?what=weather").status_code == 400


def test_the_page_draws_them_and_the_page_of_the_job_leads_there(viewer: Client) -> None:
    shown = viewer.get(f"/jobs/{JOB}/history/?range=7d").content.decode()
    assert "Runs by the hour" in shown
    assert f"/jobs/{JOB}/history/chart/?what=lateness" in shown
    assert f'href="/jobs/{JOB}/history/' in viewer.get(f"/jobs/{JOB}/").content.decode()


def test_before_the_first_roll_up_the_page_says_so(viewer: Client) -> None:
    JobsRolledUp.objects.all().delete()
    assert "Not rolled up yet" in viewer.get(f"/jobs/{JOB}/history/").content.decode()


def api(client: Client, query: str, status: int = 200, job: str = JOB) -> dict[str, Any]:
    answer = client.get(f"/api/v1/jobs/{job}/series?{query}")
    assert answer.status_code == status
    found: dict[str, Any] = answer.json()
    return found


def span(start_s: int, end_s: int) -> str:
    return f"from={start_s * 1_000}&to={end_s * 1_000}"


def test_the_endpoint_tells_points_and_when_they_were_made(viewer: Client) -> None:
    found = api(viewer, f"resolution=hour&{span(HOUR - DAY_S, HOUR + HOUR_S)}")
    assert (found["job"], found["rolled_up_at"]) == (JOB, to_rfc3339((NOW_S - 60) * 1_000))
    before, now = found["points"]
    assert (before["at"], now["at"]) == (to_rfc3339((HOUR - HOUR_S) * 1_000), to_rfc3339(HOUR * 1_000))
    assert {name: value for name, value in before.items() if value} == {
        "at": before["at"],
        "runs": 9,
        "begun": 8,
        "done": 4,
        "failed": 1,
        "lost": 1,
        "abandoned": 2,
        "skipped": 1,
        "retried": 3,
        "p99_ms": 8.5,
        "late_longest_ms": 70.0,
    }
    # From the middle of a span on it is not asked for.
    later = api(viewer, f"resolution=hour&{span(HOUR - HOUR_S + 1, HOUR + HOUR_S)}")
    assert [each["done"] for each in later["points"]] == [5]


def test_the_endpoint_chooses_the_resolution_and_refuses_what_is_too_much(viewer: Client) -> None:
    assert api(viewer, "")["resolution"] == "minute"
    assert api(viewer, span(NOW_S - 7 * DAY_S, NOW_S))["resolution"] == "hour"
    assert api(viewer, span(NOW_S - 60 * DAY_S, NOW_S))["resolution"] == "day"
    assert api(viewer, f"resolution=minute&{span(HOUR - MOST_POINTS * 60, HOUR)}")["points"] == []
    refused = api(viewer, f"resolution=minute&{span(HOUR - (MOST_POINTS + 1) * 60, HOUR)}", 422)
    assert "2,001 points by the minute" in str(refused)
    assert "'field': 'resolution'" in str(api(viewer, "resolution=year", 422))


def test_of_a_job_that_was_deleted_the_endpoint_tells_and_there_is_no_page(viewer: Client, rolled: Job) -> None:
    rolled.delete()
    assert len(api(viewer, f"resolution=hour&{span(HOUR - DAY_S, NOW_S)}")["points"]) == 2
    assert viewer.get(f"/jobs/{JOB}/history/").status_code == 404


def test_who_may_not_see_the_job_sees_no_series(rolled: Job, signed_in: SignedIn) -> None:
    other = signed_in(Role.ADMIN, "payment.*")
    for address in (f"/jobs/{JOB}/history/", f"/jobs/{JOB}/history/chart/", f"/api/v1/jobs/{JOB}/series"):
        assert other.get(address).status_code in (403, 404)
