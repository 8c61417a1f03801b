"""The failures of a subscription: by their cause, and as a share of its attempts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from engine.bus.dead import fingerprint
from engine.core.clock import to_datetime
from hbus_console.messages.models import FlowSample, LedgerEvent
from hbus_console.subscriptions import services, subscription_page
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.traffic.flow import BUCKET_MS
from hbus_console.traffic.standing import failing
from hbus_console.ui.formats import clock
from tests.hbus_console.kept import kept
from tests.hbus_console.topics.conftest import EDITOR

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]
ONE = ("booking.created", "billing")


def test_a_cause_is_told_with_what_varies_and_not_by_its_last_case(
    topic: Topic, committed: Callable[..., None], signed_in: Callable[..., Client]
) -> None:
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))
    now = time.time_ns() // 1_000_000
    LedgerEvent.objects.bulk_create(
        LedgerEvent(
            at_ms=now - number, topic=ONE[0], subscription=ONE[1], message_id=f"m{number}", kind="retried",
            error=f"UnknownRoomCode: room code '{room}' is unknown",
            fingerprint=fingerprint(ONE[1], "UnknownRoomCode", f"room code '{room}' is unknown"),
        )
        for number, room in enumerate("QZZ")
    )  # fmt: skip
    client = signed_in()
    page = client.get(reverse("subscriptions:detail", args=ONE)).content.decode()
    assert "UnknownRoomCode: room code … is unknown" in page
    assert "room code: “Z” × 2, “Q” × 1" in page
    # What stands there may be what the topic masks, or what one of its name masked before it was made.
    for masks in ({"masked_fields": ["room"]}, {"masked_fields": [], "created_at": to_datetime(now + 1_000)}):
        Topic.objects.update(**masks)
        page = client.get(reverse("subscriptions:detail", args=ONE)).content.decode()
        assert "room code: masked" in page
        assert "Z 2" not in page


def test_what_is_not_counted_or_listed_is_said(
    topic: Topic, committed: Callable[..., None], signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_page, "LOOK_BACK", 4)
    monkeypatch.setattr(subscription_page, "CAUSES", 2)
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))
    now = time.time_ns() // 1_000_000
    client = signed_in()

    def fail(number: int, cause: str) -> None:
        LedgerEvent.objects.create(
            at_ms=now - number, topic=ONE[0], subscription=ONE[1], message_id=f"m{number}", kind="retried",
            error=f"{cause}: it failed", fingerprint=cause,
        )  # fmt: skip

    def meta() -> str:
        page = " ".join(client.get(reverse("subscriptions:detail", args=ONE)).content.decode().split())
        return page.partition("<h2>Recent failures</h2>")[2].partition("</div>")[0].strip()

    fail(1, "A")
    fail(2, "A")
    fail(3, "B")
    fail(4, "B")
    assert meta() == "", "all of them are counted"
    fail(5, "C")
    assert meta() == f'<span class="muted">of the newest 4 attempts, back to {clock(now - 4)[:8]}</span>'
    monkeypatch.setattr(subscription_page, "LOOK_BACK", 5)
    assert meta() == '<span class="muted">1 more cause</span>'


@pytest.mark.parametrize(
    ("part", "told"),
    [(None, ("–", "")), (0.0, ("0", "%")), (0.00001, ("0.01", "%")), (0.07, ("7", "%")), (0.125, ("12.5", "%"))],
)
def test_a_share_of_failures_is_never_rounded_down_to_none(part: float | None, told: tuple[str, str]) -> None:
    assert failing(part) == told


def test_list_and_page_tell_which_share_of_the_attempts_failed(
    topic: Topic, committed: Callable[..., None], signed_in: Callable[..., Client]
) -> None:
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))
    kept(time.time_ns() // 1_000_000)
    bucket_ms = time.time_ns() // 1_000_000 - 60_000
    counts = {"settled": 600, "retried": 300, "dead": 100}
    FlowSample.objects.create(topic=ONE[0], subscription=ONE[1], bucket_ms=bucket_ms - bucket_ms % BUCKET_MS, **counts)
    client = signed_in()
    assert (
        '<td class="num hide-medium hot-warn">40 %</td>' in client.get(reverse("subscriptions:list")).content.decode()
    )
    page = client.get(reverse("subscriptions:detail", args=ONE)).content.decode()
    assert "Failed attempts" in page
    assert "400 of 1,000 in this time" in page
