from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.clock import SystemClock
from engine.core.ids import IdSource, new_id
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.message_trace import YOUNG_MS
from hbus_console.messages.models import LedgerMessage
from tests.hbus_console.messages.conftest import AT, TOPIC, event, message, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]


@pytest.fixture
def sent(book: Callable[[], None]) -> str:
    message_id = publish(key="booking/48213", correlation_id="req-9f21c0", headers={"tenant": "lisbon"})
    book()
    return message_id


def test_it_shows_life_payload_and_envelope(sign_in: SignIn, sent: str) -> None:
    page = sign_in().get(f"/messages/{sent}").content.decode()
    for words in ("Published by", "waiting", "Where it came from", "req-9f21c0", "lisbon", "DBL-SEA", "Same key"):
        assert words in page, words
    assert '<svg class="lanes"' in page
    assert '<svg class="graph"' in page
    assert "Ana Lima" not in page
    assert "masked · personal" in page
    assert f"/api/v1/messages/{sent}" in page


def test_a_position_that_another_message_has_got_shows_nothing_of_it(sign_in: SignIn, sent: str) -> None:
    LedgerMessage.objects.update(message_id="another")
    client = sign_in("governor")
    page = client.get("/messages/another").content.decode()
    assert "Another message lies where it was." in page
    assert "DBL-SEA" not in page
    answer = client.post("/messages/reveal/another", {"reason": "curious"})
    assert (answer.status_code, "Ana Lima" in answer.content.decode()) == (400, False)


def test_what_expired_everywhere_does_not_wait(sign_in: SignIn, sent: str) -> None:
    client = sign_in()
    context = client.get(f"/messages/{sent}").context
    first, *others = context["life"].subscriptions
    assert ("warn", "waiting") in list(context["badges"])
    event(sent, "expired", 5, first)
    for group in others:
        event(sent, "settled", 6, group)
    assert ("warn", "expired") in list(client.get(f"/messages/{sent}").context["badges"])


@pytest.mark.parametrize("tab", ["conversation", "key", "raw", "made-up"])
def test_every_tab_opens(sign_in: SignIn, sent: str, tab: str) -> None:
    neighbour = publish(key="booking/48213", correlation_id="req-9f21c0")
    LedgerMessage.objects.create(
        message_id=neighbour, topic=TOPIC, type=TOPIC, source="/s", key="booking/48213", correlation_id="req-9f21c0",
        size=1, position="2-0", published_ms=AT,
    )  # fmt: skip
    page = sign_in().get(f"/messages/{sent}?tab={tab}").content.decode()
    if tab in ("conversation", "key"):
        assert f'title="{neighbour}"' in page
    if tab == "raw":
        assert "specversion" in page
    assert "Ana Lima" not in page


def test_a_waiting_dead_letter_offers_the_redrive(sign_in: SignIn, sent: str) -> None:
    row = LedgerMessage.objects.get()
    letter = DeadLetter.objects.create(
        topic=TOPIC, subscription="billing", message_id=sent, source=row.source, position="1-0", body=b"{}", cause="X",
        error="X", fingerprint="7c1f9a", attempts=5, first_failed_at="2026-11-20T14:02:11Z",
        died_at="2026-11-20T14:02:46Z",
    )  # fmt: skip
    event(sent, "dead", row.published_ms - AT + 9, attempt=5)
    page = sign_in("operator").get(f"/messages/{sent}").content.decode()
    assert "dead in 1 of 2" in page
    assert f"/dead-letters/?letter={letter.pk}&amp;next=/messages/{sent}" in page
    assert "Redrive…" not in sign_in("viewer").get(f"/messages/{sent}").content.decode()


def test_revealing_shows_it_once_and_is_audited(sign_in: SignIn, sent: str) -> None:
    client = sign_in("governor")
    answer = client.post(f"/messages/reveal/{sent}", {"reason": "guest asks"})
    assert answer.status_code == 200
    assert "Ana Lima" in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    assert AuditEntry.objects.get(action="payload.reveal").reason == "guest asks"
    again = client.get(f"/messages/{sent}").content.decode()
    assert "Ana Lima" not in again
    assert "Revealed by" in again


