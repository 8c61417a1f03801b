"""Producers choose the ids: whatever can be stored is opened by its own page and by the API, and nothing else is."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import pytest
from django.test import Client

from hbus_console.audit.models import AuditEntry
from hbus_console.messages.addresses import endpoint_of, evidence_of, page_of
from hbus_console.ui.curl import CurlRequest, command
from tests.hbus_console.messages.conftest import TOPIC, event, message, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]

HOSTILE = [
    "a/timeline", "a/reveal", "reveal/a", "evidence/a", "reveal", "timeline", "evidence", "message", "../../x", "..",
    ".", "./a", "/a", "//evil.example/a", "a/", "a//b", "a/../b", "a/..", "a\r\nb", "\n", "a\tb", "a\x7fb", "a\\b",
    "\\\\evil.example\\a", "%2e%2e", "a%2Ftimeline", "%", "?id=a", "a?b#c", "a&topic=x", "a b", " a ", "a+b", "a;b",
    "straße", "日本", "a\u2028b", "javascript:alert(1)", '"><script>', "'", "{{ 1 }}", "A" * 64,
]  # fmt: skip
#: What stands in the path, as ever.
PLAIN = {"01K9LETTER": "01K9LETTER", "a:b@c": "a:b@c", "a b": "a%20b", "straße": "stra%C3%9Fe", "a?b": "a%3Fb"}


def opened(address: str) -> str:
    """What a browser asks a server for when it follows the link on the list."""
    whole = urlsplit(urljoin("http://hbus.example/messages/", address.replace("\\", "/")))
    assert whole.netloc == "hbus.example", address
    return f"{whole.path}?{whole.query}"


def links(page: Any) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'href="([^"]*)"', page.content.decode())]


@pytest.fixture
def others(installation: None) -> None:
    """Those that an address could lead to by mistake."""
    for id_ in ("a", "b", "x"):
        message(id_, type="somebody.elses")


@pytest.mark.parametrize("message_id", HOSTILE)
def test_whatever_an_id_is_its_links_and_endpoints_lead_to_it(message_id: str, others: None, sign_in: SignIn) -> None:
    message(message_id, key="this one")
    event(message_id, "settled", 5)
    client = sign_in()
    listed = client.get("/messages/", {"key": "this one"})
    found = [each for each in links(listed) if each.startswith("/message") and f"topic={TOPIC}&source=" in each]
    assert found
    for link in found:
        assert client.get(opened(link)).context["life"].message_id == message_id
    page = client.get(opened(page_of(TOPIC, message_id)))
    assert (page.status_code, page.context["life"].message_id) == (200, message_id)
    assert evidence_of(TOPIC, message_id, "/hotels/reservations-api") in links(page)
    evidence = json.loads(client.get(opened(evidence_of(TOPIC, message_id))).content)
    assert evidence["ledger"]["id"] == message_id
    assert client.get(opened(endpoint_of(TOPIC, message_id))).json()["id"] == message_id
    assert client.get("/api/v1/message", {"id": message_id, "topic": TOPIC}).json()["id"] == message_id
    timeline = client.get("/api/v1/message/timeline", {"id": message_id}).json()["results"]
    assert [moment["kind"] for moment in timeline] == ["published", "settled"]


@pytest.mark.parametrize("message_id", ["a/reveal", "../../x", "reveal/a", "plain"])
def test_whatever_an_id_is_its_masked_fields_are_revealed_by_page_and_api(
    message_id: str, book: Callable[[], None], sign_in: SignIn
) -> None:
    publish(message_id=message_id)
    book()
    client = sign_in("governor")
    page = client.get(opened(page_of(TOPIC, message_id))).content.decode()
    assert "Ana Lima" not in page
    form = html.unescape(re.findall(r'action="(/message/reveal/[^"]*)"', page)[0])
    assert "Ana Lima" in client.post(form, {"reason": "guest asks"}).content.decode()
    address = f"/api/v1/message/reveal?id={quote(message_id)}"
    answer = client.post(address, {"reason": "guest asks again"}, content_type="application/json").json()
    assert answer["payload"]["value"]["guest"]["name"] == "Ana Lima"
    told = AuditEntry.objects.filter(action="payload.reveal").order_by("seq")
    assert [(entry.subject.name, entry.reason) for entry in told] == [
        (message_id, "guest asks"), (message_id, "guest asks again")
    ]  # fmt: skip


@pytest.mark.parametrize(("message_id", "said"), PLAIN.items())
def test_a_plain_id_stands_in_the_path_as_ever(message_id: str, said: str) -> None:
    assert page_of(TOPIC, message_id) == f"/messages/{said}?topic={TOPIC}"
    assert evidence_of(TOPIC, message_id) == f"/messages/evidence/{said}?topic={TOPIC}"
    assert endpoint_of(TOPIC, message_id) == f"/api/v1/messages/{said}?topic={TOPIC}"


def test_an_id_with_slashes_is_found_at_its_old_address_too(installation: None, sign_in: SignIn) -> None:
    message("orders/2026/7")
    client = sign_in()
    assert client.get("/messages/orders/2026/7").context["life"].message_id == "orders/2026/7"
    assert client.get("/api/v1/messages/orders/2026/7").json()["id"] == "orders/2026/7"


def test_no_id_is_said_to_be_missing(installation: None, sign_in: SignIn) -> None:
    client = sign_in()
    answer = client.get("/api/v1/message")
    assert (answer.status_code, answer.json()["field"]) == (422, "id")
    assert client.get("/message/").status_code == 404
    assert page_of(TOPIC, "") == ""


def test_a_command_is_one_line_whatever_the_id(installation: None) -> None:
    said = command(CurlRequest("GET", endpoint_of(TOPIC, "a'\r\nb c?")), "https://hbus.example/")
    assert "'https://hbus.example/api/v1/message?id=a%27%0D%0Ab+c%3F&topic=booking.changed'" in said
