from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.test import Client

from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.evidence.freshness import Freshness
from hbus_console.messages.models import FlowSample
from hbus_console.traffic import flow, flow_chart
from hbus_console.traffic.history import complete_slots
from hbus_console.ui.formats import epoch_ms
from hbus_console.ui.timerange import TimeRange
from tests.costs import database_work
from tests.hbus_console.accounts.conftest import MakeUser
from tests.hbus_console.kept import kept

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def paused(actor: Actor, name: str) -> None:
    with transaction.atomic():
        record(actor, "subscription.pause", Subject("subscription", name, "billing"), reason="why not")


def chart(client: Client, query: str = "") -> dict[str, object]:
    response = client.get(f"/charts/flow/{query}")
    assert response.status_code == 200
    return dict(json.loads(response.content))


def test_marks_say_what_was_done_and_by_whom(page: Client, admin_actor: Actor) -> None:
    paused(admin_actor, "booking.created")
    marks = chart(page)["marks"]
    assert [mark["label"] for mark in marks] == ["billing paused by root"]  # type: ignore[attr-defined]


def test_what_a_subscriptions_chart_calls_published_is_its_topics(page: Client) -> None:
    """A copy for one of them was drawn as if it had been for the others too."""

    def names(query: str) -> list[str]:
        return [line["name"] for line in chart(page, query)["series"]]  # type: ignore[attr-defined]

    assert names("?topic=booking.created")[0] == "published"
    assert names("?topic=booking.created&subscription=billing")[0] == "published on the topic"


def test_acts_of_one_moment_are_one_mark(page: Client, admin_actor: Actor) -> None:
    for _ in range(3):
        paused(admin_actor, "booking.created")
    marks = chart(page, "?range=7d")["marks"]
    assert [mark["label"] for mark in marks] == ["billing paused by root, and 2 more"]  # type: ignore[attr-defined]


def test_marks_of_other_namespaces_and_other_topics_are_left_out(
    page: Client, admin_actor: Actor, make_user: MakeUser, browse: Callable[[User], Client]
) -> None:
    paused(admin_actor, "stay.completed")
    assert chart(browse(make_user("otto", "operator", "booking.*")))["marks"] == []
    assert chart(page, "?topic=booking.created")["marks"] == []
    assert len(chart(page, "?topic=stay.completed")["marks"]) == 1  # type: ignore[arg-type]


def test_who_may_not_read_the_audit_log_gets_no_marks(
    admin_actor: Actor, viewer: User, browse: Callable[[User], Client]
) -> None:
    paused(admin_actor, "booking.created")
    assert chart(browse(viewer))["marks"] == []


def test_a_topic_outside_ones_scopes_is_refused(viewer: User, browse: Callable[[User], Client]) -> None:
    assert browse(viewer).get("/charts/flow/?topic=stay.completed").status_code == 403


@pytest.mark.parametrize("query", ["?range=2h", "?subscription=billing"])
def test_a_malformed_question_is_refused(page: Client, query: str) -> None:
    assert page.get(f"/charts/flow/{query}").status_code == 400


def test_figures_are_of_the_chosen_time(page: Client, now_ms: int) -> None:
    kept(now_ms)
    old = now_ms - now_ms % 10_000 - 2 * 3_600_000
    FlowSample.objects.create(bucket_ms=old, topic="a", published=50)
    assert not any(chart(page)["series"][0]["values"])  # type: ignore[index]
    assert max(chart(page, "?range=3h")["series"][0]["values"]) > 0  # type: ignore[index]


def test_a_slot_that_still_fills_is_left_out() -> None:
    series = flow.Series(step_s=10, t=[100, 110, 120], published=[], settled=[])
    booked = Freshness.at(130_000, 130_000)
    assert complete_slots(series, 130_000 + 3_000, booked) == 3
    assert complete_slots(series, 130_000 + 2_999, booked) == 2
    assert complete_slots(series, 121_000, booked) == 1


def test_what_is_not_booked_is_no_fall_to_nothing() -> None:
    series = flow.Series(step_s=10, t=[100, 110, 120, 130], published=[], settled=[])
    stopped = Freshness.at(120_000 + 3_000, 200_000)
    assert complete_slots(series, 200_000, stopped) == 2
    assert complete_slots(series, 200_000, Freshness()) == 1


def test_marks_of_a_long_span_cost_what_is_marked_and_not_what_was_done(admin_actor: Actor) -> None:
    began = datetime(2026, 9, 1, tzinfo=UTC)
    AuditEntry.objects.bulk_create(
        AuditEntry(
            seq=seq, at=began + timedelta(minutes=seq), actor="a", actor_kind="user", target_type="user", target="a",
            action="subscription.pause" if seq % 1_000 == 0 else "user.sign_in", previous_hash="", hash="",
        )
        for seq in range(1_001, 6_001)
    )  # fmt: skip
    month = TimeRange(epoch_ms(began), epoch_ms(began + timedelta(days=30)), "a month", "")
    with database_work("default") as cost:
        found = flow_chart.marks(admin_actor, month)
    assert len(found) == 5
    cost.at_most(3_000, "for 5 of 5,000 entries")
