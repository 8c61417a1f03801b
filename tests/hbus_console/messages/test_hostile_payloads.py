"""Payloads of foreign writers that are no JSON to most readers: pages and endpoints go on, and mask them whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from engine.bus.message import encode
from engine.bus.transport import Outgoing
from hbus_console.access.acts import Role
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.models import LedgerMessage
from hbus_console.replays.kind import KIND
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.engine.bus.hostile_payloads import BROKEN, FINE, HOSTILE, SECRET, hostile_message
from tests.hbus_console.messages.conftest import TOPIC, account, person, publish
from tests.hbus_console.messages.test_api import call

__all__ = ["call"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

PLAIN = "stay.completed"
LYING = {**HOSTILE, **FINE, **{name: text for name, text in BROKEN.items() if text}}
IDS = {name: f"m{number}" for number, name in enumerate(LYING)}


@pytest.fixture
def lying(installation: None) -> dict[str, str]:
    """Every such payload in both topics' logs, in the ledger and among the dead letters, and a good one behind them;
    the position of each id in the masked topic."""
    places: dict[str, str] = {}
    past = datetime.now(UTC) + timedelta(minutes=1)
    for topic in (PLAIN, TOPIC):
        for name, text in LYING.items():
            message = hostile_message(f"{IDS[name]}-{topic}", text)
            body = encode(message)
            bus.transport().publish(topic, [Outgoing(message.id, body)])
            newest = bus.admin().browse(topic, after="", limit=1, newest_first=True).entries[0]
            places[message.id] = newest.position
            LedgerMessage.objects.create(
                message_id=message.id, topic=topic, type="t", source="/s", size=1, position=newest.position,
                published_ms=newest.at_ms, correlation_id="c",
            )  # fmt: skip
            DeadLetter.objects.create(
                topic=topic, subscription="billing", message_id=message.id, source="/s", position=newest.position,
                body=body, cause="E", error="E", fingerprint="7c1f9a0000000000", attempts=1, history=[],
                first_failed_at=past, died_at=past,
            )  # fmt: skip
    publish(topic=PLAIN)
    publish()
    return places


def _strict(text: bytes) -> Any:
    """JSON as a browser takes it: no NaN, no Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text.decode(), parse_constant=refuse)


def _read(client: Client, path: str) -> bytes:
    answer = client.get(path, follow=True)
    content = b"".join(answer) if answer.streaming else answer.content
    assert answer.status_code == 200, (path, content[:500])
    return bytes(content)


def test_every_page_and_endpoint_survives_them(sign_in: Callable[..., Client], lying: dict[str, str]) -> None:
    client = sign_in()
    for topic in (PLAIN, TOPIC):
        paths = [
            f"/messages/?topic={topic}&in=log", f"/topics/{topic}/",
            f"/replays/{topic}/test/?filter=payload.n%20%3E%201",
            f"/replays/{topic}/", f"/dead-letters/?topic={topic}", f"/dead-letters/export?topic={topic}",
            f"/messages/?topic={topic}", f"/messages/?topic={topic}&field=room.code%3DDBL-SEA",
        ]  # fmt: skip
        paths += [f"/dead-letters/{letter.pk}/edit" for letter in DeadLetter.objects.filter(topic=topic)]
        for name in IDS.values():
            paths += [f"/messages/{name}-{topic}", f"/messages/evidence/{name}-{topic}"]
        for path in paths:
            content = _read(client, path)
            if topic == TOPIC:
                assert SECRET.encode() not in content, path


def test_every_endpoint_gives_strict_json_of_them(lying: dict[str, str]) -> None:
    token = create_token(actor_of(account("admin")), "t", Role.ADMIN, "*", datetime.now(UTC) + timedelta(days=1)).raw
    client = Client(headers={"Authorization": f"Bearer {token}"})
    for topic in (PLAIN, TOPIC):
        paths = [
            f"topics/{topic}/log?limit=100", f"topics/{topic}/log?field=room.code%3DDBL-SEA",
            f"topics/{topic}/log?field=n~9", f"dead-letters?topic={topic}&limit=100", f"messages?topic={topic}",
            *(f"dead-letters/{letter.pk}" for letter in DeadLetter.objects.filter(topic=topic)),
            *(f"messages/{name}-{topic}" for name in IDS.values()),
            *(f"messages/{name}-{topic}/timeline" for name in IDS.values()),
        ]  # fmt: skip
        for path in paths:
            content = _read(client, f"/api/v1/{path}")
            _strict(content)
            if topic == TOPIC:
                assert SECRET.encode() not in content, path
        found = _strict(_read(client, f"/api/v1/topics/{topic}/log?field=room.code%3DDBL-SEA"))
        assert found["matched"] == 1
        exported = _read(client, f"/api/v1/dead-letters/export?topic={topic}").splitlines()
        assert len([_strict(line) for line in exported]) == len(LYING)
    log = _strict(_read(client, f"/api/v1/topics/{TOPIC}/log?limit=100"))["results"]
    names = {f"{number}-{TOPIC}": name for name, number in IDS.items()}
    for seen in log:
        name = names.get((seen["envelope"] or {}).get("id", ""), "")
        if name in HOSTILE:
            assert seen["payload"]["masked"] == ["*"]
        elif name in FINE:
            assert seen["payload"]["form"] == "json"


def test_a_replay_is_planned_without_them(lying: dict[str, str]) -> None:
    spec = KIND.check(person("admin"), {"topic": PLAIN, "into_topic": TOPIC})
    Topic.objects.filter(name=TOPIC).update(masked_fields=[])
    plan = KIND.plan(person("admin"), spec)
    assert plan.total == len(FINE) + 1
    assert any("cannot be read and will be left" in said for said in plan.warnings)


def test_no_request_publishes_one(installation: None) -> None:
    token = create_token(actor_of(account("admin")), "t", Role.ADMIN, "*", datetime.now(UTC) + timedelta(days=1)).raw
    client = Client(headers={"Authorization": f"Bearer {token}"})
    path, envelope = f"/api/v1/topics/{PLAIN}/messages", b'"specversion":"1.0","id":"1","source":"/s","type":"t"'
    for name, text in {**HOSTILE, **BROKEN}.items():
        one, event = b'{"data":' + text + b"}", b"{" + envelope + b',"data":' + text + b"}"
        for body, kind in ((one, "json"), (event, "cloudevents+json")):
            answer = client.post(path, body, content_type=f"application/{kind}")
            assert answer.status_code == 422, (name, answer.content)
            assert answer.json()["remedy"], name
            if name in ("no UTF-8", "too many digits", "beyond a double", "deep"):
                assert answer.json()["field"] == "data", name
        body = b'{"messages":[{"data":1},' + one + b',{"data":2}]}'
        answer = client.post(f"{path}/batch", body, content_type="application/json")
        assert answer.status_code in (200, 422), name
        if answer.status_code == 200:
            assert [row["status"] for row in answer.json()["results"]] == ["stored", "refused", "stored"], name
    bodies = [stored.body for stored in bus.admin().browse(PLAIN, limit=1_000).entries]
    assert not any(SECRET.encode() in body for body in bodies)
