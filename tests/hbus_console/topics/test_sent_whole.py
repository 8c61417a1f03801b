"""Webhooks that are older than the masks of their topic: who masks is told of them, and the pages name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from hbus_console.access.acts import Role
from hbus_console.audit.models import AuditEntry
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

PAGE, SETTINGS, HOOK = "/topics/booking.created/", "/topics/booking.created/settings/", "/subscriptions/{}/spy/"
MASKS: dict[str, Any] = {"masked_fields": ["name"], "classification": "personal"}


@pytest.fixture
def spied(topic: Topic) -> Topic:
    """With a webhook that was made before anything was masked, and a handler in code."""
    for group, handler in (("billing", "code"), ("spy", "webhook")):
        Subscription.objects.create(topic=topic, group=group, handler=handler, webhook_url="https://93.184.216.34/")
    return topic


def changes() -> list[dict[str, Any]]:
    return [entry.after for entry in AuditEntry.objects.filter(action="topic.change").order_by("seq")]


@pytest.mark.parametrize("masks", [{"masked_fields": ["name"]}, {"classification": "confidential"}, MASKS])
def test_who_masks_more_is_told_of_the_webhooks_that_are_there(
    spied: Topic, masks: dict[str, Any], calling: Callable[..., Callable[..., Any]]
) -> None:
    call = calling()
    assert call("GET", f"topics/{spied.name}").json()["sent_whole_to"] == []
    answer = call("PATCH", f"topics/{spied.name}", {**masks, "reason": "names of guests"}).json()
    assert answer["sent_whole_to"] == ["spy"]
    assert [row["sent_whole_to"] for row in call("GET", "topics").json()["results"]] == [["spy"]]
    assert changes()[-1]["sent_whole_to"] == ["spy"]


def test_what_masks_no_more_names_nobody_anew(spied: Topic) -> None:
    topics.change_topic(EDITOR, spied.name, {"ttl_s": 60})
    topics.change_topic(GOVERNOR, spied.name, MASKS, "names of guests")
    topics.change_topic(GOVERNOR, spied.name, {"masked_fields": ["name"], "retention_hours": 9}, "full")
    topics.change_topic(GOVERNOR, spied.name, {"masked_fields": ["name", "room"]}, "and rooms")
    assert ["sent_whole_to" in after for after in changes()] == [False, True, False, True]


def test_the_pages_say_which_webhooks_are_sent_it_whole(spied: Topic, signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.GOVERNOR)
    assert "1 webhook is sent messages whole: spy." in " ".join(client.get(SETTINGS).content.decode().split())
    assert "sent it whole" not in client.get(PAGE).content.decode()
    assert "messages whole" not in client.get(HOOK.format(spied.name)).content.decode()
    form = {"part": "governance", "owner": "Reservations", "classification": "personal", "masked_fields": "name",
            "compatibility": "backward", "retention_hours": "168", "retention_messages": "0", "transport": "",
            "revision": str(spied.revision), "reason": "names of guests"}  # fmt: skip
    after = client.post(SETTINGS, form, follow=True).content.decode()
    assert "1 webhook goes on being sent whole what is masked now: spy." in after
    viewer = signed_in(Role.VIEWER)
    page = " ".join(viewer.get(PAGE).content.decode().split())
    assert "1 webhook is sent it whole:" in page
    assert f'href="{HOOK.format(spied.name)}"' in page
    assert "messages whole, with what booking.created masks" in viewer.get(HOOK.format(spied.name)).content.decode()
    assert "messages whole" not in viewer.get(f"/subscriptions/{spied.name}/billing/").content.decode()


def test_a_list_of_topics_asks_once_for_the_webhooks_of_all(
    spied: Topic,
    team: Team,
    calling: Callable[..., Callable[..., Any]],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    Topic.objects.update(**MASKS)
    call = calling()
    with django_assert_max_num_queries(100) as one:
        call("GET", "topics")
    for number in range(5):
        Topic.objects.create(name=f"stay.{number}", team=team, **MASKS)
    with django_assert_max_num_queries(len(one)):
        assert len(call("GET", "topics").json()["results"]) == 6