def test_without_a_reason_nothing_is_revealed(sign_in: SignIn, sent: str) -> None:
    answer = sign_in("governor").post(f"/messages/reveal/{sent}", {"reason": " "})
    assert answer.status_code == 400
    assert "needs a reason" in answer.content.decode()
    assert "Ana Lima" not in answer.content.decode()


@pytest.mark.parametrize("role", ["viewer", "operator", "editor"])
def test_who_may_not_reveal_is_refused_and_that_is_audited(sign_in: SignIn, sent: str, role: str) -> None:
    client = sign_in(role)
    assert "takes the role governor" in client.get(f"/messages/{sent}").content.decode()
    assert client.post(f"/messages/reveal/{sent}", {"reason": "curious"}).status_code == 403
    assert AuditEntry.objects.get(action="payload.reveal.refused").actor == f"{role}-all"


def test_evidence_is_a_file_masked_as_the_page(sign_in: SignIn, sent: str) -> None:
    answer = sign_in().get(f"/messages/evidence/{sent}")
    assert f"message-{sent}.json" in answer["Content-Disposition"]
    body = json.loads(answer.content)
    assert body["ledger"]["id"] == sent
    assert body["timeline"][0]["kind"] == "published"
    assert "Ana Lima" not in answer.content.decode()


def test_ids_of_any_shape_have_a_page(sign_in: SignIn) -> None:
    message("orders/2026/ünï-7?x")
    answer = sign_in().get("/messages/orders/2026/%C3%BCn%C3%AF-7%3Fx")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("age_ms", "status", "words"), [(0, 202, "Not yet in the ledger"), (YOUNG_MS, 404, "The ledger has no message")]
)
def test_an_unknown_id_and_one_out_of_scope_look_alike(
    sign_in: SignIn, installation: None, age_ms: int, status: int, words: str
) -> None:
    made_ms = SystemClock().now_ms() - age_ms
    known, nobodys = IdSource().new(made_ms), IdSource().new(made_ms)
    message(known)
    for found in (sign_in().get(f"/messages/{nobodys}"), sign_in("viewer", "stay.*").get(f"/messages/{known}")):
        assert found.status_code == status
        assert words in found.content.decode()


def test_a_message_made_a_moment_ago_is_waited_for(sign_in: SignIn, installation: None) -> None:
    client, made = sign_in(), new_id(SystemClock().now_ms())
    page = client.get(f"/messages/{made}")
    assert page.status_code == 202
    assert "Not yet in the ledger" in page.content.decode()
    assert f'hx-get="/messages/{made}"' in page.content.decode()
    # It looks again by itself: nothing changes, until the browser is told to load the message's own page.
    htmx = {"HX-Request": "true"}
    assert client.get(f"/messages/{made}", headers=htmx).status_code == 204
    message(made)
    assert client.get(f"/messages/{made}", headers=htmx).headers["HX-Refresh"] == "true"
    assert client.get(f"/messages/{made}").status_code == 200


def test_waiting_for_a_message_ends(sign_in: SignIn, settings: Settings) -> None:
    client, now_ms = sign_in(), SystemClock().now_ms()
    for made_ms in (now_ms - YOUNG_MS - 1, now_ms + 10 * YOUNG_MS):
        old = IdSource().new(made_ms)
        assert client.get(f"/messages/{old}").status_code == 404
        assert client.get(f"/messages/{old}", headers={"HX-Request": "true"}).headers["HX-Refresh"] == "true"
    settings.HBUS_LEDGER = False
    assert client.get(f"/messages/{new_id(now_ms)}").status_code == 404, "nothing will ever be booked"


def test_the_api_says_that_it_may_come(sign_in: SignIn, installation: None) -> None:
    answer = sign_in().get(f"/api/v1/messages/{new_id(SystemClock().now_ms())}")
    assert answer.status_code == 404
    assert "Ask again in a moment" in answer.content.decode()
