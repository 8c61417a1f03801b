"""A simulation tells what would run in a span of time, on the wall of each zone, and what would run beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from engine.cron.expression import Slot
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs import simulating
from hbus_console.jobs.known import coming
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.jobs import pause_job
from hbus_console.jobs.simulating import simulate
from hbus_console.jobs.views import simulation
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
#: 2027-03-28, when clocks go forward in Europe, and two days.
BEGIN, DAY = 1_806_192_000, 86_400


@pytest.fixture
def three(make_job: MakeJob) -> list[Job]:
    for name, schedule in (("close", "0 3 * * *"), ("bill", "30 3 * * *"), ("ticks", "* * * * * *")):
        make_job("http", "https://1.1.1.1/", name=name)
        Job.objects.filter(name=name).update(schedule=schedule, zone="Europe/Lisbon")
    return list(Job.objects.order_by("name"))


def test_slots_are_told_with_what_runs_beside_them(three: list[Job]) -> None:
    found = simulate(three, {"close": 3_600.0}, BEGIN, BEGIN + 2 * DAY)
    assert [(each.job, each.slot.utc, each.beside) for each in found.planned] == [
        ("close", "2027-03-28T02:00:00Z", ()),
        ("bill", "2027-03-28T02:30:00Z", ("close",)),
        ("close", "2027-03-29T02:00:00Z", ()),
        ("bill", "2027-03-29T02:30:00Z", ("close",)),
    ]
    # One that runs each second has more slots than anybody looks at, which is told.
    assert (found.collisions, found.dense, found.unmet, found.cut) == (2, ["ticks"], ["ticks"], False)
    assert simulate(three, {}, BEGIN, BEGIN + DAY).collisions == 0


def test_what_runs_too_often_to_be_listed_is_beside_all_the_same(
    three: list[Job], signed_in: Callable[..., Client]
) -> None:
    Job.objects.filter(name="ticks").update(schedule="*/2 * * * *")
    found = simulate(list(Job.objects.order_by("name")), {}, BEGIN, BEGIN + DAY)
    assert (found.dense, found.unmet) == (["ticks"], [])
    assert [each.beside for each in found.planned] == [("ticks",), ("ticks",)]
    # Every seven minutes, and never together with these: where it takes that long it still runs.
    Job.objects.filter(name="ticks").update(schedule="*/2 5-23 * * *")
    Job.objects.filter(name="close").update(schedule="0 12 * * *")
    apart = list(Job.objects.order_by("name"))
    found = simulate(apart, {}, BEGIN, BEGIN + DAY)
    assert {each.job: each.beside for each in found.planned} == {"bill": (), "close": ("ticks",)}
    Job.objects.filter(name="close").update(schedule="3 0 * * *")
    apart = list(Job.objects.order_by("name"))
    late = simulate(apart, {"ticks": 7_200.0}, BEGIN, BEGIN + 2 * DAY)
    assert [each.beside for each in late.planned if each.job == "close"] == [(), ("ticks",), ("ticks",)]
    page = signed_in()
    html = page.get("/jobs/simulation/?begin=2027-03-28&days=1").content.decode()
    assert "Nor is it reckoned" not in html
    Job.objects.filter(name="ticks").update(schedule="* * * * * *")
    html = page.get("/jobs/simulation/?begin=2027-03-28&days=1").content.decode()
    assert "Nor is it reckoned where these are beside another, for there are too many: ticks." in html


def test_so_many_slots_are_reckoned_of_all_jobs_together(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a reviewer: each job of one a second was reckoned to the bound, and lowered it for nobody."""
    for name, schedule in (("a", "* * * * * *"), ("b", "* * * * * *"), ("c", "* * * * * *"), ("d", "*/2 * * * *")):
        make_job("http", "https://1.1.1.1/", name=name)
        Job.objects.filter(name=name).update(schedule=schedule)
    walked: list[str] = []

    def counted(job: Job, after: int) -> Iterator[Slot]:
        for slot in coming(job, after):
            walked.append(job.name)
            yield slot

    monkeypatch.setattr(simulating, "coming", counted)
    found = simulate(list(Job.objects.order_by("name")), {}, BEGIN, BEGIN + DAY)
    # The one that is rare enough is reckoned, however many stand before it.
    assert (found.dense, found.unmet) == (["a", "b", "c", "d"], ["a", "b", "c"])
    assert len(walked) <= 4 * (simulating.MOST_OF_ONE + 2) + simulating.MOST_DENSE


def test_what_runs_longer_than_until_its_next_slot_runs_beside_itself(three: list[Job]) -> None:
    Job.objects.filter(name="bill").update(schedule="*/30 3 * * *")
    (bill,) = Job.objects.filter(name="bill")
    assert [each.beside for each in simulate([bill], {"bill": 1_801.0}, BEGIN, BEGIN + DAY).planned] == [(), ("bill",)]
    assert simulate([bill], {"bill": 1_800.0}, BEGIN, BEGIN + DAY).collisions == 0


def test_what_has_too_many_slots_to_list_is_not_said_to_run_never(
    three: list[Job], signed_in: Callable[..., Client]
) -> None:
    html = signed_in().get("/jobs/simulation/?q=ticks&begin=2027-03-28&days=1").content.decode()
    assert "Nothing would run" not in html
    assert "Too many slots to list" in html


def test_what_is_held_runs_nothing(three: list[Job]) -> None:
    pause_job(SYSTEM, "close", "a release")
    Job.objects.filter(name="bill").update(team=None)
    found = simulate(list(Job.objects.order_by("name")), {}, BEGIN, BEGIN + DAY)
    assert (found.planned, found.held) == ([], ["bill", "close"])


def test_the_page_reckons_from_midnight_to_midnight_of_a_zone(
    three: list[Job], signed_in: Callable[..., Client]
) -> None:
    page = signed_in()
    html = page.get("/jobs/simulation/?begin=2027-03-28&days=1&zone=Europe/Lisbon").content.decode()
    assert "2027-03-28 03:00:00 +01:00" in html
    assert "2027-03-28 00:00 to 2027-03-29 00:00 in Europe/Lisbon" in html
    assert "2 slots,\n    and more than 300 of one job" in html
    assert html.count('class="next"') == 2
    for wrong in ("begin=tomorrow", "days=90", "zone=Mars"):
        answer = page.get(f"/jobs/simulation/?{wrong}")
        assert answer.status_code == 422, wrong
        assert "notice bad" in answer.content.decode()


def test_the_page_lists_the_first_slots_and_counts_all(
    three: list[Job], signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "MOST_LISTED", 3)
    page, path = signed_in(), "/jobs/simulation/?begin=2027-03-28&days=2&zone=Europe/Lisbon"
    html = page.get(path).content.decode()
    assert html.count('<th scope="row">') == 3
    assert "4 slots" in html
    assert "The first 3 are listed." in html
    monkeypatch.setattr(simulation, "MOST_LISTED", 4)
    assert "are listed" not in page.get(path).content.decode()
