from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import AsyncRequestFactory, RequestFactory

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.audit import chain
from hbus_console.audit import export as exports
from hbus_console.audit.export import COLUMNS, export, streamed
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.trail import Filter
from hbus_console.csv_text import neutral

Write = Callable[..., list[AuditEntry]]


def lines(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


def test_json_lines_hold_every_entry_and_can_be_verified_elsewhere(write: Write, settings: Any) -> None:
    write(5, before={"a": "ü"})
    found = lines(b"".join(export(SYSTEM, "jsonl", reason="review").chunks()))
    assert [row["seq"] for row in found] == [1, 2, 3, 4, 5]
    previous = chain.GENESIS
    for row in found:
        own, before = row.pop("hash"), row.pop("previous_hash")
        assert before == previous
        assert chain.link(settings.AUDIT_KEY, before, row) == own
        previous = own


def test_the_export_is_an_entry_that_is_not_in_it(write: Write) -> None:
    write(2)
    found = export(SYSTEM, "csv", Filter(actor="anna"), reason="review")
    write(1)
    entry = AuditEntry.objects.get(seq=3)
    assert (entry.action, entry.reason) == ("audit.export", "review")
    assert entry.after == {"form": "csv", "filter": {"actor": "anna"}}
    rows = list(csv.DictReader(io.StringIO(b"".join(found.chunks()).decode())))
    assert [row["seq"] for row in rows] == ["1", "2"]
    assert found.file_name == "audit-to-2.csv"


@pytest.mark.parametrize(("given", "kept"), [("   ", ""), (" review\n", "review")])
def test_a_reason_is_kept_without_what_stands_around_it(write: Write, given: str, kept: str) -> None:
    write(1)
    assert export(SYSTEM, "csv", reason=given).entry.reason == kept


def test_batches_do_not_matter(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(7)
    monkeypatch.setattr(exports, "BATCH", 3)
    chunks = list(export(SYSTEM, "jsonl").chunks())
    assert len(chunks) == 3
    assert len(lines(b"".join(chunks))) == 7


def test_filters_hold_for_the_export(write: Write) -> None:
    write(1, subject=Subject("topic", "stay.completed"))
    write(2)
    assert [
        row["seq"] for row in lines(b"".join(export(SYSTEM, "jsonl", Filter(target="stay.completed")).chunks()))
    ] == [1]


@pytest.mark.parametrize("evil", ["=cmd()", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_is_a_formula(write: Write, tamper: Callable[[str, list[Any]], None], evil: str) -> None:
    write(1, reason=evil, actor=Actor(name=evil))
    # No subject has such a name, but entries of older versions do.
    tamper("UPDATE audit_auditentry SET target = %s", [evil])
    body = b"".join(export(SYSTEM, "csv").chunks()).decode()
    (row,) = csv.DictReader(io.StringIO(body, newline=""))
    assert (row["target"], row["reason"], row["actor"]) == (f"'{evil}",) * 3


def test_other_cells_are_left_as_they_are(write: Write) -> None:
    write(1, reason='say "no", please\nthen go', after={"b": 1, "a": "=x"})
    (row,) = csv.DictReader(io.StringIO(b"".join(export(SYSTEM, "csv").chunks()).decode(), newline=""))
    assert row["reason"] == 'say "no", please\nthen go'
    assert json.loads(row["after"]) == {"a": "=x", "b": 1}
    assert list(row) == list(COLUMNS)
    assert neutral("a=b") == "a=b"


@pytest.mark.parametrize("scope", ["booking.*", "booking.created"])
def test_an_export_takes_a_governor_of_everything(write: Write, scope: str) -> None:
    write(1)
    for actor in (
        Actor("olga", grants=(ScopedRole(Role.EDITOR, "*"),)),
        Actor("olga", grants=(ScopedRole(Role.ADMIN, scope),)),
    ):
        with pytest.raises(Forbidden):
            export(actor, "csv")
    assert AuditEntry.objects.count() == 1


def test_an_unknown_form_is_refused_and_leaves_no_entry(write: Write) -> None:
    with pytest.raises(BadInput) as caught:
        export(SYSTEM, "xlsx")
    assert caught.value.field == "as"
    assert not AuditEntry.objects.exists()


def test_the_download_names_its_file_and_is_not_cached(write: Write, rf: RequestFactory) -> None:
    write(1)
    answer = streamed(rf.get("/"), export(SYSTEM, "jsonl"))
    assert answer["Content-Disposition"] == 'attachment; filename="audit-to-1.jsonl"'
    assert answer["Cache-Control"] == "no-store"
    assert not answer.is_async
    assert len(lines(b"".join(answer))) == 1


@pytest.mark.django_db(transaction=True)
def test_under_asgi_the_file_is_streamed_and_not_gathered(audit_state: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import transaction

    from hbus_console.audit.services import record

    for _ in range(5):
        with transaction.atomic():
            record(SYSTEM, "x", Subject("y", "", "z"))
    monkeypatch.setattr(exports, "BATCH", 2)
    answer = streamed(AsyncRequestFactory().get("/"), export(SYSTEM, "jsonl"))
    assert answer.is_async

    async def take() -> list[bytes]:
        return [chunk async for chunk in answer]

    chunks = asyncio.run(take())
    assert [len(lines(chunk)) for chunk in chunks] == [2, 2, 1]
