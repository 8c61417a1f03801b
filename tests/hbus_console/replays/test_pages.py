from __future__ import annotations

import html
import json
import re

import pytest
from django.test import Client

from engine.bus.filters.parsing import ATTRIBUTES, SIGNS
from engine.bus.options import PublishOptions
from engine.bus.producer import Receipt
from hbus_console.accounts.models import User
from hbus_console.messages.models import LedgerMessage
from hbus_console.operations.models import Operation
from hbus_console.publishing.producer import shared_producer
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.ui.timerange import time_range
from hbus_console.wiring import bus
from tests.hbus_console.replays.conftest import TOPIC, MakeUser

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def page(published: list[Receipt], make_user: MakeUser) -> Client:
    client = Client()
    client.force_login(make_user())
    return client


def test_the_form_offers_what_can_be_chosen(page: Client) -> None:
    shown = page.get(f"/replays/{TOPIC}/?filter=payload.n+%3E+3").content.decode()
    for said in (
        "How to write a filter",
        "availability",
        "billing",
        "booking.again",
        "payload.n &gt; 3",
        "Test this filter",
        "Dry run",
    ):
        assert said in shown


def test_the_form_offers_only_the_topics_into_which_this_person_may_replay(page: Client, make_user: MakeUser) -> None:
    def offered(client: Client) -> list[str]:
        return [topic.name for topic in client.get(f"/replays/{TOPIC}/").context["others"]]

    governor = Client()
    governor.force_login(make_user("governor", "*", "gova"))
    assert offered(page) == ["booking.again"]
    Subscription.objects.create(topic=Topic.objects.get(name="booking.again"), group="out", handler="webhook")
    assert offered(page) == [], "its webhooks would send out what is masked here"
    Topic.objects.filter(name="booking.again").update(masked_fields=[])
    assert offered(page) == [], "it hides less"
    assert offered(governor) == ["booking.again"]
    Topic.objects.filter(name=TOPIC).update(masked_fields=[])
    assert offered(page) == ["booking.again"]


def test_the_form_names_all_that_a_filter_may_be_made_of(page: Client) -> None:
    shown = page.get(f"/replays/{TOPIC}/").content.decode()
    (reference,) = re.findall("How to write a filter(.*?)</details>", shown, re.DOTALL)
    words = html.unescape(re.sub("<[^>]+>", " ", reference)).split()
    assert {*ATTRIBUTES, *SIGNS} <= set(words)


def test_a_filter_can_be_tried(page: Client) -> None:
    shown = page.get(f"/replays/{TOPIC}/test/", {"filter": "payload.n >= 35"}).content.decode()
    assert "Scanned 40, matched 5, stopped because the end of the range was reached" in shown
    assert "masked" in shown
    assert "g35" not in shown


def test_a_range_can_be_named_by_ids(page: Client, published: list[Receipt]) -> None:
    for receipt in published[10:14:3]:
        LedgerMessage.objects.create(
            message_id=receipt.message_id, topic=TOPIC, type=TOPIC, source="/x", key="", correlation_id="",
            causation_id="", trace_id="", position=receipt.position, size=1, published_ms=1,
        )  # fmt: skip
    given = {"after": published[10].message_id, "until": published[13].message_id}
    assert "Scanned 3, matched 3" in page.get(f"/replays/{TOPIC}/test/", given).content.decode()
    given["until"] = "01NOBODYHASEVERSEENIT00000"
    assert "is neither the id of a known message" in page.get(f"/replays/{TOPIC}/test/", given).content.decode()


def test_an_id_that_several_sources_have_published_names_no_place(page: Client, published: list[Receipt]) -> None:
    for source, receipt in zip(("/ours", "/evil"), published, strict=False):
        LedgerMessage.objects.create(
            message_id="m1", topic=TOPIC, type=TOPIC, source=source, position=receipt.position, size=1, published_ms=1
        )
    shown = page.get(f"/replays/{TOPIC}/test/", {"after": "m1"}).content.decode()
    assert "Several sources have published a message" in shown
    assert "Name the position of the one you mean." in shown


def test_a_wrong_filter_is_refused_at_its_place(page: Client) -> None:
    shown = page.get(f"/replays/{TOPIC}/test/", {"filter": "payload.n >="}).content.decode()
    assert "A value is missing before" in shown
    assert "at character 13" in shown


