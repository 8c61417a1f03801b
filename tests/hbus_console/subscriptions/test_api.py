"""Subscriptions over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.api.models import IdempotencyRecord
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.ui.conftest import dead_letters

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

Caller = Callable[..., Any]
PATH = "topics/booking.created/subscriptions"
ONE = f"{PATH}/billing"
NEW = {"group": "billing", "owner": "Reservations"}


@pytest.fixture
def call(calling: Callable[..., Caller], topic: Topic) -> Caller:
    return calling()


def test_its_dead_letters_count_where_the_store_has_none_any_more(call: Caller, committed: Callable[..., None]) -> None:
    committed(lambda: call("POST", PATH, NEW))
    dead_letters(3, "booking.created", "billing")
    assert call("GET", ONE).json()["lag"]["dead"] == 3


def test_a_subscriptions_whole_life(call: Caller, committed: Callable[..., None]) -> None:
    committed(lambda: call("POST", PATH, {**NEW, "max_attempts": 3}))
    found = call("GET", ONE).json()
    assert (found["owner"], found["max_attempts"], found["lag"]["waiting"]) == ("Reservations", 3, 0)
    changed = call("PATCH", ONE, {"backoff_s": [1, 2.5], "revision": 1}).json()
    assert (changed["backoff_s"], changed["held_fields"]) == ([1.0, 2.5], ["backoff_s", "max_attempts"])
    assert call("POST", f"{ONE}/follow-code").json()["held_fields"] == []
    assert call("POST", f"{ONE}/pause", {"reason": "partner is down"}).json()["paused"]
    assert not call("POST", f"{ONE}/resume").json()["paused"]
    committed(lambda: call("POST", f"{ONE}/drain", {"reason": "release"}))
    assert call("GET", f"{ONE}/drain").json() == {
        "paused": True,
        "drained": True,
        "in_flight": 0,
        "unsettled": 0,
        "waiting": 0,
        "retrying": 0,
        "parked": 0,
        "at_work": {},
        "silent": [],
    }
    assert [row["group"] for row in call("GET", PATH).json()["results"]] == ["billing"]
    assert [row["group"] for row in call("GET", "subscriptions?owner=Reservations").json()["results"]] == ["billing"]
    assert call("GET", "subscriptions?owner=").json()["results"] == []
    assert call("DELETE", ONE, {"typed_name": "billing", "reason": "moved"}).status_code == 204
    assert call("GET", ONE).status_code == 404


def test_the_key_in_an_address_is_for_who_may_change_it(
    calling: Callable[..., Caller], signed_in: Callable[..., Client], topic: Topic
) -> None:
    url = "https://93.184.216.34/in?key=s3cret"
    editor, viewer = calling(Role.EDITOR), calling(Role.VIEWER)
    made = editor("POST", PATH, {**NEW, "handler": "webhook", "webhook_url": url})
    assert (made.status_code, made.json()["webhook_url"]) == (201, url)
    assert editor("GET", ONE).json()["webhook_url"] == url
    for found in (
        viewer("GET", ONE).json(),
        *(viewer("GET", at).json()["results"][0] for at in (PATH, "subscriptions")),
    ):
        assert found["webhook_url"] == "https://93.184.216.34/in"
    for role, whole in ((Role.EDITOR, True), (Role.VIEWER, False)):
        client = signed_in(role)
        for page in ("", "settings/"):
            shown = client.get(f"/subscriptions/booking.created/billing/{page}").content.decode()
            assert ("/in" in shown, "s3cret" in shown) == (True, whole), (page, role)


def test_on_a_topic_that_masks_the_key_is_for_who_may_reveal(calling: Callable[..., Caller], topic: Topic) -> None:
    url = "https://93.184.216.34/in?key=s3cret"
    editor, governor = calling(Role.EDITOR), calling(Role.GOVERNOR)
    editor("POST", PATH, {**NEW, "handler": "webhook", "webhook_url": url})
    Topic.objects.filter(pk=topic.pk).update(masked_fields=["guest.email"])
    assert editor("GET", ONE).json()["webhook_url"] == "https://93.184.216.34/in"
    assert governor("GET", ONE).json()["webhook_url"] == url


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"owner": "Reservations"}, 422, "group"),
        ({**NEW, "owner": ""}, 422, "owner"),
        ({**NEW, "backoff_s": ["soon"]}, 422, "backoff_s[0]"),
        ({**NEW, "concurrency": 0}, 422, "concurrency"),
        ({**NEW, "handler": "webhook", "webhook_url": "http://10.0.0.1/"}, 422, "webhook_url"),
        ({**NEW, "webhook_secret": "mine"}, 422, "webhook_secret"),
    ],
)
def test_a_bad_subscription_is_a_problem_that_names_its_field(body: Any, status: int, field: str, call: Caller) -> None:
    answer = call("POST", PATH, body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not Subscription.objects.exists()


def test_a_secret_is_given_once_where_the_subscription_is_made_and_by_rotating(call: Caller) -> None:
    body = {**NEW, "handler": "webhook", "webhook_url": "https://93.184.216.34/hooks"}
    made = call("POST", PATH, body)
    assert (made.status_code, made.json()["webhook_secret"]) == (201, Subscription.objects.get().webhook_secret)
    assert "whsec_" not in call("GET", ONE).content.decode() + call("GET", PATH).content.decode()
    secret = call("POST", f"{ONE}/rotate-secret", {"reason": "first"}).json()["webhook_secret"]
    assert Subscription.objects.get().webhook_secret == secret
    assert call("POST", f"{ONE}/rotate-secret", {"reason": "x"}, **{"Idempotency-Key": "k"}).status_code == 422


def test_an_answer_that_is_kept_for_a_repeat_holds_no_secret(call: Caller) -> None:
    body = {**NEW, "handler": "webhook", "webhook_url": "https://93.184.216.34/hooks"}
    for _ in range(2):
        made = call("POST", PATH, body, **{"Idempotency-Key": "k"})
        assert (made.status_code, made.json()["webhook_secret"]) == (201, "")
    assert "whsec_" not in "".join(map(str, IdempotencyRecord.objects.values_list("response", flat=True)))


def test_a_subscription_that_is_no_webhook_has_no_secret_to_give(call: Caller) -> None:
    assert call("POST", PATH, NEW).json()["webhook_secret"] == ""


def test_with_the_store_away_the_rest_is_still_given(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    call("POST", PATH, NEW)
    bus.admin().delete_group("booking.created", "billing")
    assert call("GET", ONE).json()["lag"] is None


def test_with_its_store_no_longer_named_the_rest_is_still_given(call: Caller) -> None:
    call("POST", PATH, NEW)
    Topic.objects.update(transport="redis_stream@gone")
    answer = call("GET", ONE)
    assert (answer.status_code, answer.json()["lag"]) == (200, None)


def test_scopes_hold(calling: Callable[..., Caller], call: Caller) -> None:
    call("POST", PATH, NEW)
    elsewhere = calling(Role.OPERATOR, "stay.*")
    assert elsewhere("GET", "subscriptions").json()["results"] == []
    for method, path, body in (
        ("GET", PATH, None),
        ("GET", ONE, None),
        ("GET", f"{ONE}/drain", None),
        ("POST", f"{ONE}/pause", {"reason": "x"}),
        ("PATCH", ONE, {"lease_s": 9}),
    ):
        assert elsewhere(method, path, body).status_code == 403
