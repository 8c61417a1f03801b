"""Calendars that jobs share: kept once, held by each version of each job that has them, and told where they skip."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.core.errors import BadInput, Conflict, NotThere
from engine.cron.slots.planning import decide, due_after
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.verify import verify
from hbus_console.jobs.calendars import read_calendars
from hbus_console.jobs.known import KnownJobs, coming, cron_job
from hbus_console.jobs.models import Job, JobCalendar, JobCursor
from hbus_console.jobs.services import calendars as services
from hbus_console.jobs.services.calendars import (
    change_calendar,
    create_calendar,
    delete_calendar,
    standing_calendars,
)
from hbus_console.jobs.services.jobs import change_job, restore_version
from hbus_console.jobs.views import calendars as views
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
CHRISTMAS = int(datetime(2026, 12, 24, 12, tzinfo=UTC).timestamp())
DAY_S = 86_400


@pytest.fixture
def holidays() -> JobCalendar:
    return create_calendar(SYSTEM, "holidays-pt", "12-25 Christmas\n\n12-26", "kept once", description="Portugal")


@pytest.fixture
def job(holidays: JobCalendar, make_job: MakeJob) -> Job:
    return make_job("http", "https://1.1.1.1/", calendars="holidays-pt", excluded="12-31 the ledger is closed")


def days(row: Job, number: int) -> list[str]:
    slots = coming(row, CHRISTMAS)
    return [next(slots).utc[5:10] for _ in range(number)]


def test_what_it_says_is_left_out_beside_the_jobs_own_days_and_told_by_its_name(job: Job) -> None:
    assert days(job, 5) == ["12-27", "12-28", "12-29", "12-30", "01-01"]
    known = cron_job(job)
    decided = decide(known, due_after(known, CHRISTMAS, CHRISTMAS + 2 * DAY_S), CHRISTMAS + 2 * DAY_S)
    assert [each.skipped for each in decided] == [
        "left out: 12-25 Christmas (holidays-pt)",
        "left out: 12-26 (holidays-pt)",
    ]


def test_its_change_is_a_version_of_each_job_that_has_it_and_nodes_hear_of_it(job: Job, make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", "other")
    known = KnownJobs()
    list(known.changes())
    changed = change_calendar(SYSTEM, "holidays-pt", "12-25 Christmas", "no boxing day", description="Portugal")
    assert (changed.row.version, changed.jobs) == (2, 1)
    job.refresh_from_db()
    assert (job.version, days(job, 2)) == (2, ["12-26", "12-27"])
    assert [each.name for each in known.changes()] == [job.name]
    newest, first = job.versions.all()
    assert newest.settings["calendar_lines"] == "12-25 Christmas (holidays-pt)"
    assert first.settings["calendar_lines"].endswith("12-26 (holidays-pt)")
    of_job, of_calendar = AuditEntry.objects.order_by("-seq")[:2]
    assert (of_job.action, of_job.target, of_job.reason) == (
        "job.calendar",
        job.name,
        "the calendar holidays-pt: no boxing day",
    )
    assert (of_calendar.action, of_calendar.before["lines"]) == ("job.calendar_change", "12-25 Christmas\n\n12-26")
    # What it is for concerns no job.
    assert change_calendar(SYSTEM, "holidays-pt", "12-25 Christmas", "why", description="Spain").jobs == 0
    assert Job.objects.get(pk=job.pk).version == 2


def test_a_job_that_takes_it_up_while_it_is_changed_has_the_change(
    job: Job, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("http", "https://1.1.1.1/", "other")
    found = services.calendar

    def taken_up_meanwhile(name: str, *, lock: bool = False) -> JobCalendar:
        """Between the lock of the jobs that had it and that of the calendar."""
        change_job(SYSTEM, "other", {"calendars": name})
        return found(name, lock=lock)

    monkeypatch.setattr(services, "calendar", taken_up_meanwhile)
    change_calendar(SYSTEM, "holidays-pt", "12-25 Christmas", "no boxing day")
    held = dict(Job.objects.values_list("name", "calendar_lines"))
    assert held == dict.fromkeys(("close-of-day", "other"), "12-25 Christmas (holidays-pt)")


def test_the_same_again_changes_nothing_and_a_change_from_an_old_version_is_refused(job: Job) -> None:
    change_calendar(SYSTEM, "holidays-pt", "12-25 Christmas\n\n12-26", "why", description="Portugal")
    change_calendar(SYSTEM, "holidays-pt", "12-26", "why", version=1)
    with pytest.raises(BadInput, match="changed by somebody else"):
        change_calendar(SYSTEM, "holidays-pt", "12-27", "why", version=1)
    assert JobCalendar.objects.get().version == 2


def test_a_change_that_would_leave_a_job_no_slot_is_refused_and_changes_nothing(job: Job) -> None:
    with pytest.raises(BadInput, match=r"close-of-day cannot have it: .* leaves nothing") as refused:
        change_calendar(SYSTEM, "holidays-pt", "Mon-Sun", "a long rest")
    assert refused.value.field == "lines"
    assert (JobCalendar.objects.get().version, Job.objects.get().version) == (1, 1)


def test_a_job_takes_one_up_as_it_is_now_and_gives_it_back(job: Job) -> None:
    change_calendar(SYSTEM, "holidays-pt", "12-26", "why")
    without = change_job(SYSTEM, job.name, {"calendars": ""})
    assert (without.calendar_lines, days(without, 1)) == ("", ["12-25"])
    # Its settings were that it has the calendar: what that said then is of the past.
    assert restore_version(SYSTEM, job.name, 1, "why").calendar_lines == "12-26 (holidays-pt)"


@pytest.mark.parametrize(
    ("calendars", "why"),
    [
        ("nobodys", "There is no calendar nobodys"),
        ("Holidays", "is no name"),
        (" ".join("abcdefghijk"), "11 cal"),
    ],
)
def test_a_job_with_what_is_no_calendar_is_refused(make_job: MakeJob, calendars: str, why: str) -> None:
    with pytest.raises(BadInput, match=why) as refused:
        make_job("http", "https://1.1.1.1/", calendars=calendars)
    assert refused.value.field == "calendars"
    assert not Job.objects.exists()


def test_names_are_kept_in_order_each_once() -> None:
    assert read_calendars(" freezes, holidays freezes") == ["freezes", "holidays"]


def test_one_that_jobs_have_is_not_deleted_and_one_that_none_has_is(job: Job, make_job: MakeJob) -> None:
    for number in range(6):
        make_job("http", "https://1.1.1.1/", f"other-{number}", calendars="holidays-pt")
    with pytest.raises(Conflict, match=r"close-of-day, other-0, .* and 2 more leave out"):
        delete_calendar(SYSTEM, "holidays-pt", "holidays-pt", "why")
    # A name that begins alike is another.
    create_calendar(SYSTEM, "holidays", "12-24", "why")
    delete_calendar(SYSTEM, "holidays", "holidays", "why")
    Job.objects.all().delete()
    with pytest.raises(BadInput):
        delete_calendar(SYSTEM, "holidays-pt", "holidays", "why")
    delete_calendar(SYSTEM, "holidays-pt", "holidays-pt", "why")
    assert not JobCalendar.objects.exists()
    with pytest.raises(NotThere):
        change_calendar(SYSTEM, "holidays-pt", "12-25", "why")


@pytest.mark.parametrize(
    ("name", "lines", "field"),
    [("holidays-pt", "12-24", "name"), ("H", "12-24", "name"), ("a", "", "lines"), ("a", "25th", "lines")],
)
def test_what_is_no_calendar_is_refused_at_its_field(holidays: JobCalendar, name: str, lines: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        create_calendar(SYSTEM, name, lines, "why")
    assert (refused.value.field, bool(refused.value.remedy)) == (field, True)
    assert JobCalendar.objects.count() == 1


BROKEN = {"name": "H", "lines": "25th\n12-24\nnever", "description": "d" * 501, "reason": ""}


def test_all_that_is_wrong_with_it_is_told_at_once_each_at_its_field(
    holidays: JobCalendar, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    client = signed_in(Role.GOVERNOR)
    refused = client.post("/jobs/calendars/new/", BROKEN)
    assert (refused.status_code, set(refused.context["errors"])) == (422, set(BROKEN))
    page = refused.content.decode()
    for said in ("Line 1", "Line 3", "has 501 characters", "This act needs a reason"):
        assert said in page
    assert "Line 2" not in page
    taken = client.post("/jobs/calendars/new/", {**BROKEN, "name": "holidays-pt", "lines": "12-24"})
    assert set(taken.context["errors"]) == {"name", "description", "reason"}
    changed = client.post("/jobs/calendars/holidays-pt/", {**BROKEN, "revision": "1"})
    assert set(changed.context["errors"]) == {"lines", "description", "reason"}
    body = {name: BROKEN[name] for name in ("lines", "description", "reason")}
    told = calling(Role.GOVERNOR)("PUT", "job-calendars/holidays-pt", body)
    assert JobCalendar.objects.get().lines == "12-25 Christmas\n\n12-26"
    assert [each["field"] for each in told.json()["errors"]] == ["lines", "description", "reason"]


def test_only_who_governs_all_keeps_them_and_each_sees_their_own_jobs(job: Job, make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", "hotel.bill", calendars="holidays-pt")
    hotel = actor(Role.GOVERNOR, "hotel.*")
    with pytest.raises(Forbidden):
        change_calendar(hotel, "holidays-pt", "12-24", "why")
    (seen,) = standing_calendars(hotel)
    assert [each.name for each in seen.jobs] == ["hotel.bill"]


def test_pages_make_change_show_and_delete_one(make_job: MakeJob, signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.GOVERNOR)
    form = {"name": "freezes", "lines": "2026-12-24..2026-12-31 year's end", "description": "", "reason": "quiet"}
    refused = client.post("/jobs/calendars/new/", {**form, "lines": "never"})
    assert (refused.status_code, "Line 1" in refused.content.decode()) == (422, True)
    assert client.post("/jobs/calendars/new/", form, follow=True).status_code == 200
    make_job("http", "https://1.1.1.1/", calendars="freezes")
    page = client.get("/jobs/calendars/freezes/").content.decode()
    assert "close-of-day" in page
    assert "2026-12-24..2026-12-31 year&#x27;s end" in client.get("/jobs/calendars/").content.decode()
    changed = client.post("/jobs/calendars/freezes/", {**form, "lines": "12-24", "revision": "1"}, follow=True)
    assert "is changed, and with it 1 job" in changed.content.decode()
    described = {**form, "lines": "12-24", "description": "year's end", "revision": "2"}
    changed = client.post("/jobs/calendars/freezes/", described, follow=True)
    assert "Calendar freezes is changed, and no job with it." in changed.content.decode()
    settings = client.get("/jobs/close-of-day/settings/").content.decode()
    assert 'value="freezes"' in settings
    assert "12-24 (freezes)" in client.get("/jobs/close-of-day/versions/").content.decode()
    kept = client.post("/jobs/calendars/freezes/delete/", {"typed_name": "freezes", "reason": "why"}, follow=True)
    assert "close-of-day leave out its days" in kept.content.decode()
    Job.objects.all().delete()
    client.post("/jobs/calendars/freezes/delete/", {"typed_name": "freezes", "reason": "why"})
    assert "There is no calendar" in client.get("/jobs/calendars/").content.decode()


def test_the_preview_of_a_schedule_leaves_out_what_calendars_do(
    holidays: JobCalendar, signed_in: Callable[..., Client]
) -> None:
    JobCalendar.objects.update(lines="Sat,Sun")
    form = {"schedule": "0 3 * * *", "zone": "UTC", "calendars": "holidays-pt"}
    client = signed_in(Role.EDITOR)
    shown = client.post("/jobs/preview/", form).content.decode()
    found = re.findall(r"(\d{4}-\d\d-\d\d)T03:00:00Z", shown)
    assert len(found) >= 6
    assert {date.fromisoformat(day).weekday() for day in found} == set(range(5))
    assert "There is no calendar x" in client.post("/jobs/preview/", {**form, "calendars": "x"}).content.decode()


def test_over_http_it_is_made_and_changed_by_one_call(calling: Callable[..., Caller], make_job: MakeJob) -> None:
    api = calling(Role.GOVERNOR)
    body = {"lines": "12-25", "reason": "why"}
    made = api("PUT", "job-calendars/holidays", body)
    assert (made.status_code, made.json()["version"], made.json()["jobs"]) == (200, 1, [])
    make_job("http", "https://1.1.1.1/", calendars="holidays")
    assert api("PUT", "job-calendars/holidays", {**body, "lines": "12-26", "version": 1}).json()["version"] == 2
    assert api("PUT", "job-calendars/holidays", {**body, "lines": "12-27", "version": 1}).status_code == 409
    assert api("PUT", "job-calendars/none", {**body, "version": 1}).status_code == 404
    (listed,) = api("GET", "job-calendars").json()["results"]
    assert (listed["lines"], listed["jobs"]) == ("12-26", ["close-of-day"])
    assert api("GET", "jobs/close-of-day").json()["calendars"] == "holidays"
    assert api("DELETE", "job-calendars/holidays", {"typed_name": "holidays", "reason": "why"}).status_code == 409
    Job.objects.all().delete()
    assert api("DELETE", "job-calendars/holidays", {"typed_name": "holidays", "reason": "why"}).status_code == 204
    assert api("GET", "job-calendars/holidays").status_code == 404


def test_a_change_of_many_jobs_keeps_others_waiting_for_few_statements(
    holidays: JobCalendar, make_job: MakeJob
) -> None:
    """Of what each job costs, most is done before the calendar and its jobs are locked."""

    def asked(days: str) -> tuple[int, int]:
        with CaptureQueriesContext(connection) as queries:
            change_calendar(SYSTEM, "holidays-pt", days, "another day")
        said = [query["sql"] for query in queries]
        # The first is of the transaction, which in a test lies in another one.
        return len(said), next(at for at, sql in enumerate(said) if sql.startswith("SAVEPOINT"))

    for number in range(2):
        make_job("http", "https://1.1.1.1/", f"few-{number}", calendars="holidays-pt")
    few, before = asked("12-25")
    for number in range(20):
        make_job("http", "https://1.1.1.1/", f"many-{number:02}", calendars="holidays-pt")
    many, before_many = asked("12-26")
    assert (many, before_many) == (few, before)
    assert Job.objects.filter(calendar_lines="12-26 (holidays-pt)").count() == 22
    assert sorted(set(JobCursor.objects.values_list("version", flat=True))) == [2, 3]
    assert verify().holds


def test_what_became_of_a_job_between_is_what_its_new_version_holds(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    reckon = services.carried

    def and_then(*asked: Any) -> Any:
        found = reckon(*asked)
        if len(asked) == 3:
            change_job(SYSTEM, job.name, {"description": "changed meanwhile"})
        return found

    monkeypatch.setattr(services, "carried", and_then)
    change_calendar(SYSTEM, "holidays-pt", "12-25", "no boxing day", description="Portugal")
    newest, between, _ = Job.objects.get().versions.all()
    assert (newest.number, between.number) == (3, 2)
    assert (newest.settings["description"], newest.settings["calendar_lines"]) == (
        "changed meanwhile",
        "12-25 (holidays-pt)",
    )
    entry = AuditEntry.objects.get(seq=newest.audit_seq)
    assert (entry.before["description"], entry.after["description"]) == ("changed meanwhile", "changed meanwhile")


def test_the_page_of_a_calendar_lists_the_first_jobs_and_counts_all(
    job: Job, make_job: MakeJob, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("http", "https://1.1.1.1/", "zz-last", calendars="holidays-pt")
    page = signed_in()
    assert "/jobs/zz-last/" in page.get("/jobs/calendars/holidays-pt/").content.decode()
    monkeypatch.setattr(views, "MOST_LISTED", 1)
    html = page.get("/jobs/calendars/holidays-pt/").content.decode()
    assert (f"/jobs/{job.name}/" in html, "/jobs/zz-last/" in html) == (True, False)
    assert '<span class="meta">2</span>' in html
    assert "The first 1 by name are listed." in html


def test_a_list_of_calendars_looks_once_for_the_jobs_of_all(holidays: JobCalendar, make_job: MakeJob) -> None:
    create_calendar(SYSTEM, "holidays", "12-24", "kept once")
    make_job("http", "https://1.1.1.1/", "both", calendars="holidays holidays-pt")
    make_job("http", "https://1.1.1.1/", "one", calendars="holidays-pt")
    with CaptureQueriesContext(connection) as queries:
        standing = {each.row.name: [job.name for job in each.jobs] for each in standing_calendars(SYSTEM)}
    assert standing == {"holidays": ["both"], "holidays-pt": ["both", "one"]}
    assert len(queries) == 2
