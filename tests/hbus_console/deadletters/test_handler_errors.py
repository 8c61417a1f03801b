"""What handlers say in their errors is told whole to who may reveal what their topic masks, to others by its cause."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.test import Client

from engine.bus.breaker_board import Standing
from engine.bus.dead import DeadRecord
from engine.bus.partitions import Parked
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.subscriptions import order_page
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.breaker import told_to
from hbus_console.topics.handler_errors import told_error
from hbus_console.topics.models import Topic
from hbus_console.topics.transport_objects import make_group
from hbus_console.ui.formats import epoch_ms
from tests.hbus_console.deadletters.conftest import NOW, MakeLetter, person
from tests.hbus_console.messages.conftest import sign_in

__all__ = ["sign_in"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("facts")]
SignIn = Callable[..., Client]
ERROR = "UnknownGuest: guest 'Lindner' is unknown"
TOLD = "UnknownGuest: guest … is unknown"
ONE = "topics/booking.changed/subscriptions/partner-sync"


@pytest.fixture
def letter(make_letter: MakeLetter) -> DeadLetter:
    """With all that the ledger knows of its message."""
    history = [{"number": 1, "at_ms": epoch_ms(NOW), "duration_us": 5, "consumer": "w1", "error": ERROR}]
    made = make_letter(cause=TOLD, error=f"{ERROR}\n  File 'x.py'", history=history, died_at=NOW)
    named = {"message_id": made.message_id, "topic": made.topic, "source": made.source}
    LedgerMessage.objects.create(
        **named, type="t", key=made.key, position="1763649060000-0", size=10, published_ms=epoch_ms(NOW)
    )
    for kind in ("retried", "dead"):
        LedgerEvent.objects.create(
            **named, subscription=made.subscription, kind=kind, at_ms=epoch_ms(NOW) + 5, attempt=1, error=ERROR
        )
    Topic.objects.update(ordering="key")
    make_group(Subscription.objects.get())
    return made


def pages(letter: DeadLetter) -> list[str]:
    return [
        f"/dead-letters/?letter={letter.pk}",
        f"/messages/{letter.message_id}",
        f"/messages/{letter.message_id}?tab=raw",
        f"/messages/evidence/{letter.message_id}",
        f"/subscriptions/{letter.topic}/{letter.subscription}/order/?key={letter.key}",
        "/api/v1/dead-letters",
        f"/api/v1/dead-letters/{letter.pk}",
        "/api/v1/dead-letters/export",
        f"/api/v1/messages/{letter.message_id}",
        f"/api/v1/{ONE}/order?key={letter.key}",
    ]


def read(client: Client, address: str) -> str:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200, (address, answer.content[:500])
    return (b"".join(answer) if answer.streaming else answer.content).decode()


@pytest.mark.parametrize(
    ("role", "topic", "whole"),
    [
        ("editor", {"masked_fields": ["room"]}, False),
        ("governor", {"masked_fields": ["room"]}, True),
        ("editor", {}, True),
        # It lay in another one of that name.
        ("editor", {"created_at": NOW + timedelta(days=1)}, False),
    ],
)
def test_an_error_is_told_whole_to_who_may_reveal_and_by_its_cause_to_others(
    sign_in: SignIn, letter: DeadLetter, role: str, topic: dict[str, Any], whole: bool
) -> None:
    Topic.objects.update(**({"revision": 1} | topic))
    client = sign_in(role)
    for address in pages(letter):
        said = read(client, address)
        assert ("Lindner" in said) is whole, address
        assert "UnknownGuest: guest" in said, address


@pytest.mark.parametrize(
    ("role", "forced", "why"), [("editor", False, TOLD), ("editor", True, ERROR), ("governor", False, ERROR)]
)
def test_so_is_why_a_breaker_opened(subscription: Subscription, role: str, forced: bool, why: str) -> None:
    Topic.objects.update(masked_fields=["room"])
    subscription.refresh_from_db()
    stands = Standing(state="open", since_ms=epoch_ms(NOW), why=ERROR, forced=forced)
    assert told_to(person(role), subscription, stands).why == why


@pytest.mark.parametrize(("told_from", "reason"), [(None, TOLD), (0, ERROR)])
def test_so_is_why_a_key_was_parked(told_from: int | None, reason: str) -> None:
    record = DeadRecord(
        cause=TOLD, error=f"{ERROR}\n  File 'x.py'", fingerprint="f", attempts=1, history=(), first_failed_ms=1,
        died_ms=2, topic="t", group="g", consumer="c", handler="h",
    )  # fmt: skip
    aside = Parked("k", 0, "1-0", 1, msgspec.json.encode(record))
    assert order_page._parked(aside, told_from, elsewhere=False).reason == reason


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("", ""),
        ("E", "E"),
        ("E: guest 'Lindner', twice\nguest Lindner", "E: guest …, twice"),
        # What the limit of a text, or the end of its first line, cut off.
        ("E: guest 'Lind", "E: guest …"),
        ('E: guest "Lin\ndner" of the partner\'s', "E: guest …"),
        ("E: the partner's 3 rooms", "E: the partner's # rooms"),
    ],
)
def test_the_cause_of_an_error_quotes_nothing(error: str, told: str) -> None:
    assert (told_error(error, 5, None), told_error(error, 5, 6)) == (told, told)
    assert (told_error(error, 5, 5), told_error(error, 5, 0)) == (error, error)
