"""What was not settled over a time, as topics and subscriptions draw it, and to whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.accounts.models import User
from hbus_console.messages.models import LagSample
from hbus_console.traffic import views

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NOW = 1_795_867_200_000


@pytest.fixture(autouse=True)
def _week(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading each day of the week before, of two subscriptions, and one of this moment."""
    monkeypatch.setattr(views, "_clock", ManualClock(NOW))
    for days in range(7):
        for group in ("billing", "audit"):
            lag(group, NOW - days * 86_400_000 - 3_600_000, 10 * days)
    lag("billing", NOW - 1_000, 999)


def lag(group: str, at_ms: int, waiting: int) -> None:
    LagSample.objects.create(
        topic="booking.created", subscription=group, at_ms=at_ms, waiting=waiting, in_flight=1, retrying=2, parked=4
    )


def drawn(client: Client, query: str) -> list[int]:
    answer = client.get(f"/charts/lag/?range=7d{query}")
    assert answer.status_code == 200
    (line,) = answer.json()["series"]
    return [value for value in line["values"] if value is not None]


def test_a_week_of_a_topic_and_of_one_subscription(page: Client) -> None:
    of_one = [10 * days + 7 for days in range(6, -1, -1)]
    assert drawn(page, "&topic=booking.created&subscription=audit") == of_one
    assert drawn(page, "&topic=booking.created") == [2 * value for value in of_one], "the slot that goes on is left out"
    assert drawn(page, "&topic=stay.completed") == []


def test_who_may_not_see_the_topic_sees_no_lag(viewer: User, browse: Callable[[User], Client]) -> None:
    assert browse(viewer).get("/charts/lag/?topic=stay.completed").status_code == 403


def test_a_subscription_needs_its_topic(page: Client) -> None:
    assert page.get("/charts/lag/?subscription=billing").status_code == 400