def test_trying_a_masked_field_takes_the_permission(page: Client) -> None:
    assert page.get(f"/replays/{TOPIC}/test/", {"filter": "payload.guest == 'g1'"}).status_code == 403


def test_what_matches_and_does_not_fit_where_it_goes_still_matches(page: Client) -> None:
    into = Topic.objects.get(name="booking.again")
    SchemaVersion.objects.create(topic=into, version=1, body={"type": "array"}, created_by="ana")
    Topic.objects.update(masked_fields=[])
    asked = {"topic": TOPIC, "filter": "payload.n >= 31", "into_topic": into.name}
    tried = page.get(f"/replays/{TOPIC}/test/", asked).content.decode()
    assert "Scanned 40, matched 9, stopped" in tried
    shown = page.get("/operations/plan/replay/", asked).content.decode()
    assert "Scanned 40, matched 9 (9 of them left), stopped" in shown
    assert "9 messages will be left: it does not fit the schema" in shown
    assert "All that match are left" in shown
    assert "Nothing matches" not in shown
    none = page.get("/operations/plan/replay/", {**asked, "filter": "payload.n >= 99"}).content.decode()
    assert "Nothing matches" in none


def test_the_dry_run_starts_it(page: Client) -> None:
    asked = {"topic": TOPIC, "filter": "payload.n >= 35", "into_group": "billing"}
    shown = page.get("/operations/plan/replay/", asked)
    assert "matched 5" in shown.content.decode()
    assert 'data-shows=""' in shown.content.decode(), "whatever moves, the log is not read anew"
    started = page.post(
        "/operations/plan/replay/", {"spec": shown.context["spec"], "reason": "lost last night", "rate_per_s": "10"}
    )
    # And there is a way back to the form, as it was filled in.
    form = page.get(shown.context["choice_url"])
    assert form.context["given"] == {**dict.fromkeys(form.context["given"], ""), **asked, "topic": ""}
    operation = Operation.objects.get()
    assert started.headers["Location"] == f"/operations/{operation.pk}/"
    assert (operation.kind, operation.total, operation.rate_per_s) == ("replay", 5, 10)


def test_what_is_published_after_the_dry_run_is_not_replayed_from_it(page: Client) -> None:
    asked = {"topic": TOPIC, "into_group": "billing"}
    shown = page.get("/operations/plan/replay/", asked)
    plan = shown.context["plan"]
    assert plan.total == 40
    assert f'name="horizon" value="{plan.horizon}"' in shown.content.decode()
    shared_producer().publish(TOPIC, {"n": 41, "hotel": "City", "guest": "late"}, PublishOptions(key="H-0"))
    late_ms = bus.admin().browse(TOPIC, newest_first=True, limit=1).entries[0].at_ms
    # It may have come in the very millisecond of the dry run.
    horizon = min(plan.horizon, late_ms - 1)
    form = {"spec": shown.context["spec"], "horizon": str(horizon), "reason": "lost last night"}
    page.post("/operations/plan/replay/", form)
    first = Operation.objects.get()
    assert (first.total, first.spec["to_ms"]) == (40, horizon)
    # The same choice shown at another moment is the same work while that is under way.
    again = page.get("/operations/plan/replay/", asked)
    assert again.context["plan"].total == 41
    page.post("/operations/plan/replay/", {**form, "horizon": str(again.context["plan"].horizon)})
    assert Operation.objects.get() == first


def test_where_a_replay_begins_is_not_the_time_range_of_the_pages(page: Client) -> None:
    day = {"starting": "2026-11-20T08:00:00Z", "ending": "2026-11-20T09:00:00Z"}
    form = page.get(f"/replays/{TOPIC}/", day)
    assert (form.context["given"]["from"], form.context["given"]["to"]) == (day["starting"], day["ending"])
    for shown in (form, page.get("/operations/plan/replay/", {"topic": TOPIC, "into_group": "billing", **day})):
        assert time_range(shown.wsgi_request).query == ""
    assert {"spec.from", "spec.to"}.isdisjoint(shown.context["errors"])
    spec = json.loads(shown.context["spec"])
    assert (spec["from"], spec["to"]) == (day["starting"], day["ending"])
    back = page.get(shown.context["choice_url"])
    assert {name: back.context["given"][name] for name in ("from", "to", "into_group")} == {
        "from": day["starting"],
        "to": day["ending"],
        "into_group": "billing",
    }


