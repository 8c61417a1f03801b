"""What the forms and sheets of the pages do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.schemas import services as schemas
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.teams.models import Team
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NEW_TOPIC = {
    "name": "stay.completed",
    "owner": "Reservations",
    "description": "A stay\r\nis over.",
    "classification": "personal",
    "masked_fields": "guest.name\r\nguest.email, guests[].name",
    "compatibility": "backward",
    "ordering": "key",
    "retention_hours": "1,000",
    "retention_messages": "0",
    "max_bytes": "1048576",
    "idempotency_window_s": "86400",
    "ttl_s": "0",
    "transport": "",
    "schema": '{"type": "object"}',
    "reason": "",
}
ONE = ["booking.created", "billing"]
POLICY = {"max_attempts": "5", "backoff_s": "1, 2.5", "concurrency": "4", "lease_s": "30"}


def told(answer: Any) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


@pytest.fixture
def client(signed_in: Callable[..., Client]) -> Client:
    return signed_in(Role.GOVERNOR)


@pytest.fixture
def billing(topic: Topic, committed: Callable[..., None]) -> Subscription:
    committed(lambda: subscriptions.create_subscription(SYSTEM, SubscriptionDraft(*ONE, "Reservations")))
    return Subscription.objects.get()


def test_a_topic_is_made_by_the_form(client: Client, team: Team) -> None:
    answer = client.post(reverse("topics:new"), NEW_TOPIC)
    assert answer.status_code == 302, answer.context["errors"]
    row = Topic.objects.get()
    assert (row.description, row.retention_hours, row.ordering, row.priorities) == (
        "A stay\nis over.",
        1000,
        "key",
        False,
    )
    assert row.masked_fields == ["guest.email", "guest.name", "guests[].name"]
    assert SchemaVersion.objects.get().body == {"type": "object"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Stay"}, "name"),
        ({"owner": ""}, "owner"),
        ({"masked_fields": ""}, "masked_fields"),
        ({"retention_hours": "a week"}, "retention_hours"),
        ({"priorities": "on"}, "priorities"),
        ({"schema": "{"}, "schema"),
        ({"schema": '{"type": "objct"}'}, "schema"),
    ],
)
def test_a_bad_field_is_told_at_the_field_and_what_was_typed_stays(
    change: dict[str, str], field: str, client: Client, team: Team
) -> None:
    answer = client.post(reverse("topics:new"), {**NEW_TOPIC, **change})
    assert answer.status_code == 422
    assert list(answer.context["errors"]) == [field]
    assert 'role="alert"' in answer.content.decode()
    assert answer.context["values"]["classification"] == "personal"
    assert not Topic.objects.exists()


def settings_form(topic: Topic, part: str, **change: str) -> dict[str, str]:
    fields = {
        "workings": ["description", "ordering", "max_bytes", "ttl_s"],
        "governance": ["classification", "compatibility", "retention_hours", "retention_messages", "transport"],
    }[part]
    form = {name: str(getattr(topic, name)) for name in fields}
    if part == "workings":
        form |= {"priorities": "on", "idempotency_window_s": str(topic.idempotency_window_s)}
    else:
        form |= {"owner": "Reservations", "masked_fields": ""}
    return {**form, "part": part, "revision": str(topic.revision), **change}


def test_settings_are_told_in_units_that_are_easy_to_read(topic: Topic, signed_in: Callable[..., Client]) -> None:
    page = signed_in().get(reverse("topics:settings", args=[topic.name])).content.decode()
    assert '<p class="help">1 MiB</p>' in page
    assert '<p class="help">1 day. How long an idempotency key is remembered.</p>' in page
    assert '<p class="help">7 days. What a subscription' in page


def test_settings_are_changed_by_the_two_forms(client: Client, topic: Topic) -> None:
    url = reverse("topics:settings", args=[topic.name])
    assert client.post(url, settings_form(topic, "workings", ttl_s="60")).status_code == 302
    topic.refresh_from_db()
    governed = settings_form(
        topic, "governance", classification="confidential", retention_hours="24", reason="legal asked"
    )
    assert client.post(url, governed).status_code == 302
    topic.refresh_from_db()
    assert (topic.ttl_s, topic.retention_hours, topic.classification, topic.revision) == (60, 24, "confidential", 3)


def test_saving_without_a_difference_says_so(client: Client, topic: Topic) -> None:
    answer = client.post(reverse("topics:settings", args=[topic.name]), settings_form(topic, "workings"))
    assert "nothing changed" in told(answer)
    assert not AuditEntry.objects.filter(action="topic.change").exists()


def test_a_form_from_before_somebody_elses_change_is_refused(client: Client, topic: Topic) -> None:
    topics.change_topic(SYSTEM, topic.name, {"ttl_s": 60})
    answer = client.post(
        reverse("topics:settings", args=[topic.name]), settings_form(topic, "workings", max_bytes="500")
    )
    assert answer.status_code == 422
    assert "somebody else meanwhile" in answer.content.decode()


def test_an_editor_cannot_govern_by_hand_made_form(signed_in: Callable[..., Client], topic: Topic) -> None:
    editor = signed_in(Role.EDITOR)
    form = settings_form(topic, "governance", owner="", reason="x")
    assert editor.post(reverse("topics:settings", args=[topic.name]), form).status_code == 403
    topic.refresh_from_db()
    assert topic.team is not None


def test_pause_and_resume_of_a_topic(client: Client, topic: Topic) -> None:
    url = reverse("topics:pause", args=[topic.name])
    assert "needs a reason" in told(client.post(url, {"reason": " "}))
    assert "held" in told(client.post(url, {"reason": "migration"}))
    assert "“migration”" in client.get(reverse("topics:detail", args=[topic.name])).content.decode()
    client.post(reverse("topics:resume", args=[topic.name]), {"reason": ""})
    topic.refresh_from_db()
    assert not topic.paused


def test_a_topic_is_deleted_by_typing_its_name(client: Client, topic: Topic) -> None:
    url = reverse("topics:delete", args=[topic.name])
    assert "name typed" in told(client.post(url, {"typed_name": "booking", "reason": "x"}))
    assert Topic.objects.exists()
    assert client.post(url, {"typed_name": topic.name, "reason": "old"}).headers["Location"] == reverse("topics:list")
    assert not Topic.objects.exists()


def test_a_schema_is_checked_and_added_by_the_form(client: Client, topic: Topic) -> None:
    url = reverse("schemas:schema", args=[topic.name])
    first = '{"type": "object", "required": ["id"]}'
    assert "It would be accepted" in client.post(url, {"act": "check", "body": first}).content.decode()
    assert not SchemaVersion.objects.exists()
    client.post(url, {"act": "add", "body": first, "note": "first"})
    assert SchemaVersion.objects.get().note == "first"
    narrower = '{"type": "object", "required": ["id", "vip"]}'
    checked = client.post(url, {"act": "check", "body": narrower}).content.decode()
    assert "vip is required, but old messages may lack it." in checked
    added = client.post(url, {"act": "add", "body": narrower})
    assert (added.status_code, list(added.context["errors"])) == (422, ["body"])
    assert "already" in told(client.post(url, {"act": "add", "body": first}))


def test_a_viewer_may_check_a_schema_but_not_add_it(signed_in: Callable[..., Client], topic: Topic) -> None:
    viewer = signed_in(Role.VIEWER)
    url = reverse("schemas:schema", args=[topic.name])
    assert viewer.post(url, {"act": "check", "body": "{}"}).status_code == 200
    assert viewer.post(url, {"act": "add", "body": "{}"}).status_code == 403


def test_versions_are_compared(client: Client, topic: Topic) -> None:
    schemas.add_schema(SYSTEM, topic.name, {"type": "object"})
    schemas.add_schema(SYSTEM, topic.name, {"type": "object", "title": "second"})
    url = reverse("schemas:schema", args=[topic.name])
    body = client.get(url, {"version": "2", "against": "1"}).content.decode()
    assert "<ins>+   &quot;title&quot;: &quot;second&quot;</ins>" in body
    assert client.get(url, {"version": "3"}).status_code == 404


def test_a_webhook_is_subscribed_and_its_secret_shown_once(client: Client, topic: Topic, settings: Settings) -> None:
    settings.HBUS_WEBHOOK_PRIVATE = True
    url = reverse("subscriptions:new", args=[topic.name])
    form = {**POLICY, "group": "partner", "owner": "Reservations", "handler": "webhook", "description": "",
            "webhook_url": "http://127.0.0.1/x", "webhook_timeout_s": "10", "start": "end"}  # fmt: skip
    answer = client.post(url, form)
    row = Subscription.objects.get()
    assert row.backoff_s == [1.0, 2.5]
    assert row.webhook_secret in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    page = client.get(reverse("subscriptions:settings", args=[topic.name, "partner"])).content.decode()
    assert row.webhook_secret not in page
    rotated = client.post(reverse("subscriptions:rotate-secret", args=[topic.name, "partner"]), {"reason": "leaked"})
    row.refresh_from_db()
    assert row.webhook_secret in rotated.content.decode()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": ""}, "group"),
        ({"owner": ""}, "owner"),
        ({"backoff_s": "1, soon"}, "backoff_s"),
        ({"concurrency": "many"}, "concurrency"),
        ({"handler": "webhook", "webhook_url": "http://127.0.0.1/"}, "webhook_url"),
    ],
)
def test_a_bad_subscription_is_told_at_the_field(
    change: dict[str, str], field: str, client: Client, topic: Topic
) -> None:
    form = {**POLICY, "group": "billing", "owner": "Reservations", "handler": "code", "webhook_timeout_s": "10"}
    answer = client.post(reverse("subscriptions:new", args=[topic.name]), {**form, **change})
    assert (answer.status_code, list(answer.context["errors"])) == (422, [field])
    assert not Subscription.objects.exists()


def test_acts_on_a_subscription(client: Client, billing: Subscription, committed: Callable[..., None]) -> None:
    def post(name: str, **form: str) -> str:
        answers: list[Any] = []
        committed(lambda: answers.append(client.post(reverse(f"subscriptions:{name}", args=ONE), form)))
        return told(answers[0])

    page = reverse("subscriptions:detail", args=ONE)
    assert "needs a reason" in post("pause")
    assert "is paused" in post("pause", reason="partner is down")
    assert "“partner is down”" in client.get(page).content.decode()
    assert "again" in post("resume")
    assert "drains" in post("drain", reason="release")
    assert "Drained: nothing is in flight." in client.get(page).content.decode()
    assert "name typed" in post("delete", typed_name="bill", reason="x")
    assert "deleted" in post("delete", typed_name="billing", reason="moved")
    assert list(AuditEntry.objects.order_by("seq").values_list("action", flat=True))[-4:] == [
        "subscription.pause",
        "subscription.resume",
        "subscription.drain",
        "subscription.delete",
    ]


def test_settings_of_a_subscription(client: Client, billing: Subscription) -> None:
    url = reverse("subscriptions:settings", args=ONE)
    form = {**POLICY, "owner": "", "description": "slow", "transactional": "on", "revision": "1"}
    assert list(client.post(url, form).context["errors"]) == ["reason"]
    assert client.post(url, {**form, "reason": "nobody's any more"}).status_code == 302
    billing.refresh_from_db()
    assert (billing.team, billing.transactional, billing.held_fields) == (None, True, ["backoff_s", "transactional"])
    assert client.post(url, {**form, "lease_s": "90", "revision": "1"}).status_code == 422
    client.post(reverse("subscriptions:follow-code", args=ONE))
    billing.refresh_from_db()
    assert billing.held_fields == []


def test_an_editor_is_shown_the_owner_and_not_asked_for_one(
    signed_in: Callable[..., Client], billing: Subscription
) -> None:
    url, editor = reverse("subscriptions:settings", args=ONE), signed_in(Role.EDITOR)
    html = " ".join(editor.get(url).content.decode().split())
    assert '<span class="label">Owner</span> <p class="value">Reservations</p>' in html
    assert "A governor may change it." in html
    assert 'name="owner"' not in html
    assert editor.post(url, {**POLICY, "description": "slow", "revision": "1"}).status_code == 302
    billing.refresh_from_db()
    assert billing.team is not None
    assert editor.post(url, {**POLICY, "owner": "", "reason": "mine"}).status_code == 403
    billing.refresh_from_db()
    assert (billing.description, billing.team is None) == ("slow", False)


def test_teams_are_kept_on_their_page(client: Client, team: Team) -> None:
    url = reverse("teams:list")
    client.post(url, {"act": "create", "name": "Loyalty", "contact": "#loyalty"})
    client.post(url, {"act": "change", "team": "Loyalty", "name": "Loyalty club", "contact": "#club"})
    assert Team.objects.get(name="Loyalty club").contact == "#club"
    assert client.post(url, {"act": "delete", "team": "Loyalty club", "reason": ""}).status_code == 422
    client.post(url, {"act": "delete", "team": "Loyalty club", "reason": "merged"})
    assert not Team.objects.filter(name="Loyalty club").exists()
    assert client.post(url, {"act": "explode"}).status_code == 422


@pytest.mark.parametrize("name", ["pause", "resume", "drain", "delete", "rotate-secret", "follow-code"])
def test_acts_are_posts(name: str, client: Client, billing: Subscription) -> None:
    assert client.get(reverse(f"subscriptions:{name}", args=ONE)).status_code == 405


def test_an_act_on_a_topic_that_is_not_there_says_so(signed_in: Callable[..., Client]) -> None:
    page = signed_in()
    for name in ("pause", "resume"):
        answer = page.post(reverse(f"topics:{name}", args=["nobody.knows"]), {"reason": "why"})
        told = [str(message) for message in get_messages(answer.wsgi_request)]
        assert told[-1] == "There is no topic 'nobody.knows'. Look for it in the list of topics."
