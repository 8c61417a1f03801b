"""Every page of the app answers, for an empty and for a busy installation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.schemas import services as schemas
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.teams.models import Team
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
ONE = ["booking.created", "billing"]
HOOK = ["booking.created", "partner"]


@pytest.fixture
def busy(topic: Topic, committed: Callable[..., None]) -> None:
    def make() -> None:
        schemas.add_schema(SYSTEM, topic.name, SCHEMA)
        schemas.add_schema(SYSTEM, topic.name, {**SCHEMA, "title": "second"})
        subscriptions.create_subscription(SYSTEM, SubscriptionDraft(*ONE, "Reservations"))
        subscriptions.create_subscription(
            SYSTEM,
            SubscriptionDraft(*HOOK, "Reservations", handler="webhook", webhook_url="https://93.184.216.34/hooks"),
        )
        topics.create_topic(SYSTEM, TopicDraft(name="stay.completed", owner="Reservations"))
        topics.change_topic(SYSTEM, "stay.completed", {"owner": ""}, "dissolved")

    committed(make)
    committed(lambda: subscriptions.pause_subscription(SYSTEM, *HOOK, "partner is down"))


PAGES: list[tuple[str, list[Any], str]] = [
    ("topics:list", [], "booking.created"),
    ("topics:detail", ["booking.created"], "billing"),
    ("topics:detail", ["stay.completed"], "every publish is refused"),
    ("schemas:schema", ["booking.created"], "Version 2"),
    ("topics:settings", ["booking.created"], "Who answers and who sees"),
    ("topics:connect", ["booking.created"], "AsyncAPI"),
    ("topics:trail", ["booking.created"], "added a schema to"),
    ("subscriptions:new", ["booking.created"], "Subscribe"),
    ("topics:new", [], "First schema"),
    ("teams:list", [], "#reservations"),
    ("publishing:publish", [], "Which topic?"),
    ("subscriptions:list", [], "partner"),
    ("subscriptions:detail", ONE, "No consumer runs it"),
    ("subscriptions:detail", HOOK, "partner is down"),
    ("subscriptions:settings", ONE, "declaration in code"),
    ("subscriptions:settings", HOOK, "New secret"),
]


@pytest.mark.parametrize(("name", "args", "holds"), PAGES)
def test_a_page_says_what_it_should(
    name: str, args: list[Any], holds: str, busy: None, signed_in: Callable[..., Client]
) -> None:
    answer = signed_in().get(reverse(name, args=args))
    assert answer.status_code == 200
    assert holds in answer.content.decode()


@pytest.mark.parametrize("role", list(Role))
def test_no_role_meets_a_broken_page(role: Role, busy: None, signed_in: Callable[..., Client]) -> None:
    client = signed_in(role)
    for name, args, _ in PAGES:
        assert client.get(reverse(name, args=args)).status_code in (200, 403), (name, args)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("topics:list", "No topic yet"),
        ("subscriptions:list", "Nobody subscribes yet"),
        ("teams:list", "No team yet"),
        ("publishing:publish", "No topic you may publish to"),
        ("publishing:publish", "There is none yet."),
        ("topics:new", "There is no team yet"),
    ],
)
def test_an_empty_installation_says_the_next_step(name: str, holds: str, signed_in: Callable[..., Client]) -> None:
    assert holds in signed_in().get(reverse(name)).content.decode()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("topics:detail", ["no.such"]),
        ("schemas:schema", ["no.such"]),
        ("subscriptions:detail", ["booking.created", "nobody"]),
    ],
)
def test_what_is_not_there_is_404(name: str, args: list[str], topic: Topic, signed_in: Callable[..., Client]) -> None:
    assert signed_in().get(reverse(name, args=args)).status_code == 404


def test_a_topic_outside_the_scope_is_refused_and_not_listed(busy: None, signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.VIEWER, "stay.*")
    assert client.get(reverse("topics:detail", args=["booking.created"])).status_code == 403
    listed = client.get(reverse("topics:list")).content.decode()
    assert "stay.completed" in listed
    assert "booking.created" not in listed
    assert "billing" not in client.get(reverse("subscriptions:list")).content.decode()
    assert "booking.created" not in client.get(reverse("teams:list")).content.decode()


@pytest.mark.parametrize(
    ("query", "shown", "hidden"),
    [
        ("?owner=-", "stay.completed", "booking.created"),
        ("?owner=Reservations", "booking.created", "stay.completed"),
        ("?q=stay", "stay.completed", "booking.created"),
        ("?classification=internal&q=booking", "booking.created", "stay.completed"),
    ],
)
def test_the_list_of_topics_is_narrowed(
    query: str, shown: str, hidden: str, busy: None, signed_in: Callable[..., Client]
) -> None:
    body = signed_in().get(reverse("topics:list") + query).content.decode()
    assert f">{shown}</a>" in body
    assert f">{hidden}</a>" not in body


def test_the_list_of_subscriptions_is_narrowed_by_state(busy: None, signed_in: Callable[..., Client]) -> None:
    body = signed_in().get(reverse("subscriptions:list") + "?state=paused").content.decode()
    assert ">partner</a>" in body
    assert ">billing</a>" not in body


def test_the_worst_topic_comes_first(busy: None, signed_in: Callable[..., Client]) -> None:
    body = signed_in().get(reverse("topics:list")).content.decode()
    assert body.index(">stay.completed</a>") < body.index(">booking.created</a>")


def test_a_long_list_goes_on_after_the_last_name(
    team: Team, signed_in: Callable[..., Client], django_assert_max_num_queries: Any
) -> None:
    Topic.objects.bulk_create(Topic(name=f"t{number:03d}", team=team) for number in range(130))
    client = signed_in()
    with django_assert_max_num_queries(25):
        first = client.get(reverse("topics:list"))
    assert first.context["next_cursor"] == "t099"
    second = client.get(reverse("topics:list") + "?cursor=t099")
    assert [row.topic.name for row in second.context["rows"]][:1] == ["t100"]
    assert second.context["next_cursor"] == ""


def test_with_the_store_away_the_pages_still_answer(
    busy: None, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.core.errors import Unavailable

    client = signed_in()

    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(bus, "admin", away)
    assert "the store cannot be asked" in client.get(reverse("topics:detail", args=ONE[:1])).content.decode()
    page = client.get(reverse("subscriptions:detail", args=ONE)).content.decode()
    assert "The store is away." in page
    # Nor does the stream put there what the keeper saw last.
    figures = page.partition('class="figures')[2].partition("</section>")[0]
    assert figures.count("the store cannot be asked") >= 2
    assert "nothing waits" not in figures
    assert "/unsettled" not in figures


def test_a_group_the_store_lost_is_said(busy: None, signed_in: Callable[..., Client]) -> None:
    bus.admin().delete_group(*ONE)
    body = signed_in().get(reverse("subscriptions:detail", args=ONE)).content.decode()
    assert "does not know this subscription" in body
    assert Subscription.objects.filter(group="billing").exists()
