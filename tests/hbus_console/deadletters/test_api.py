from __future__ import annotations

from typing import Any

import pytest

from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters.models import DeadLetter
from hbus_console.outbox.models import OutboxMessage
from tests.hbus_console.deadletters.conftest import MakeLetter
from tests.hbus_console.messages.test_api import Call, call

__all__ = ["call"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("facts")]


def test_letters_are_paged_newest_first(call: Call, make_letter: MakeLetter) -> None:
    letters = [make_letter() for _ in range(3)]
    _, first = call("GET", "dead-letters?limit=2")
    assert [row["id"] for row in first["results"]] == [letters[2].pk, letters[1].pk]
    _, rest = call("GET", first["next"].partition("/api/v1/")[2])
    assert [row["id"] for row in rest["results"]] == [letters[0].pk]
    assert rest["next"] is None


def test_groups_and_one_letter(call: Call, make_letter: MakeLetter) -> None:
    letter = make_letter()
    make_letter()
    _, found = call("GET", "dead-letters/groups")
    assert (found["letters"], found["results"][0]["count"], found["results"][0]["owner"]) == (2, 2, "Distribution")
    _, one = call("GET", f"dead-letters/{letter.pk}")
    assert (one["message_id"], one["payload"]) == (letter.message_id, {"room": "DBL-SEA"})


def test_redriving_and_repeating_it(call: Call, make_letter: MakeLetter) -> None:
    letter = make_letter()
    status, first = call("POST", f"dead-letters/{letter.pk}/redrive", {"reason": "deployed"}, role="operator")
    assert (status, first["done"], first["letter"]["state"]) == (200, True, "redriven")
    assert OutboxMessage.objects.get().message_id == first["letter"]["redriven_as"]
    _, again = call("POST", f"dead-letters/{letter.pk}/redrive", {"reason": "deployed"}, role="operator")
    assert again["done"] is False
    assert "had redriven it before" in again["sentence"]
    assert AuditEntry.objects.filter(action="dead_letter.redrive").count() == 1


def test_discarding(call: Call, make_letter: MakeLetter) -> None:
    letter = make_letter()
    _, found = call("POST", f"dead-letters/{letter.pk}/discard", {"reason": "cancelled"}, role="operator")
    assert (found["done"], found["letter"]["reason"]) == (True, "cancelled")


def test_bad_input_is_a_problem_with_its_field(call: Call, make_letter: MakeLetter) -> None:
    letter = make_letter()
    asked: list[tuple[str, str, Any, int, str]] = [
        ("GET", "dead-letters?state=undead", None, 422, "state"),
        ("GET", "dead-letters?cursor=x", None, 422, "cursor"),
        ("GET", "dead-letters?limit=501", None, 422, "limit"),
        ("GET", "dead-letters/999999", None, 404, "id"),
        ("POST", f"dead-letters/{letter.pk}/redrive", {}, 422, "reason"),
        ("POST", f"dead-letters/{letter.pk}/discard", {"reason": 7}, 422, "reason"),
    ]
    for method, path, body, status, field in asked:
        code, problem = call(method, path, body)
        assert (code, problem["field"]) == (status, field), path
    assert DeadLetter.objects.get().state == "dead"


def test_roles_and_scopes_hold_here_too(call: Call, make_letter: MakeLetter) -> None:
    letter = make_letter()
    for act in ("redrive", "discard"):
        assert call("POST", f"dead-letters/{letter.pk}/{act}", {"reason": "x"}, role="viewer")[0] == 403
        assert call("POST", f"dead-letters/{letter.pk}/{act}", {"reason": "x"}, scope="stay.*")[0] == 404
    assert call("GET", "dead-letters", role="viewer", scope="stay.*")[1]["results"] == []
    assert call("GET", f"dead-letters/{letter.pk}", role="viewer", scope="stay.*")[0] == 404
    assert DeadLetter.objects.get().state == "dead"
