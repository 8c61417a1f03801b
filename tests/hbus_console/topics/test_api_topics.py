"""Teams, topics and schemas over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from hbus_console.access.acts import Role
from hbus_console.audit.models import AuditEntry
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

Caller = Callable[..., Any]
NEW = {"name": "stay.completed", "owner": "Reservations", "description": "A stay is over."}
SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def call(calling: Callable[..., Caller]) -> Caller:
    return calling()


def test_a_topics_whole_life(call: Caller, team: Team) -> None:
    made = call("POST", "topics", {**NEW, "schema": SCHEMA, "reason": "new"})
    assert (made.status_code, made.json()["owner"], made.json()["schema_version"]) == (201, "Reservations", 1)
    changed = call("PATCH", "topics/stay.completed", {"retention_hours": 24, "revision": 1, "reason": "full"})
    assert (changed.status_code, changed.json()["retention_hours"], changed.json()["revision"]) == (200, 24, 2)
    paused = call("POST", "topics/stay.completed/pause", {"reason": "migration"}).json()
    assert (paused["paused"], paused["pause_reason"]) == (True, "migration")
    assert not call("POST", "topics/stay.completed/resume").json()["paused"]
    assert call("GET", "topics/stay.completed").json()["ttl_s"] == 0
    gone = call("DELETE", "topics/stay.completed", {"typed_name": "stay.completed", "reason": "old"})
    assert (gone.status_code, gone.content) == (204, b"")
    assert call("GET", "topics/stay.completed").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({**NEW, "name": "Stay"}, 422, "name"),
        ({**NEW, "owner": "Nobody"}, 422, "owner"),
        ({"name": "stay.completed"}, 422, "owner"),
        ({**NEW, "colour": "red"}, 422, "colour"),
        ({**NEW, "retention_hours": "long"}, 422, "retention_hours"),
        ({**NEW, "masked_fields": [1]}, 422, "masked_fields[0]"),
        ({**NEW, "name": "booking.created"}, 409, "name"),
        ([1], 422, ""),
    ],
)
def test_a_bad_topic_is_a_problem_that_names_its_field(
    body: Any, status: int, field: str, call: Caller, topic: Topic
) -> None:
    answer = call("POST", "topics", body)
    assert (answer.status_code, answer.json().get("field", "")) == (status, field)
    assert answer["Content-Type"] == "application/problem+json"
    assert Topic.objects.count() == 1


def test_a_change_made_meanwhile_is_a_conflict(call: Caller, topic: Topic) -> None:
    assert call("PATCH", f"topics/{topic.name}", {"ttl_s": 5, "revision": 1}).status_code == 200
    assert call("PATCH", f"topics/{topic.name}", {"ttl_s": 6, "revision": 1}).status_code == 409


def test_lists_are_filtered_by_scope_owner_class_and_name(
    calling: Callable[..., Caller], call: Caller, topic: Topic
) -> None:
    call("POST", "topics", {**NEW, "classification": "public"})
    call("PATCH", "topics/stay.completed", {"owner": "", "reason": "dissolved"})

    def names(caller: Caller, query: str = "") -> list[str]:
        return [row["name"] for row in caller("GET", f"topics{query}").json()["results"]]

    assert names(call) == ["booking.created", "stay.completed"]
    assert names(call, "?owner=") == ["stay.completed"]
    assert names(call, "?owner=Reservations") == ["booking.created"]
    assert names(call, "?classification=public") == ["stay.completed"]
    assert names(call, "?q=book") == ["booking.created"]
    scoped = calling(Role.VIEWER, "booking.*")
    assert names(scoped) == ["booking.created"]
    assert scoped("GET", "topics/stay.completed").status_code == 403


def test_a_long_list_is_paged(call: Caller, team: Team) -> None:
    Topic.objects.bulk_create(Topic(name=f"t{number:03d}", team=team) for number in range(7))
    first = call("GET", "topics?limit=5").json()
    assert len(first["results"]) == 5
    second = call("GET", f"topics?{first['next'].partition('?')[2]}").json()
    assert [row["name"] for row in second["results"]] == ["t005", "t006"]


def test_lists_cost_the_same_for_any_number_of_rows(
    call: Caller, team: Team, django_assert_max_num_queries: Any
) -> None:
    Topic.objects.bulk_create(Topic(name=f"t{number:03d}", team=team) for number in range(40))
    with django_assert_max_num_queries(12):
        assert len(call("GET", "topics").json()["results"]) == 40


def test_schema_versions_are_checked_before_they_are_added(call: Caller, topic: Topic) -> None:
    path = f"topics/{topic.name}/schemas"
    assert call("POST", path, {"body": SCHEMA, "note": "first"}).json()["version"] == 1
    verdict = call("POST", f"{path}/check", {"body": {**SCHEMA, "required": ["id", "vip"]}}).json()
    assert (verdict["accepted"], verdict["breaks"][0]["path"]) == (False, "vip")
    refused = call("POST", path, {"body": {**SCHEMA, "required": ["id", "vip"]}})
    assert (refused.status_code, refused.json()["field"]) == (422, "body")
    assert call("GET", f"{path}/1").json()["body"] == SCHEMA
    assert call("GET", f"{path}/2").status_code == 404
    assert [row["version"] for row in call("GET", path).json()["results"]] == [1]


def test_a_teams_whole_life(call: Caller, db: None) -> None:
    assert call("POST", "teams", {"name": "Loyalty", "contact": "#loyalty"}).status_code == 201
    assert call("PATCH", "teams/Loyalty", {"contact": "loyalty@hotel.example"}).json()["contact"].startswith("loyalty@")
    assert call("GET", "teams").json()["results"][0] == {
        "name": "Loyalty",
        "contact": "loyalty@hotel.example",
        "topics": 0,
        "subscriptions": 0,
        "jobs": 0,
        "policies": 0,
    }
    assert call("GET", "teams/Loyalty").status_code == 200
    assert call("DELETE", "teams/Loyalty", {"reason": "merged"}).status_code == 204
    assert call("GET", "teams/Loyalty").status_code == 404


@pytest.mark.parametrize(
    ("role", "method", "path", "body"),
    [
        (Role.EDITOR, "POST", "teams", {"name": "A", "contact": "#a"}),
        (Role.OPERATOR, "POST", "topics", NEW),
        (Role.OPERATOR, "PATCH", "topics/booking.created", {"ttl_s": 1}),
        (Role.EDITOR, "PATCH", "topics/booking.created", {"owner": "", "reason": "x"}),
        (Role.EDITOR, "DELETE", "topics/booking.created", {"typed_name": "booking.created", "reason": "x"}),
        (Role.VIEWER, "POST", "topics/booking.created/pause", {"reason": "x"}),
        (Role.OPERATOR, "POST", "topics/booking.created/schemas", {"body": {}}),
    ],
)
def test_a_role_too_weak_is_refused_and_the_refusal_audited(  # noqa: PLR0917
    role: Role, method: str, path: str, body: Any, calling: Callable[..., Caller], topic: Topic
) -> None:
    answer = calling(role)(method, path, body)
    assert answer.status_code == 403
    assert AuditEntry.objects.order_by("-seq")[0].action.endswith(".refused")


def test_a_repeated_key_creates_once(call: Caller, team: Team) -> None:
    first = call("POST", "topics", NEW, **{"Idempotency-Key": "k1"})
    again = call("POST", "topics", NEW, **{"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert Topic.objects.count() == 1


def test_the_asyncapi_document_holds_what_the_actor_may_see(calling: Callable[..., Caller], topic: Topic) -> None:
    assert list(calling(Role.VIEWER, "booking.*")("GET", "asyncapi").json()["channels"]) == ["booking.created"]
    assert calling(Role.VIEWER, "stay.*")("GET", "asyncapi").json()["channels"] == {}


def test_the_asyncapi_document_of_one_topic_has_no_other(call: Caller, topic: Topic) -> None:
    for name in ("booking.created.late", "not.booking.created"):
        Topic.objects.create(name=name)
    assert len(call("GET", f"asyncapi?q={topic.name}").json()["channels"]) == 3
    assert list(call("GET", f"asyncapi?name={topic.name}").json()["channels"]) == [topic.name]
    assert call("GET", "asyncapi?name=booking").json()["channels"] == {}


def test_what_the_page_of_a_topic_copies_answers_that_topic(signed_in: Callable[..., Client], topic: Topic) -> None:
    shown = signed_in().get(reverse("topics:connect", args=[topic.name])).content.decode()
    assert f"/api/v1/asyncapi?name={topic.name}" in shown
    assert f"asyncapi?q={topic.name}" not in shown
