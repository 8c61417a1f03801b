"""What the dry run of a redrive or a discard says beforehand."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.deadletters import forecast
from hbus_console.deadletters import services as single
from hbus_console.operations import services
from hbus_console.operations.kinds import Plan
from hbus_console.operations.models import Operation
from hbus_console.subscriptions import holding
from hbus_console.subscriptions.models import Subscription
from tests.hbus_console.deadletters.conftest import NOW, MakeLetter

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SPEC = {"topic": "booking.changed"}


@pytest.fixture
def olga(db: None) -> Actor:
    user = User.objects.create(username="olga")
    user.grants.create(role="operator", scope="*")
    return actor_of(user)


@pytest.fixture
def browser(olga: Actor) -> Client:
    client = Client()
    client.force_login(User.objects.get(username="olga"))
    return client


def lines(plan: Plan) -> dict[str, tuple[int | str, str]]:
    return {each.label: (each.value, each.note) for each in plan.findings}


def test_a_redrive_says_what_an_operator_must_know(olga: Actor, make_letter: MakeLetter) -> None:
    for _ in range(3):
        make_letter({"partitionkey": "crowded"})
    make_letter({"expirytime": "2026-11-20T00:00:00Z"})
    make_letter({"hbusreplay": "redrive", "causationid": "01BEFORE"})
    make_letter(body=b"\xff")
    make_letter(subscription="gone")

    plan = services.dry_run(olga, "redrive", SPEC)

    found = lines(plan)
    assert found["still wanted"] == (6, "their subscription is gone for the others")
    assert found["redriven before"] == (1, "they died again")
    assert found["expired meanwhile"] == (1, "their copies do not expire")
    assert found["unreadable"] == (1, "they can only be discarded")
    assert found["keys"] == (5, "crowded has 3")
    assert found["subscriptions that take them at once"] == ("1 of 2", "")
    assert plan.sampled == ""


def test_an_open_breaker_is_said_before(olga: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch) -> None:
    make_letter(), make_letter()
    opened = {("booking.changed", "partner-sync"): "open"}
    monkeypatch.setattr(holding, "open_breakers", lambda pairs: opened)
    plan = services.dry_run(olga, "redrive", SPEC)
    assert plan.warnings == ["2 of booking.changed will wait behind the open breaker of partner-sync."]
    assert lines(plan)["taken at once"] == ("no", "")


def test_a_subscription_without_a_handler_takes_none(olga: Actor, make_letter: MakeLetter) -> None:
    make_letter()
    Subscription.objects.update(handler_name="")
    plan = services.dry_run(olga, "redrive", SPEC)
    assert plan.warnings == ["1 of booking.changed will wait because partner-sync has no handler."]
    assert lines(plan)["taken at once"] == ("no", "")


def test_many_are_told_of_a_sample_which_is_said(
    olga: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "SAMPLE", 4)
    for number in range(10):
        make_letter({"hbusreplay": "redrive"} if number in (0, 9) else {}, died_at=NOW + timedelta(seconds=number))
    plan = services.dry_run(olga, "redrive", SPEC)
    assert plan.sampled == "Of 4 of 10, the oldest and the newest"
    assert lines(plan)["still wanted by partner-sync"] == (10, "")
    assert lines(plan)["redriven before"] == (2, "they died again")

    monkeypatch.setattr(forecast, "SAMPLE_BYTES", 1)
    assert services.dry_run(olga, "redrive", SPEC).sampled == "Of 2 of 10, the oldest and the newest"


def test_a_dry_run_asks_as_often_for_many_subscriptions_as_for_one(olga: Actor, make_letter: MakeLetter) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            services.dry_run(olga, "redrive", SPEC)
        return len(queries)

    make_letter()
    # The first of a process reads what it keeps from then on: the rules of alerts, for one.
    asked()
    one = asked()
    for number in range(20):
        make_letter(subscription=f"gone{number}")
    assert asked() == one
    assert services.dry_run(olga, "redrive", SPEC).warnings[-1] == "Likewise those of 10 more subscriptions."


def test_a_discard_says_what_it_does_and_that_it_cannot_be_undone(browser: Client, make_letter: MakeLetter) -> None:
    make_letter()
    page = " ".join(browser.get("/operations/plan/discard/?topic=booking.changed").content.decode().split())
    for said in ("never handled by partner-sync", "Nothing is deleted", "It cannot be undone", "other subscriptions"):
        assert said in page
    redrive = browser.get("/operations/plan/redrive/?topic=booking.changed").content.decode()
    assert "What was published cannot be taken back" in redrive


def test_the_page_starts_slow_says_how_long_it_takes_and_offers_a_few_first(
    browser: Client, make_letter: MakeLetter
) -> None:
    for _ in range(60):
        make_letter()
    path = "/operations/plan/redrive/?topic=booking.changed"
    page = browser.get(path).content.decode()
    options = re.findall(r'<option value="(\d+)"( selected)?>\s*([^<]*?)\s*</option>', page)
    assert [each for each in options if each[1]] == [("20", " selected", "20 a second · about 3 s")]
    assert options[-1][0] == "0", "without a bound is the last that is offered"
    assert "<b>5 first</b>" in page

    hidden = {name: html.unescape(value) for name, value in re.findall(r'name="(spec|horizon)" value="([^"]*)"', page)}
    browser.post(path, {**hidden, "reason": "try five", "rate_per_s": "10", "first": "5"})
    started = Operation.objects.get()
    assert (started.first, started.rate_per_s, started.total) == (5, 10, 60)


def test_a_start_over_http_without_a_rate_is_as_slow(browser: Client, make_letter: MakeLetter) -> None:
    make_letter()
    body = {"kind": "redrive", "spec": SPEC}
    plan = browser.post("/api/v1/operations/plan", body, content_type="application/json").json()
    assert (plan["rate_per_s"], plan["takes_s"]) == (20, 0.05)
    assert {"label": "redriven before", "value": 0, "note": ""} in plan["findings"]
    assert "subscription where it died" in plan["effect"]
    made = browser.post("/api/v1/operations", {**body, "reason": "why", "first": 5}, content_type="application/json")
    assert (made.json()["operation"]["rate_per_s"], made.json()["operation"]["first"]) == (20, 5)
    make_letter()
    fast = browser.post(
        "/api/v1/operations",
        {"kind": "discard", "spec": SPEC, "reason": "why", "rate_per_s": 0},
        content_type="application/json",
    )
    assert fast.json()["operation"]["rate_per_s"] == 0


def test_the_command_to_copy_repeats_what_was_sent(browser: Client, make_letter: MakeLetter) -> None:
    make_letter()
    path = "/operations/plan/redrive/?topic=booking.changed"
    form = {"spec": '{"topic": "booking.changed"}', "horizon": "", "reason": "mended", "rate_per_s": "999999"}
    page = html.unescape(browser.post(path, form).content.decode())
    assert '"reason": "mended", "rate_per_s": 999999' in page


def test_letters_of_one_topic_chosen_one_by_one_are_told_there(olga: Actor, make_letter: MakeLetter) -> None:
    one, two = make_letter(), make_letter()
    started = services.start(olga, "redrive", {"letters": [one.pk, two.pk]}, reason="why").operation
    assert started.namespace == "booking.changed"
    assert Subscription.objects.count() == 1


def test_the_dry_run_of_one_letter_says_what_that_of_many_would(
    olga: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = make_letter(), make_letter({"hbusreplay": "redrive"})
    assert (single.effect(olga, first).waits, single.effect(olga, first).redriven) == ("", False)
    monkeypatch.setattr(holding, "open_breakers", lambda pairs: {("booking.changed", "partner-sync"): "open"})
    found = single.effect(olga, again)
    assert (found.waits, found.redriven) == ("behind the open breaker of partner-sync", True)
