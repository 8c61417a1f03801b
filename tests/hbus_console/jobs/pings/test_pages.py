"""The pages tell of a job elsewhere what is so, and show its ping address to who may change it, in one place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.kinds.elsewhere import DONE_HERE
from hbus_console.jobs.models import Job, JobRun, PingAddress
from hbus_console.jobs.pings.code import ready_lines
from hbus_console.jobs.pings.ping import PingWord
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.services.pings import RATE
from hbus_console.teams.models import Team
from hbus_console.ui import pages
from tests.hbus_console.jobs.pings.conftest import HOUR, NAME, WHERE, Bell
from tests.hbus_console.jobs.test_pages import WHOLE
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
FORM = {**WHOLE, "name": "nightly", "kind": "elsewhere", "target": WHERE, "grace_s": "900"}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock((HOUR + 300) * 1_000)
    for module in ("lists", "job", "runs", "nodes", "forms"):
        monkeypatch.setattr(f"hbus_console.jobs.views.{module}.clock", clock)
    return clock


@pytest.fixture
def page(signed_in: Callable[..., Client], now: ManualClock) -> Client:
    assert pages.clock is not now
    return signed_in()


def html_of(page: Client, address: str) -> str:
    answer = page.get(address)
    assert answer.status_code == 200, answer.content
    return str(answer.content.decode())


def test_a_form_makes_it_and_its_page_leads_to_its_address(page: Client, db: None) -> None:
    Team.objects.create(name="ops", contact="#ops")
    form = html_of(page, "/jobs/new/")
    assert '<option value="elsewhere">elsewhere: watched by pings</option>' in form
    assert form.count('<div class="done-here">') == len(DONE_HERE)
    made = page.post("/jobs/new/", FORM)
    assert (made.status_code, made["Location"]) == (302, "/jobs/nightly/"), made.content
    html = html_of(page, "/jobs/nightly/")
    assert "None came yet." in html
    assert 'href="/jobs/nightly/ping/"' in html
    assert f"runs elsewhere: {WHERE}" in html
    assert "Its end comes within, in seconds" in html
    assert "A run that comes while another runs" not in html
    assert "acts as" not in html
    assert "Run now" not in html


def test_what_is_hidden_from_the_form_is_shown_where_it_is_refused(page: Client, db: None) -> None:
    Team.objects.create(name="ops", contact="#ops")
    refused = page.post("/jobs/new/", {**FORM, "overlap": "skip"})
    assert refused.status_code == 422
    assert "means nothing to a job that runs elsewhere" in refused.content.decode()
    assert not Job.objects.exists()


def test_the_address_stands_on_its_own_page_alone(page: Client, bell: Bell) -> None:
    run = bell.ping(10, PingWord.START)
    url = f"http://testserver/ping/{bell.code}"
    html = html_of(page, f"/jobs/{NAME}/ping/")
    assert html.count(url) >= 4
    assert "crontab" in html
    for other in ("/jobs/", f"/jobs/{NAME}/", f"/jobs/{NAME}/settings/", f"/jobs/{NAME}/versions/", "/runs/"):
        assert bell.code not in html_of(page, other), other
    for other in (f"/jobs/{NAME}/runs/{run.pk}/", "/audit/", "/jobs/nodes/", "/jobs/simulation/"):
        assert bell.code not in html_of(page, other), other
    answer = page.get(f"/jobs/{NAME}/ping/")
    assert "no-store" in answer["Cache-Control"]


def test_who_may_not_change_the_job_does_not_see_it(signed_in: Callable[..., Client], bell: Bell) -> None:
    operator = signed_in(Role.OPERATOR)
    assert operator.get(f"/jobs/{NAME}/ping/").status_code == 403
    html = html_of(operator, f"/jobs/{NAME}/")
    assert "Who may change the job sees its address." in html
    assert f"/jobs/{NAME}/ping/" not in html


def test_it_is_renewed_for_a_reason(page: Client, bell: Bell) -> None:
    before = bell.code
    done = page.post(f"/jobs/{NAME}/ping/renew/", {"reason": "it stood in a mail"}, follow=True)
    assert "has a new ping address; the one before leads nowhere." in done.content.decode()
    assert bell.code != before
    assert page.get(f"/ping/{before}").status_code == 404
    assert "renewed the ping address of" in html_of(page, f"/jobs/{NAME}/")
    page.post(f"/jobs/{NAME}/ping/renew/", {"reason": ""})
    assert bell.code == PingAddress.objects.get().code


def test_a_run_says_that_it_waits_and_until_when(page: Client, bell: Bell, now: ManualClock) -> None:
    bell.decide(1)
    run = JobRun.objects.get()
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    assert "waits for a ping until" in html
    assert "What its pings send stands here." in html
    assert "lease" not in html[html.index("How it is watched") :].lower().split("</section>")[0]
    assert "Run again" not in html
    assert "Take its lease" not in html
    assert "It is not waited for any longer." in html


def test_a_run_shows_what_was_told_of_it(page: Client, bell: Bell) -> None:
    bell.ping(1, PingWord.START, "0189d8a0-0000-4000-8000-000000000001", body=b"getting ready")
    run = bell.ping(61, PingWord.FAILURE, "0189d8a0-0000-4000-8000-000000000001", exit_code=2)
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    assert "getting ready" in html
    assert "it ended with exit code 2" in html
    assert "took 1 m" in html
    assert f"{WHERE} began" in html
    assert "0189d8a0-0000-4000-8000-000000000001" in html
    assert "epoch" not in html[html.index("Its course") : html.index("How it is watched")]


def test_lists_tell_silence_and_pings_beside_the_slots(page: Client, bell: Bell) -> None:
    bell.decide(1)
    bell.sweep(601)
    html = html_of(page, "/jobs/")
    said = "15:00 abandoned, no ping"
    assert f'title="{said}: no ping came until 2026-09-21 15:10:00 UTC">{said}</span>' in html
    assert '<span class="badge">elsewhere</span>' in html
    assert NAME in html_of(page, "/jobs/?kind=elsewhere&state=failing")
    bell.ping(700)
    assert NAME in html_of(page, "/jobs/?state=on")
    runs = html_of(page, "/runs/?kind=ping")
    assert '<span class="badge">ping</span>' in runs
    assert "late: it came 11 m 40 s after a slot" in runs
    bell.ping(710, PingWord.START)
    page_of_run = html_of(page, f"/jobs/{NAME}/runs/{bell.ping(720).pk}/")
    assert "after its slot" not in page_of_run
    assert "took 10 s" in page_of_run


def test_nodes_and_leases_leave_out_what_runs_elsewhere(page: Client, bell: Bell) -> None:
    bell.ping(1, PingWord.START)
    assert "Nothing runs" in html_of(page, "/jobs/nodes/")


def test_the_page_says_when_pings_were_too_many(page: Client, bell: Bell) -> None:
    for _ in range(RATE):
        bell.ping(1, PingWord.LOG)
    PingAddress.objects.update(refused_us=(HOUR + 2) * 1_000_000)
    assert "they were too many" in html_of(page, f"/jobs/{NAME}/")


@pytest.mark.parametrize(
    ("schedule", "when"),
    [
        ("0 3 * * MON", "0 3 * * MON"),
        ("*/5 * * * *", "*/5 * * * *"),
        ("@daily", "@daily"),
        ("H 3 * * *", "0 3 * * *"),
        ("0 H * * *", "0 3 * * *"),
        ("0 0 3 * * *", "0 3 * * *"),
        ("@every 90s", "0 3 * * *"),
    ],
)
def test_lines_for_a_crontab_are_in_its_words(schedule: str, when: str) -> None:
    url = "https://hbus.example/ping/hbp_x"
    first, second, last = ready_lines(url, schedule)
    assert first.text.startswith(f"{when} /path/to/program && curl ")
    assert second.text.startswith(f"{when} URL={url}; ")
    assert last.text == f"curl {url}"
    # A crontab ends a line at a percent sign.
    assert all("%" not in line.text for line in (first, second))


def test_a_key_in_where_it_runs_is_for_who_may_change_the_job(
    bell: Bell, page: Client, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    """Found by a stranger: the settings hid it, and the job's page, its runs and the refusal of a trigger told it."""
    told, hidden = "db1: curl --password ELSESECRET99 https://u:ELSEPW77@h/x", ("ELSESECRET99", "ELSEPW77")
    change_job(SYSTEM, NAME, {"target": told})
    run = bell.ping(42)
    # As a release before wrote it.
    old = bell.ping(3_700)
    JobRun.objects.filter(pk=old.pk).update(owner=told)
    viewer, api = signed_in(Role.VIEWER), calling(Role.OPERATOR)
    seen = [
        html_of(viewer, f"/jobs/{NAME}/{tail}")
        for tail in ("", "settings/", "versions/", f"runs/{run.pk}/", f"runs/{old.pk}/")
    ]
    seen += [html_of(viewer, "/runs/"), html_of(viewer, "/jobs/")]
    seen += [
        api("GET", f"jobs/{NAME}/{tail}").content.decode()
        for tail in ("runs", f"runs/{run.pk}", f"runs/{old.pk}", "versions")
    ]
    seen += [
        api("GET", f"jobs/{NAME}").content.decode(),
        api("POST", f"jobs/{NAME}/trigger", {"reason": "why"}).content.decode(),
    ]
    assert [text for text in seen if any(each in text for each in hidden)] == []
    assert "Start it there: db1: curl --password" in seen[-1]
    assert "db1: curl --password [redacted]" in run.owner
    # Who may change it reads what they change.
    assert hidden[0] in html_of(page, f"/jobs/{NAME}/")
    # The lifetime of a job is shorter than that of its runs.
    Job.objects.get(name=NAME).versions.all().delete()
    assert hidden[0] not in html_of(viewer, f"/jobs/{NAME}/runs/{old.pk}/")
