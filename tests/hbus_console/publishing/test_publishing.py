"""Publishing on behalf of an actor, and by hand from the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engine.bus.errors import OwnerlessTopic, PublishFailed, PublishRefused, PublishUnknown
from engine.bus.message import decode
from engine.bus.options import PublishOptions
from engine.bus.receipts import Receipt, ReceiptStatus
from engine.bus.transport import Outcome, Outgoing, Priority, Status
from hbus_console.access.acts import Role
from hbus_console.access.context import RequestContext, bound
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.telling import tell, tell_all
from hbus_console.publishing import services as publishing
from hbus_console.schemas import services as schemas
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.topics.conftest import OPERATOR, VIEWER

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]

SCHEMA = {"type": "object", "required": ["guest"], "properties": {"guest": {"type": "object", "required": ["name"]}}}


def stored(topic: str) -> list[Any]:
    return [decode(entry.body) for entry in bus.admin().browse(topic).entries]


def test_publishing_takes_an_operator(topic: Topic) -> None:
    with pytest.raises(Forbidden):
        publishing.publish(VIEWER, topic.name, {})
    assert publishing.publish(OPERATOR, topic.name, {}).position


def test_an_act_by_hand_is_audited_with_the_id_and_without_the_payload(topic: Topic) -> None:
    receipt = publishing.publish_by_hand(OPERATOR, topic.name, {"guest": "Maria Silva"}, PublishOptions(key="b/1"))
    entry = AuditEntry.objects.get(action="message.publish")
    assert (entry.target, entry.namespace, entry.after["key"]) == (receipt.message_id, topic.name, "b/1")
    assert "Maria" not in json.dumps(entry.after)


def test_a_refused_publish_leaves_nothing(topic: Topic, told: Callable[[], list[str]]) -> None:
    topics.change_topic(SYSTEM, topic.name, {"owner": ""}, "dissolved")
    with pytest.raises(OwnerlessTopic):
        publishing.publish_by_hand(OPERATOR, topic.name, {})
    assert told() == ["topic.change"]
    assert stored(topic.name) == []


def test_what_the_store_then_refuses_is_told_too(
    topic: Topic, told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = bus.transport()
    monkeypatch.setattr(
        transport,
        "publish",
        lambda topic, batch: [Outcome(Status.FAILED, one.message_id, error="full") for one in batch],
    )
    with pytest.raises(PublishFailed):
        publishing.publish_by_hand(OPERATOR, topic.name, {})
    assert told() == ["message.publish", "message.publish.failed"]


@pytest.mark.parametrize(
    ("status", "said", "unknown"),
    [
        (Status.FAILED, ["tried, and nothing came of it: published", "could not publish"], False),
        (Status.UNKNOWN, ["tried, and got no answer: published", "does not know whether it published"], True),
        (Status.OK, ["published"], False),
    ],
)
def test_the_entry_of_an_attempt_is_told_with_what_became_of_it(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, *, status: Status, said: list[str], unknown: bool
) -> None:
    """Found by strangers: who looked for publishes alone read of one that nobody had stored, and who looked for all
    read the same twice.
    """

    def answer(topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        return [Outcome(status, one.message_id, error="full") for one in batch]

    monkeypatch.setattr(bus.transport(), "publish", answer)
    with bound(RequestContext("req-1", "order-7")), suppress(PublishFailed, PublishUnknown):
        publishing.publish_by_hand(OPERATOR, topic.name, {})
    entry = AuditEntry.objects.get(action="message.publish")
    for shown in (tell(entry), tell_all([entry])[0]):
        assert (shown.did, shown.unknown) == (said[0], unknown)
        assert (shown.tone == "warn") is (status is not Status.OK)
    both = AuditEntry.objects.filter(action__startswith="message.publish").order_by("seq")
    assert [shown.did for shown in tell_all(both)] == said


@pytest.mark.parametrize(("key", "remedy"), [("", "Look for it by this id first"), ("k", "the same idempotency key")])
def test_of_what_nobody_knows_the_log_says_so_and_the_remedy_is_true(
    topic: Topic, told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, key: str, remedy: str
) -> None:
    monkeypatch.setattr(
        bus.transport(),
        "publish",
        lambda topic, batch: [Outcome(Status.UNKNOWN, one.message_id, error="broke") for one in batch],
    )
    with pytest.raises(PublishUnknown) as lost:
        publishing.publish_by_hand(OPERATOR, topic.name, {}, PublishOptions(idempotency_key=key))
    assert told() == ["message.publish", "message.publish.unknown"]
    assert remedy in lost.value.remedy


def test_what_was_published_before_under_its_key_is_no_second_message_in_the_log(
    topic: Topic, told: Callable[[], list[str]]
) -> None:
    topics.change_topic(SYSTEM, topic.name, {"idempotency_window_s": 60})
    options = PublishOptions(idempotency_key="k")
    first = publishing.publish_by_hand(OPERATOR, topic.name, {}, options)
    again = publishing.publish_by_hand(OPERATOR, topic.name, {}, options)
    assert (again.message_id, again.status) == (first.message_id, ReceiptStatus.DUPLICATE)
    assert told()[-3:] == ["message.publish", "message.publish", "message.publish.failed"]
    failed = AuditEntry.objects.get(action="message.publish.failed")
    assert failed.target != first.message_id
    assert first.message_id in failed.after["why"]


def test_what_nobody_knew_is_found_out_when_it_is_published_again_under_its_key(
    topic: Topic, told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.change_topic(SYSTEM, topic.name, {"idempotency_window_s": 60})
    options, transport = PublishOptions(idempotency_key="k"), bus.transport()
    publish = transport.publish

    def lost(name: str, batch: Any) -> list[Outcome]:
        return [Outcome(Status.UNKNOWN, one.message_id, error="broke") for one in publish(name, batch)]

    with monkeypatch.context() as patched:
        patched.setattr(transport, "publish", lost)
        with pytest.raises(PublishUnknown):
            publishing.publish_by_hand(OPERATOR, topic.name, {}, options)
    there = publishing.publish_by_hand(OPERATOR, topic.name, {}, options)
    unknown, done = (AuditEntry.objects.get(action=f"message.publish.{each}") for each in ("unknown", "done"))
    assert {unknown.target, done.target} == {there.message_id}
    assert told()[-2:] == ["message.publish.failed", "message.publish.done"]


def test_checking_publishes_nothing_and_leaves_no_trace(topic: Topic, told: Callable[[], list[str]]) -> None:
    assert publishing.check(OPERATOR, topic.name, {"a": 1}).type == topic.name
    assert stored(topic.name) == []
    assert told() == []


def test_a_topic_without_priorities_refuses_one(topic: Topic) -> None:
    topics.change_topic(SYSTEM, topic.name, {"priorities": False})
    with pytest.raises(PublishRefused) as refused:
        publishing.publish(OPERATOR, topic.name, {}, PublishOptions(priority=Priority.HIGH))
    assert refused.value.field == "priority"
    assert publishing.publish(OPERATOR, topic.name, {}).position


# --- the page


@pytest.fixture
def post(signed_in: Callable[..., Client], topic: Topic) -> Callable[..., Any]:
    schemas.add_schema(SYSTEM, topic.name, SCHEMA)
    client = signed_in(Role.OPERATOR)

    def send(act: str = "publish", **form: str) -> Any:
        values = {"topic": topic.name, "payload": '{"guest": {"name": "A"}}', "priority": "normal", **form}
        return client.post(reverse("publishing:publish"), {**values, "act": act})

    return send


def test_the_page_publishes_with_all_options(post: Callable[..., Any], topic: Topic) -> None:
    answer = post(
        key="b/1", type="made.up", headers="tenant: lisbon\n", ttl_s="60", priority="high", idempotency_key="k"
    )
    assert answer.status_code == 302
    (message,) = stored(topic.name)
    assert (message.partitionkey, message.type, message.extensions, message.hbuspriority) == (
        "b/1",
        "made.up",
        {"tenant": "lisbon"},
        "high",
    )
    assert message.expirytime
    assert AuditEntry.objects.get(action="message.publish").target == message.id
    assert message.correlationid == AuditEntry.objects.get(action="message.publish").correlation_id


def test_a_delayed_one_is_told_with_its_time(post: Callable[..., Any], topic: Topic, signed_in: Any) -> None:
    answer = post(delay_s="3600")
    assert answer.status_code == 302
    assert stored(topic.name) == []


def test_a_transport_without_places_is_told_without_one(
    post: Callable[..., Any], topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = Receipt("01A", topic.name, "", ReceiptStatus.STORED)
    monkeypatch.setattr(publishing, "publish_by_hand", lambda *_: receipt)
    answer = post()
    page = answer.client.get(answer.headers["Location"]).content.decode()
    assert f"is stored in {topic.name}." in page


def test_checking_on_the_page_shows_the_envelope(post: Callable[..., Any], topic: Topic) -> None:
    body = post("check").content.decode()
    assert "It would be accepted" in body
    assert "urn:hbus:schema:booking.created:1" in body
    assert stored(topic.name) == []


def test_a_payload_that_is_checked_is_published_as_it_was_typed(post: Callable[..., Any], topic: Topic) -> None:
    typed = '{"guest": {"name": "A\u202eB\x9b"}}'
    answer = post("check", payload=typed)
    assert "\ufffd" not in answer.content.decode()
    assert post(payload=answer.context["values"]["payload"]).status_code == 302
    assert stored(topic.name)[0].json() == json.loads(typed)


def test_a_broken_schema_leads_to_the_schema_and_not_to_a_urn(post: Callable[..., Any], topic: Topic) -> None:
    body = post(payload='{"guest": 7}').content.decode()
    assert "See version 1 of its schema." in body
    assert '<a href="/topics/booking.created/schema/?version=1">' in body
    assert "urn:hbus:schema" not in body


@pytest.mark.parametrize(
    ("form", "field", "said"),
    [
        ({"payload": '{"guest":'}, "payload", "line 1"),
        ({"payload": "NaN"}, "payload", "no JSON"),
        ({"payload": '{"guest": {}}'}, "payload", "guest.name is required"),
        ({"headers": "tenant lisbon"}, "headers", "no header"),
        ({"headers": "Tenant: lisbon"}, "headers", "not allowed"),
        ({"headers": "a: 1\na: 2"}, "headers", "of its own"),
        ({"delay_s": "soon"}, "delay_s", "no number"),
        ({"delay_s": "-1"}, "delay_s", "negative"),
        ({"due": "2090-01-01T00:00"}, "due", "days ahead"),
        ({"due": "tomorrow"}, "due", "no moment"),
        ({"delay_s": "5", "due": "2026-11-22T00:00"}, "due", "Both"),
        ({"ttl_s": "0"}, "ttl_s", "not more than 0"),
        ({"priority": "urgent"}, "priority", "no priority"),
        ({"key": "x" * 201}, "key", "longer"),
        ({"key": "b\u202e/1"}, "key", "no page shows"),
        ({"key": "b\u200e/1"}, "key", "no page shows"),
        ({"headers": "tenant: lis\x9bbon"}, "headers", "no page shows"),
        ({"type": "made\u2066up"}, "type", "no page shows"),
        ({"idempotency_key": "k\x7f1"}, "idempotency_key", "no page shows"),
    ],
)
def test_a_bad_field_is_told_at_the_field_and_nothing_is_published(  # noqa: PLR0917
    form: dict[str, str], field: str, said: str, post: Callable[..., Any], topic: Topic, told: Callable[[], list[str]]
) -> None:
    before = told()
    answer = post(**form)
    assert answer.status_code == 422
    assert said in answer.context["errors"][field]
    assert said in answer.content.decode().replace("&#x27;", "'")
    assert stored(topic.name) == []
    assert told() == before


def test_the_same_key_again_is_no_second_message(post: Callable[..., Any], topic: Topic) -> None:
    post(idempotency_key="k")
    post(idempotency_key="k")
    assert len(stored(topic.name)) == 1
    conflict = post(idempotency_key="k", payload='{"guest": {"name": "B"}}')
    assert conflict.status_code == 422
    assert "used before" in conflict.context["errors"]["idempotency_key"]


def test_a_sample_of_the_schema_begins_the_form(signed_in: Callable[..., Client], topic: Topic) -> None:
    schemas.add_schema(SYSTEM, topic.name, SCHEMA)
    answer = signed_in(Role.OPERATOR).get(reverse("publishing:publish"), {"topic": topic.name})
    assert json.loads(answer.context["values"]["payload"]) == {"guest": {}}


def test_a_topic_outside_the_scope_can_neither_be_chosen_nor_published_to(
    signed_in: Callable[..., Client], topic: Topic
) -> None:
    client = signed_in(Role.OPERATOR, "stay.*")
    page = client.get(reverse("publishing:publish"), {"topic": topic.name})
    assert "There is no topic booking.created that you may publish to" in page.content.decode()
    refused = client.post(reverse("publishing:publish"), {"topic": topic.name, "payload": "{}", "act": "publish"})
    assert refused.status_code == 403
    assert stored(topic.name) == []


def test_a_form_whose_outcome_is_unknown_keeps_a_key_that_makes_its_repeat_safe(
    post: Callable[..., Any], topic: Topic, told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = bus.transport()
    publish = transport.publish
    with monkeypatch.context() as patched:
        patched.setattr(
            transport,
            "publish",
            lambda topic, batch: [
                Outcome(Status.UNKNOWN, one.message_id, error="cut off") for one in publish(topic, batch)
            ],
        )
        answer = post()
    # As the API answers it.
    assert answer.status_code == 504
    (there,) = stored(topic.name)
    assert f'href="/messages/{there.id}?topic={topic.name}">See whether it is stored' in answer.content.decode()
    assert answer.headers["HBUS-Form"] == "kept"
    key = answer.context["values"]["idempotency_key"]
    assert key in answer.content.decode()
    assert told()[-2:] == ["message.publish", "message.publish.unknown"]

    post(idempotency_key=key)
    assert len(stored(topic.name)) == 1


def test_a_form_sent_again_under_its_key_stores_nothing_twice(
    signed_in: Callable[..., Client], topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, transport = signed_in(Role.OPERATOR), bus.transport()
    publish = transport.publish
    path = reverse("publishing:publish")

    def send(key: str = "key-2") -> Any:
        form = {"topic": topic.name, "payload": "{}", "priority": "normal", "act": "publish"}
        marks = {"HBUS-Form": "1", "Idempotency-Key": key, "X-Correlation-ID": f"form-{key}"}
        return client.post(path, form, headers=marks)

    def asked(key: str) -> dict[str, str]:
        form = {"key": key, "path": path}
        answer: dict[str, str] = client.post("/audit/posted/", form, headers={"HBUS-Form": "1"}).json()
        return answer

    def became(key: str = "key-2") -> str:
        return asked(key)["state"]

    with monkeypatch.context() as patched:
        patched.setattr(
            transport, "publish", lambda *_: [Outcome(Status.FAILED, one.message_id, error="full") for one in _[1]]
        )
        send("key-1")
    assert became("key-1") == "nothing"
    assert send("key-1").status_code == 409
    with monkeypatch.context() as patched:
        patched.setattr(
            transport,
            "publish",
            lambda *_: [Outcome(Status.UNKNOWN, one.message_id, error="cut off") for one in publish(*_)],
        )
        send()
    assert became() == "unknown"
    (there,) = stored(topic.name)
    # How it stands is told by the page of the message, though no evidence tells of it.
    page = client.get(asked("key-2")["location"])
    assert f"It is stored: it lies in the log of {topic.name} at" in page.content.decode()
    assert there.id in page.content.decode()
    assert send().status_code == 204
    assert became() == "done"
    assert len(stored(topic.name)) == 1
