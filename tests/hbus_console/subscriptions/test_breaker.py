"""The breaker of a subscription: who sees how it stands, and who may open and close it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from engine.bus.breaker_board import Pauses
from engine.bus.conformance.running import FactRecorder
from engine.bus.handlers import clear, subscription
from engine.bus.policy import BreakerPolicy
from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.nodes.stamps import Node
from hbus_console.overview.concerns import concerns
from hbus_console.subscriptions import services, subscription_page
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.subscriptions.services.breaker import outages
from hbus_console.subscriptions.services.policy import policy_of
from hbus_console.subscriptions.standing import SubscriptionFilters, subscription_rows
from hbus_console.topics.models import Topic
from hbus_console.ui.timerange import time_range
from hbus_console.wiring import bus, fact_log
from tests.hbus_console.overview.test_concerns import look
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR, VIEWER

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]

ONE = ("booking.created", "billing")
PAGE = ("subscriptions:detail", *ONE)


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> FactRecorder:
    kept = FactRecorder()
    monkeypatch.setattr(fact_log, "emitter", lambda: kept)
    return kept


@pytest.fixture(autouse=True)
def billing(topic: Topic, committed: Callable[..., None]) -> None:
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))
    Subscription.objects.update(handler_name="hotel.handlers:bill")


def page_of(client: Client) -> str:
    return client.get(reverse(PAGE[0], args=PAGE[1:])).content.decode()


def test_an_outage_is_told_on_page_list_and_overview(signed_in: Callable[..., Client]) -> None:
    client = signed_in()
    assert "Deliveries would flow, if a consumer ran it." in page_of(client)
    bus.breakers().trip(*ONE, "node-1", "ConnectionError: the payment service is away", Pauses(60_000, 60_000))
    page = page_of(client)
    assert "ConnectionError: the payment service is away" in page
    assert "one message is tried at" in page
    assert "breaker open" in client.get(reverse("subscriptions:list")).content.decode()
    texts = [concern.text for concern in concerns(look(OPERATOR, 1_790_000_000_000, nodes=[]))]
    assert "The breaker of billing on booking.created is open" in texts


def test_a_policy_without_a_breaker_ends_its_outage_everywhere(signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.OPERATOR)
    bus.breakers().trip(*ONE, "node-1", "the payment service is away", Pauses(60_000, 60_000))
    assert outages()
    services.change_subscription(EDITOR, *ONE, {"breaker_failures": 0})

    page = page_of(client)
    assert "the payment service is away" not in page
    assert "Its policy has none: deliveries flow" in page
    assert 'popovertarget="breaker-' not in page
    (row,) = subscription_rows(OPERATOR, time_range(RequestFactory().get("/")), 0, SubscriptionFilters(topic=ONE[0]))
    assert row.breaker == ""
    assert not [one for one in concerns(look(OPERATOR, 0, nodes=[])) if "breaker" in one.text]
    assert outages() == {}
    assert services.breaker(VIEWER, *ONE).state == "closed"
    with pytest.raises(BadInput) as refused:
        services.set_breaker(OPERATOR, *ONE, "open", "nobody would obey it")
    assert refused.value.field == "act"
    assert not AuditEntry.objects.filter(action="subscription.breaker_open").exists()


def test_a_person_opens_and_closes_it_with_a_trace(facts: FactRecorder) -> None:
    opened = services.set_breaker(OPERATOR, *ONE, "open", "the provider asked for silence")
    assert (opened.state, opened.forced) == ("open", True)
    assert "the provider asked for silence" in opened.why
    # Again: nothing to do, no second trace.
    services.set_breaker(OPERATOR, *ONE, "open", "again")
    closed = services.set_breaker(OPERATOR, *ONE, "close", "they are back")
    assert closed.state == services.breaker(VIEWER, *ONE).state == "closed"
    services.set_breaker(OPERATOR, *ONE, "close", "again")
    acts = AuditEntry.objects.filter(action__startswith="subscription.breaker").order_by("seq")
    assert [(entry.action, entry.reason) for entry in acts] == [
        ("subscription.breaker_open", "the provider asked for silence"),
        ("subscription.breaker_close", "they are back"),
    ]
    assert facts.kinds() == ["breaker_opened", "breaker_closed"]


def test_a_person_lets_one_message_be_tried(
    signed_in: Callable[..., Client], calling: Callable[..., Any], facts: FactRecorder
) -> None:
    client, call = signed_in(Role.OPERATOR), calling(Role.OPERATOR)
    path = f"topics/{ONE[0]}/subscriptions/{ONE[1]}/breaker"
    assert call("POST", path, {"act": "try", "reason": "nothing is open"}).json()["state"] == "closed"
    assert "Close and try one…" not in page_of(client)
    services.set_breaker(OPERATOR, *ONE, "open", "the provider asked for silence")
    assert "Close and try one…" in page_of(client)

    client.post(reverse("subscriptions:breaker", args=ONE), {"act": "try", "reason": "they say they are back"})
    standing = services.breaker(VIEWER, *ONE)
    assert (standing.state, standing.forced, standing.probe_due) == ("open", False, True)
    assert bus.breakers().probe(*ONE, "node-1").state == "probing"
    # It is being tried: there is nothing to ask for twice.
    assert "Close and try one…" not in page_of(client)
    assert call("POST", path, {"act": "try", "reason": "again"}).json()["state"] == "probing"
    assert bus.breakers().failed(*ONE, "node-1", "still away", Pauses(60_000, 60_000)).state == "open"
    (entry,) = AuditEntry.objects.filter(action="subscription.breaker_try")
    assert (entry.reason, entry.before["breaker"], entry.after) == (
        "they say they are back",
        "open",
        {"breaker": "open, one message is tried"},
    )
    # Whoever probes tells of it.
    assert facts.kinds() == ["breaker_opened"]


def test_who_may_not_and_what_cannot_be_leave_it_as_it_is(facts: FactRecorder) -> None:
    with pytest.raises(Forbidden):
        services.set_breaker(VIEWER, *ONE, "open", "why")
    for act, reason, field in (("ajar", "why", "act"), ("open", " ", "reason")):
        with pytest.raises(BadInput) as refused:
            services.set_breaker(OPERATOR, *ONE, act, reason)
        assert refused.value.field == field
    assert services.breaker(VIEWER, *ONE).state == "closed"
    assert facts.seen == []


def test_the_page_opens_and_the_api_closes_it(
    signed_in: Callable[..., Client], calling: Callable[..., Any], facts: FactRecorder
) -> None:
    client = signed_in(Role.OPERATOR)
    client.post(reverse("subscriptions:breaker", args=ONE), {"act": "open", "reason": "silence"})
    assert "a person opened it, and only a person closes it" in page_of(client)
    path = f"topics/{ONE[0]}/subscriptions/{ONE[1]}/breaker"
    call = calling(Role.OPERATOR)
    assert call("GET", path).json()["forced"] is True
    assert call("POST", path, {"act": "close", "reason": "over"}).json()["state"] == "closed"


def test_a_declaration_sets_the_breaker_and_a_person_may_change_it(committed: Callable[..., None]) -> None:
    def handler(event: dict[str, Any]) -> None:
        pass

    try:
        subscription(topic=ONE[0], group="mails", breaker=BreakerPolicy(7, 0.5, 60, 5, 50), max_handler_s=90)(handler)
        committed(services.sync_registrations)
    finally:
        clear()
    row = services.subscription(ONE[0], "mails")
    assert policy_of(row).breaker == BreakerPolicy(7, 0.5, 60, 5, 50)
    assert policy_of(row).max_handler_s == 90
    changed = services.change_subscription(EDITOR, ONE[0], "mails", {"breaker_failures": 0})
    assert changed.held_fields == ["breaker_failures"]
    for field, value in (("breaker_share", 9), ("breaker_longest_open_s", 4), ("max_handler_s", -1)):
        with pytest.raises(BadInput) as refused:
            services.change_subscription(EDITOR, ONE[0], "mails", {field: value})
        assert refused.value.field == field


def test_a_hung_handler_is_told_with_the_place_where_it_hangs(
    signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = {"message_id": "01J", "attempt": 2, "running_s": 312.0, "stack": ["sock.py:10 recv"], "given_up": False}
    status = {"topic": ONE[0], "group": ONE[1], "state": "hung", "hung": [hung], "rate": 0.0, "in_flight": 1,
              "handled": 0, "failed": 0, "loop_age_s": 0.1, "last_error": "store away",
              "last_error_ms": 1_790_000_000_000, "recovered_ms": 1_790_000_001_000}  # fmt: skip
    node = Node("h:consumer:0", "consumer", "0", "h", 1, 0, 0, False, {"consumers": [json.loads(json.dumps(status))]})
    monkeypatch.setattr(subscription_page, "living", lambda: ([node], ""))
    page = page_of(signed_in())
    assert "A handler does not return." in page
    assert "5 m 12 s" in page
    assert "sock.py:10 recv" in page
    # A trouble that is over is not told as if it went on.
    assert "last error, over since" in page
    (concern,) = [one for one in concerns(look(VIEWER, 0, nodes=[node])) if "does not return" in one.text]
    assert concern.note == "hung for 5 m 12 s on h:consumer:0"
