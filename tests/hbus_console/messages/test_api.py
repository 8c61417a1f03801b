from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit.models import AuditEntry
from tests.hbus_console.messages.conftest import TOPIC, account, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Call = Callable[..., tuple[int, Any]]


@pytest.fixture
def call(db: None) -> Call:
    """``call("GET", "messages", role="viewer", scope="*")`` -> status and JSON."""

    def run(method: str, path: str, body: Any = None, role: str = "admin", scope: str = "*", **headers: str) -> Any:
        expires_at = datetime.now(UTC) + timedelta(days=1)
        name = f"t{len(headers)}-{datetime.now(UTC).timestamp()}".replace(".", "-")
        token = create_token(actor_of(account(role, scope)), name, Role(role), scope, expires_at).raw
        answer = Client().generic(
            method, f"/api/v1/{path}", json.dumps(body) if body is not None else "", content_type="application/json",
            headers={"Authorization": f"Bearer {token}", **headers},
        )  # fmt: skip
        return answer.status_code, json.loads(answer.content)

    return run


@pytest.fixture
def sent(book: Callable[[], None]) -> list[str]:
    ids = [publish(key="booking/1", correlation_id="req-1") for _ in range(3)]
    book()
    return ids


def test_searching_gives_cursor_pages(call: Call, sent: list[str]) -> None:
    status, first = call("GET", "messages?key=booking/1&limit=2")
    assert (status, [row["id"] for row in first["results"]]) == (200, sent[:0:-1])
    nothing = {
        "settled": [],
        "dead": [],
        "expired": [],
        "skipped": [],
        "nobody_told": [],
        "lost": [],
        "cancelled": [],
        "refused_when_due": "",
        "retrying": [],
        "failed_attempts": 0,
    }
    assert first["results"][0]["outcome"] == {**nothing, "published_again": 0, "delivered_again": {}}
    _, rest = call("GET", first["next"].partition("/api/v1/")[2])
    assert [row["id"] for row in rest["results"]] == sent[:1]
    assert rest["next"] is None


def test_a_life_and_its_timeline(call: Call, sent: list[str]) -> None:
    status, life = call("GET", f"messages/{sent[0]}")
    assert status == 200
    assert life["payload"]["value"]["guest"]["name"] == "masked · personal"
    assert life["payload"]["masked"] == ["guest.name"]
    assert life["envelope"]["correlationid"] == "req-1"
    _, told = call("GET", f"messages/{sent[0]}/timeline")
    assert told["results"] == life["timeline"]
    assert told["results"][0]["sentence"].startswith("Published by")


def test_a_log_is_peeked_at_and_searched(call: Call, sent: list[str]) -> None:
    _, page = call("GET", f"topics/{TOPIC}/log?limit=2")
    assert [row["envelope"]["id"] for row in page["results"]] == sent[:0:-1]
    assert page["next"]
    _, found = call("GET", f"topics/{TOPIC}/log?field=booking%3D48213")
    assert (found["scanned"], found["matched"], found["stopped"], found["next"]) == (3, 3, "the log ends here", None)
    assert "Ana Lima" not in json.dumps(found)


def test_revealing_over_http_is_audited_and_kept_for_no_key(call: Call, sent: list[str]) -> None:
    headers = {"Idempotency-Key": "abc"}
    body = {"reason": "guest asks", "fields": ["guest.name"]}
    status, found = call("POST", f"messages/{sent[0]}/reveal", body, **headers)
    assert status == 200
    assert found["payload"]["value"]["guest"]["name"] == "Ana Lima"
    assert AuditEntry.objects.get(action="payload.reveal").seq == found["audit_entry"]
    assert not IdempotencyRecord.objects.filter(status=200).exists()


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (("GET", "messages?limit=0", None), (422, "limit")),
        (("GET", "messages?limit=many", None), (422, "limit")),
        (("GET", "messages?cursor=x", None), (422, "cursor")),
        (("GET", "messages?from=yesterday", None), (422, "from")),
        (("GET", "messages/nobody-knows", None), (404, "id")),
        (("GET", f"topics/{TOPIC}/log?field=room", None), (422, "field")),
        (("GET", "topics/nobody.knows/log", None), (404, "topic")),
        (("POST", "messages/{}/reveal", {}), (422, "reason")),
        (("POST", "messages/{}/reveal", {"reason": "x", "fields": ["room"]}), (422, "fields")),
        (("POST", "messages/{}/reveal", {"reason": "x", "more": 1}), (422, "more")),
    ],
)
def test_bad_input_is_a_problem_with_its_field(
    call: Call, sent: list[str], asked: tuple[str, str, Any], refused: tuple[int, str]
) -> None:
    method, path, body = asked
    status, problem = call(method, path.format(sent[0]), body)
    assert (status, problem["field"]) == refused


def test_roles_and_scopes_hold_here_too(call: Call, sent: list[str]) -> None:
    assert call("POST", f"messages/{sent[0]}/reveal", {"reason": "x"}, role="operator")[0] == 403
    assert call("GET", "messages", role="viewer", scope="stay.*")[1]["results"] == []
    assert call("GET", f"messages/{sent[0]}", role="viewer", scope="stay.*")[0] == 404
    assert call("GET", f"topics/{TOPIC}/log", role="viewer", scope="stay.*")[0] == 403
