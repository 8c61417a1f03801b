from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit import live, trail
from hbus_console.audit.anchor import anchor_head
from hbus_console.audit.models import AuditEntry

Write = Callable[..., list[AuditEntry]]
Call = Callable[..., Any]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def call(client: Client, audit_state: object) -> Call:
    """``call("GET", "entries", role="operator", scope="*")`` with a token of that role."""

    def ask(method: str, path: str, role: str = "operator", scope: str = "*") -> Any:
        user, _ = User.objects.get_or_create(username=f"{role}-{len(scope)}")
        if not user.grants.exists():
            services.change_grants(SYSTEM, user, [ScopedRole(Role(role), scope)])
        ends = datetime.now(UTC) + timedelta(days=1)
        name = f"t{AuditEntry.objects.count()}"
        raw = services.create_token(actor_of(user), name, Role(role), scope, ends).raw
        return client.generic(method, f"/api/v1/audit/{path}", headers={"Authorization": f"Bearer {raw}"})

    return ask


def test_entries_come_newest_first_in_keyset_pages(call: Call, write: Write) -> None:
    write(3)
    first = call("GET", "entries?limit=2&target=booking.created").json()
    assert [row["seq"] for row in first["results"]] == [3, 2]
    assert first["results"][0]["hash"]
    assert "cursor=" in first["next"]


def test_a_search_looks_at_a_part_of_a_long_log_and_says_how_far(
    call: Call, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1, action="topic.create")
    write(30)
    assert call("GET", "entries").json()["looked_to"] is None
    monkeypatch.setattr(trail, "SCAN", 20)
    for search in ("q=never-written", "by=hbus&q=never", "action=topic.*&q=never", "q=never&range=24h"):
        found = call("GET", f"entries?{search}").json()
        assert (found["results"], found["next"] is None) == ([], False), search
        assert found["looked_to"] > 1
    found = call("GET", "entries?action=topic.create&q=paused").json()
    assert (found["results"], found["looked_to"] is None) == ([], False)
    further = call("GET", found["next"].partition("/audit/")[2]).json()
    assert [entry["seq"] for entry in further["results"]] == [1]
    assert (further["next"], further["looked_to"]) == (None, None)
    # And back the way it came.
    assert call("GET", further["previous"].partition("/audit/")[2]).json()["results"] == []


def test_a_scope_narrows_what_is_given(call: Call, write: Write) -> None:
    (seen,) = write(1)
    (hidden,) = write(1, subject=Subject("topic", "stay.completed"))
    found = call("GET", "entries", scope="booking.*").json()["results"]
    assert hidden.seq not in [row["seq"] for row in found]
    assert call("GET", f"entries/{seen.seq}", scope="booking.*").json()["target"] == "booking.created"
    assert call("GET", f"entries/{hidden.seq}", scope="booking.*").status_code == 404


def test_an_entry_tells_its_subject_beside_the_names_of_version_1(call: Call, write: Write) -> None:
    (entry,) = write(1, subject=Subject("job-run", "hotel.close", "2026-11-22T00:00"))
    told = call("GET", f"entries/{entry.seq}").json()
    assert told["subject"] == "job-run:hotel.close/2026-11-22T00:00"
    assert (told["target_type"], told["target"], told["topic"]) == ("job_run", "2026-11-22T00:00", "hotel.close")


@pytest.mark.parametrize(("query", "field"), [("by=x", "by"), ("range=9y", "range"), ("from=yesterday", "from")])
def test_bad_input_names_the_parameter(call: Call, query: str, field: str) -> None:
    answer = call("GET", f"entries?{query}")
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_what_was_done_in_the_midst_of_a_burst_is_marked(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Subject("topic", "stay.completed")
    (entry,) = write(1, subject=mine)
    write(30)
    monkeypatch.setattr(live, "LATEST", 10)
    now_ms = round(entry.at.timestamp() * 1000)
    assert live.cells(now_ms, ("*",)).marks[str(mine)] == entry.seq
    assert str(mine) not in live.cells(now_ms + live.BURST_MS + 60_000, ("*",)).marks
    monkeypatch.setattr(live, "MOST", 20)
    assert str(mine) not in live.cells(now_ms, ("*",)).marks


def test_the_chains_state_and_its_verification(call: Call, write: Write, tamper: Any) -> None:
    write(2)
    state = call("GET", "chain").json()
    assert (state["state"], state["anchored"], state["verified"]) == ("not verified", None, None)
    assert call("POST", "verify").json()["holds"] is True
    assert call("GET", "chain").json()["verified"]["holds"] is True
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    verdict = call("POST", "verify").json()
    assert verdict["holds"] is False
    assert verdict["findings"] == [
        {"kind": "altered", "seq": 2, "what": "Entry 2 (topic.pause) does not match its hash."}
    ]
    assert call("GET", "chain").json()["state"] == "broken"


def test_numbers_of_what_may_not_be_read_are_not_told(call: Call, write: Write, tamper: Any) -> None:
    write(2, subject=Subject("topic", "stay.completed"))
    anchor_head()
    assert call("POST", "verify", scope="booking.*").json() == {"holds": True, "findings_total": None}
    state = call("GET", "chain", scope="booking.*").json()
    assert state["state"] == "unbroken"
    assert {state["entries"], state["verified"]["seq"], *state["anchored"].values()} == {None}
    assert call("GET", "chain").json()["entries"] >= 2
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    assert call("POST", "verify", scope="booking.*").json() == {"holds": False, "findings_total": None}
    assert call("GET", "chain", scope="booking.*").json()["verified"]["findings_total"] is None


def test_the_export_streams_a_file(call: Call, write: Write) -> None:
    write(2)
    answer = call("GET", "export?as=jsonl&reason=review&target=booking.created", role="governor")
    assert answer["Content-Type"] == "application/jsonl"
    assert [json.loads(line)["seq"] for line in b"".join(answer).splitlines()] == [1, 2]
    assert AuditEntry.objects.latest("seq").reason == "review"


@pytest.mark.parametrize(("path", "status"), [("export", 422), ("export?as=pdf", 422)])
def test_an_export_needs_a_form(call: Call, path: str, status: int) -> None:
    assert call("GET", path, role="governor").status_code == status


def test_operators_read_and_do_not_export(call: Call) -> None:
    assert call("GET", "export?as=csv").status_code == 403
    assert AuditEntry.objects.latest("seq").action == "audit.export.refused"
    assert call("GET", "entries", role="viewer").status_code == 403
