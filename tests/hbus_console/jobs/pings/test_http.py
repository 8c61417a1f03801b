"""Pings over HTTP: by any method, without session or token, in text, and nothing for who does not know a code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from engine.core.redaction import redact_text
from hbus_console.accounts.models import User
from hbus_console.jobs.models import JobRun, PingAddress
from hbus_console.jobs.pings.code import CODE, new_code
from hbus_console.jobs.services import pings
from hbus_console.jobs.services.pings import RATE
from tests.hbus_console.jobs.pings.conftest import HOUR, Bell

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture(autouse=True)
def _at_ten_past(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a time is given it is the test's; a request gives none.
    receive = pings.receive
    monkeypatch.setattr(pings, "receive", lambda code, ping: receive(code, ping, now_s=lambda: HOUR + 10.0))


@pytest.fixture
def web() -> Client:
    return Client(enforce_csrf_checks=True)


@pytest.mark.parametrize("method", ["get", "head", "post"])
@pytest.mark.parametrize("end", ["", "/"])
def test_it_is_done_by_any_method(bell: Bell, web: Client, method: str, end: str) -> None:
    answer = getattr(web, method)(f"/ping/{bell.code}{end}")
    assert (answer.status_code, answer.content) == (200, b"" if method == "head" else b"OK")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "no-store" in answer["Cache-Control"]
    assert not answer.cookies
    assert bell.rows() == [("schedule", 0, "done")]


@pytest.mark.parametrize(
    ("what", "state", "reason"),
    [
        ("start", "running", ""),
        ("fail", "failed", "it said that it failed"),
        ("0", "done", ""),
        ("255", "failed", "it ended with exit code 255"),
        ("log", "claimed", ""),
    ],
)
def test_what_stands_behind_the_code_is_what_it_says(
    bell: Bell, web: Client, what: str, state: str, reason: str
) -> None:
    answer = web.post(f"/ping/{bell.code}/{what}", "text\n", content_type="text/plain")
    assert answer.status_code == 200
    run = JobRun.objects.get()
    assert (run.state, run.reason) == (state, reason)
    assert bell.log(run).splitlines()[1:] == ["text"]
    assert " from 127.0.0.1" in bell.log(run)


def test_a_form_is_text_as_anything_else(bell: Bell, web: Client) -> None:
    web.post(f"/ping/{bell.code}", {"a": "b"}, content_type="application/x-www-form-urlencoded")
    assert "a" in bell.log(JobRun.objects.get())


@pytest.mark.parametrize("rid", ["0189D8A0-0000-4000-8000-000000000001", "0189d8a0000040008000000000000001"])
def test_a_rid_is_the_same_however_it_is_written(bell: Bell, web: Client, rid: str) -> None:
    web.get(f"/ping/{bell.code}/start?rid={rid}")
    web.get(f"/ping/{bell.code}?rid=0189d8a0-0000-4000-8000-000000000001")
    assert JobRun.objects.get().state == "done"


@pytest.mark.parametrize(
    ("rest", "status", "says"),
    [
        ("/256", 404, "an exit code from 0 to 255"),
        ("/-1", 404, "There is no such ping."),
        ("/stop", 404, "There is no such ping."),
        ("?rid=7", 400, "rid is no UUID. Write rid=$(uuidgen), once."),
        ("?rid=", 400, "rid is no UUID."),
        (f"?rid={'1' * 32}&rid={'1' * 32}", 400, "rid is no UUID."),
        ("?ridd=1", 400, "A ping knows no 'ridd'."),
    ],
)
def test_what_is_not_understood_is_told_and_books_nothing(
    bell: Bell, web: Client, rest: str, status: int, says: str
) -> None:
    answer = web.get(f"/ping/{bell.code}{rest}")
    assert (answer.status_code, says in answer.content.decode()) == (status, True), answer.content
    assert bell.rows() == []
    assert PingAddress.objects.get().heard_us is None


def test_an_unknown_code_is_told_so_and_leaves_nothing(bell: Bell, web: Client) -> None:
    for code in (new_code(), "x", "%00", "a" * 3_000):
        answer = web.post(f"/ping/{code}/start", "text", content_type="text/plain")
        assert answer.status_code == 404, code
        assert answer["Content-Type"].startswith("text/plain")
    assert bell.rows() == []


def test_other_methods_are_refused(bell: Bell, web: Client) -> None:
    for method in ("put", "patch", "delete"):
        assert getattr(web, method)(f"/ping/{bell.code}").status_code == 405


def test_who_must_change_the_password_or_is_signed_in_is_nobody_here(bell: Bell, web: Client) -> None:
    web.force_login(User.objects.create_user("somebody", password="x"))
    assert web.post(f"/ping/{bell.code}").status_code == 200


def test_too_many_are_told_when_to_come_back(bell: Bell, web: Client) -> None:
    for _ in range(RATE):
        assert web.get(f"/ping/{bell.code}/log").status_code == 200
    refused = web.get(f"/ping/{bell.code}")
    assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert b"120 pings a minute" in refused.content
    assert JobRun.objects.get().state == "claimed"


def test_a_database_that_is_away_is_told_with_a_time_to_try_again(
    bell: Bell, web: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> Any:
        raise OperationalError("it does not answer")

    code = bell.code
    monkeypatch.setattr(pings, "_booked", away)
    refused = web.get(f"/ping/{code}")
    assert (refused.status_code, refused["Retry-After"]) == (503, "5")


def test_no_log_line_holds_the_code(bell: Bell, web: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        web.put(f"/ping/{bell.code}")
        web.get(f"/ping/{bell.code}/stop")
    said = [record.getMessage() for record in caplog.records if bell.code in record.getMessage()]
    assert said
    # As every line is written.
    assert [line for line in map(redact_text, said) if bell.code in line] == []
    assert all("hbp_[redacted]" in redact_text(line) for line in said)


def test_codes_cannot_be_guessed() -> None:
    codes = {new_code() for _ in range(1_000)}
    assert len(codes) == 1_000
    assert all(CODE.fullmatch(code) and len(code) == 36 for code in codes)


def test_a_ping_asks_little_of_the_database(
    bell: Bell, web: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    bell.decide(1)
    with django_assert_max_num_queries(16):
        assert web.get(f"/ping/{bell.code}").status_code == 200
    with django_assert_max_num_queries(1):
        assert web.get(f"/ping/{new_code()}").status_code == 404