def test_a_replay_without_a_target_is_refused_in_the_words_of_the_form(page: Client) -> None:
    (said,) = page.get("/operations/plan/replay/", {"topic": TOPIC}).context["errors"].values()
    assert "Choose one of the two" in said
    assert "into_" not in said


@pytest.mark.parametrize(
    ("wrong", "at", "said"),
    [
        ({}, "into_group", "Choose one of the two"),
        ({"into_group": "billing", "into_topic": "booking.again"}, "into_group", "Choose one of the two"),
        ({"into_group": "billing", "filter": "payload.n >="}, "filter", "A value is missing before"),
        ({"into_group": "billing", "starting": "yesterday"}, "from", "is no instant"),
        ({"into_group": "billing", "ending": "2026-31-31"}, "to", "is no instant"),
        (
            {"into_group": "billing", "after": "01NOBODY"},
            "after",
            "neither the id of a known message of booking.created",
        ),
        ({"into_group": "billing", "until": "01NOBODY"}, "until", "nor a position in its log"),
    ],
)
def test_a_form_that_is_refused_stands_there_again_with_its_values_and_what_is_wrong_at_its_field(
    page: Client, wrong: dict[str, str], at: str, said: str
) -> None:
    filled = {"topic": TOPIC, "starting": "", "ending": "", "key": "H-1", **wrong}
    answer = page.get(f"/replays/{TOPIC}/", {**filled, "dry": "run"})
    shown = answer.content.decode()
    assert answer.status_code == 422
    assert {name: answer.context["given"][name] for name in ("key", *wrong) if name in answer.context["given"]} == {
        name: filled[name] for name in ("key", *wrong) if name in answer.context["given"]
    }
    assert re.search(rf'id="{at}"[^>]* aria-invalid="true" aria-describedby="{at}-error"', shown)
    assert shown.count('aria-invalid="true"') == 1
    (error,) = re.findall(rf'<p class="error" id="{at}-error" role="alert">([^<]*)</p>', shown)
    assert said in error


def test_a_form_that_is_not_refused_leads_to_its_dry_run(page: Client) -> None:
    filled = {"topic": TOPIC, "starting": "", "filter": "payload.n >= 35", "into_group": "billing"}
    answer = page.get(f"/replays/{TOPIC}/", {**filled, "dry": "run"}, follow=True)
    ((address, _),) = answer.redirect_chain
    assert address.startswith("/operations/plan/replay/?")
    assert "dry=" not in address
    assert "matched 5" in answer.content.decode()


def test_what_is_hidden_whole_is_found_by_no_filter_that_asks_for_it(page: Client) -> None:
    """Found by a stranger: character by character a filter told a payload that pages show nothing of."""
    Topic.objects.filter(name=TOPIC).update(masked_fields=[], classification="confidential")
    shared_producer().publish(TOPIC, "TOPSECRET-one", PublishOptions(key="H-9"))
    for asked in ("payload startswith 'TOPS'", "payload[0] == 'T'", "payload > 4", "not exists(payload)"):
        assert page.get(f"/replays/{TOPIC}/test/", {"filter": asked}).status_code == 403, asked
    # And where a field that tells what to hide is missing, the others of that payload tell nothing.
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest.name"], classification="internal")
    shared_producer().publish(TOPIC, {"guest": "plain text", "note": "SECRETNOTE", "n": 99}, PublishOptions(key="H-9"))
    shared_producer().publish(TOPIC, {"guest": {"name": "Ana"}, "note": "SECRETNOTE", "n": 98})
    asked = "payload.note startswith 'SECRET'"
    assert "matched 1" in page.get(f"/replays/{TOPIC}/test/", {"filter": asked}).content.decode()
    plan = page.get("/operations/plan/replay/", {"topic": TOPIC, "filter": asked, "into_group": "billing"})
    assert "matched 1" in plan.content.decode()
    User.objects.get().grants.update(role="governor")
    assert "matched 2" in page.get(f"/replays/{TOPIC}/test/", {"filter": asked}).content.decode()
