"""What the page of the order says of one key: its head, and what is none of this subscription's business."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from django.test import Client
from django.urls import reverse

from engine.bus.partitions import partition_of
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.subscriptions import order_page
from hbus_console.subscriptions.models import Subscription
from tests.hbus_console.subscriptions.test_order import ONE, billing, facts

__all__ = ["billing", "facts"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]


def rows_of(billing: Subscription, number: int) -> list[LedgerMessage]:
    """Messages of one key, a second apart, the oldest first; none of them handled."""
    since_ms = round(billing.created_at.timestamp() * 1000) + 1_000
    return [
        LedgerMessage.objects.create(
            message_id=f"m{n}", topic=ONE[0], type=ONE[0], source="/s", size=1, key="room-1",
            position=f"{n}-0", published_ms=since_ms + n * 1_000,
        )
        for n in range(number)
    ]  # fmt: skip


def tell(row: LedgerMessage, kind: str, group: str = ONE[1]) -> None:
    LedgerEvent.objects.create(
        message_id=row.message_id, topic=ONE[0], subscription=group, kind=kind, source="/s",
        at_ms=row.published_ms + 10, attempt=1, error="ValueError: no" if kind == "retried" else "",
    )  # fmt: skip


def test_the_head_of_a_long_key_is_the_one_that_fails_and_not_the_first_shown(
    billing: Subscription, monkeypatch: pytest.MonkeyPatch, signed_in: Callable[..., Client]
) -> None:
    monkeypatch.setattr(order_page, "MESSAGES", 3)
    monkeypatch.setattr(order_page, "_CHUNK", 2)
    client = signed_in()
    rows = rows_of(billing, 9)
    tell(rows[0], "settled")
    tell(rows[1], "retried")
    view = order_page.key_view(billing, "room-1", [], [])
    assert [step.message.message_id for step in view.steps] == ["m1", "m6", "m7", "m8"]
    assert (view.state, view.head, view.between, view.waiting) == ("blocked", view.steps[0], 4, 8)
    page = client.get(reverse("subscriptions:order", args=ONE), {"key": "room-1"}).content.decode()
    assert "holds up 7" in page
    assert "4 more, is not through either" in page
    # When it lies further back than anybody looks
    monkeypatch.setattr(order_page, "MOST_BACK", 4)
    view = order_page.key_view(billing, "room-1", [], [])
    assert (view.head, view.beyond, view.waiting) == (None, True, 7)
    page = client.get(reverse("subscriptions:order", args=ONE), {"key": "room-1"}).content.decode()
    assert "what holds them up may lie further back" in page
    assert "holds up 7" not in page


def test_a_copy_for_another_subscription_holds_nothing_up(billing: Subscription) -> None:
    first, second = rows_of(billing, 2)
    LedgerMessage.objects.filter(pk=first.pk).update(causation_id="m9")
    DeadLetter.objects.create(
        topic=ONE[0], subscription="search", message_id="m9", source="/s", body=b"", attempts=1, state="redriven",
        redriven_as=first.message_id, first_failed_at=billing.created_at, died_at=billing.created_at,
    )  # fmt: skip
    view = order_page.key_view(billing, "room-1", [], [])
    assert [step.message.message_id for step in view.steps] == [second.message_id]


def test_what_lay_there_before_it_began_at_the_end_holds_nothing_up(billing: Subscription) -> None:
    before, after = rows_of(billing, 2)
    LedgerMessage.objects.filter(pk=before.pk).update(published_ms=before.published_ms - 3_600_000)
    (mine,) = [
        each
        for each in order_page.partitions(billing)[0]
        if each.partition == partition_of("room-1", "", billing.topic.partitions)
    ]

    def shown(**stands: int | None) -> list[str]:
        table = [msgspec.structs.replace(mine, **stands)]
        return [step.message.message_id for step in order_page.key_view(billing, "room-1", table, []).steps]

    assert shown(unsettled=1, oldest_ms=after.published_ms) == ["m1"]
    assert shown(unsettled=2, oldest_ms=before.published_ms - 3_600_000) == ["m0", "m1"], "it began at the beginning"
    assert shown(unsettled=None, oldest_ms=None) == ["m0", "m1"], "nobody knows"
    tell(before, "settled")
    assert shown(unsettled=1, oldest_ms=after.published_ms) == ["m0", "m1"], "it has had it"
