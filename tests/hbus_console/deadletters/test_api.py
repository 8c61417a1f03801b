from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import reading
from hbus_console.deadletters.groups import LetterFilters
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.weights import STEP
from hbus_console.outbox.models import OutboxMessage
from hbus_console.ui import streaming
from hbus_console.ui.streaming import json_lines
from tests.hbus_console.deadletters.conftest import MakeLetter, person
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


def test_a_page_holds_no_more_bytes_than_there_is_room_for(
    call: Call, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = {"message": {"data": msgspec.Raw(b'"' + b"x" * (5 * STEP // 2) + b'"')}}
    letters = [make_letter(**each).pk for each in ({}, {}, big, big, {}, {})][::-1]
    monkeypatch.setattr(reading, "PAGE_BYTES", 5 * STEP)
    assert _pages(call, "dead-letters?limit=5") == [letters[:3], letters[3:]]
    monkeypatch.setattr(reading, "PAGE_BYTES", 2 * STEP)
    # One that is too big by itself comes alone.
    assert _pages(call, "dead-letters?limit=5") == [letters[:2], [letters[2]], [letters[3]], letters[4:]]


@pytest.mark.parametrize("masked", [1, 5_000])
def test_where_a_page_ends_says_nothing_of_the_size_of_what_is_masked(
    call: Call, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch, masked: int
) -> None:
    known = {"message": {"data": msgspec.Raw(b'"' + b"x" * (STEP - 2_000) + b'"')}}
    hidden = {"message": {"data": msgspec.Raw(b'"' + b"x" * masked + b'"')}}
    letters = [make_letter(**each).pk for each in (hidden, known)][::-1]
    monkeypatch.setattr(reading, "PAGE_BYTES", STEP + 2_000)
    assert _pages(call, "dead-letters?limit=2") == [letters[:1], letters[1:]]


def test_an_export_reads_and_sends_no_more_at_once_either(
    make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"data": msgspec.Raw(b'"' + b"x" * 9_000 + b'"')}
    letters = [make_letter(message=body).pk for _ in range(6)][::-1]
    monkeypatch.setattr(reading, "PAGE_BYTES", 2 * STEP)
    rows = reading.exported(person("operator"), LetterFilters())
    with CaptureQueriesContext(connection) as asked:
        first = next(rows)
    read = [query["sql"] for query in asked if '"deadletters_deadletter"."history"' in query["sql"]]
    assert len(read) == 1
    assert all(f"{pk}" in read[0] for pk in letters[:2])
    assert not any(f"{pk}" in read[0] for pk in letters[2:])
    assert [first["id"], *(row["id"] for row in rows)] == letters

    monkeypatch.setattr(streaming, "_BYTES", 15_000)
    sent = json_lines(HttpRequest(), reading.exported(person("operator"), LetterFilters()), "letters")
    chunks = list(sent)
    assert [chunk.count(b"\n") for chunk in chunks] == [2, 2, 2]  # type: ignore[union-attr]
    assert [json.loads(line)["id"] for line in b"".join(chunks).splitlines()] == letters  # type: ignore[arg-type]


def test_an_export_goes_on_behind_letters_that_vanish_while_it_reads(
    make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_AT_ONCE", 2)
    letters = [make_letter().pk for _ in range(6)][::-1]
    ordered, gone = reading._ordered, letters[2:4]

    def vanishing(rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        # Between the question for their sizes and that for their bodies.
        if "IN (" in str(rows.query) and str(gone[0]) in str(rows.query):
            DeadLetter.objects.filter(pk__in=gone).delete()
        return ordered(rows)

    monkeypatch.setattr(reading, "_ordered", vanishing)
    rows = reading.exported(person("operator"), LetterFilters())
    assert [row["id"] for row in rows] == [*letters[:2], *letters[4:]]


def test_the_page_of_the_letters_reads_no_body(make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch) -> None:
    make_letter()
    with CaptureQueriesContext(connection) as asked:
        reading.page(DeadLetter.objects.all(), "", 10)
    assert len(asked) == 1
    assert "body" not in asked.captured_queries[0]["sql"]


def _pages(call: Call, path: str) -> list[list[int]]:
    pages = []
    while path:
        _, found = call("GET", path)
        pages.append([row["id"] for row in found["results"]])
        path = (found["next"] or "").partition("/api/v1/")[2]
    return pages


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
