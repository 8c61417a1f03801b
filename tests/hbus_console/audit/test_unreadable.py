"""A cell that does not hold what its column promises is a finding with its entry, and hides nothing beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit.anchor import anchor_head
from hbus_console.audit.live import cells
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.state import chain_state, verify_now

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

TEXTS = (
    "actor", "actor_kind", "action", "target_type", "target", "topic", "reason", "request_id", "correlation_id",
    "address", "previous_hash", "hash",
)  # fmt: skip
JSON = ("before", "after")
#: What SQLite keeps in a column of texts.
NO_TEXT = {
    "no UTF-8": "CAST(x'ff41' AS TEXT)",
    "half a character": "CAST(x'eda080' AS TEXT)",
    "bytes": "x'ff41'",
    "the same bytes": "CAST({column} AS BLOB)",
    "a number": "CAST(7 AS BLOB)",
    "NUL": "'a' || char(0) || 'b'",
    "empty": "''",
    "long": "hex(zeroblob(200000))",
    "odd": "'/../?#%%0a' || char(10, 8238, 57344, 1114111)",
}
#: And in one of JSON. PostgreSQL takes what is marked.
NO_OBJECT = {
    "no JSON": "'{'",
    "no UTF-8": "CAST(x'7b22ff223a317d' AS TEXT)",
    "bytes": "x'00'",
    "a list": "'[1, [2]]'",
    "a number": "'7'",
    "a text": "'\"ü\"'",
    "false": "'false'",
    "no end of a number": """'{"a_s": 1e999}'""",
    "a number of no end": f"""'{{"a_s": 1{"0" * 4_000}, "b_ms": -1{"0" * 400}}}'""",
    "a number that is too long": f"""'{{"a": 1{"0" * 5_000}}}'""",
    "not a number": """'{"a": NaN, "b": -Infinity}'""",
    "half a character": r"""'{"a\ud800": "\udfff"}'""",
    "deep": f"""'{{"a": {"[" * 580}{"]" * 580}}}'""",
    "too deep": f"""'{{"a": {"[" * 900}{"]" * 900}}}'""",
    "far too deep": f"""'{{"a": {"[" * 9_000}{"]" * 9_000}}}'""",
    "a decision of nobody": """'{"decision": {"a": []}, "outcome": [], "why": 7}'""",
}
#: The same of instants.
NO_INSTANT = {
    "a word": "'yesterday'",
    "zero": "0",
    "a real": "1.5e300",
    "no UTF-8": "CAST(x'ff41' AS TEXT)",
    "bytes": "x'ff41'",
    "no month": "'2026-13-45 00:00:00+00:00'",
    "the first year": "'0001-01-01 00:00:00+23:59'",
    "the last year": "'9999-12-31 23:59:59.999999-23:59'",
    "no year": "'99999-01-01 00:00:00+00:00'",
}
#: And of numbers of entries, in the place of 3.
NO_NUMBER = {
    "a text": "'zzz'",
    "bytes": "x'ff'",
    "no UTF-8": "CAST(x'ff' AS TEXT)",
    "a real": "3.5",
    "before the first": "-5",
    "the last": "9223372036854775807",
    "beyond": "1e300",
}
CELLS = {
    **{f"texts: {name}": dict.fromkeys(TEXTS, value) for name, value in NO_TEXT.items()},
    **{f"JSON: {name}": dict.fromkeys(JSON, value) for name, value in NO_OBJECT.items()},
    **{f"instant: {name}": {"at": value} for name, value in NO_INSTANT.items()},
    **{f"number: {name}": {"seq": value} for name, value in NO_NUMBER.items()},
}
if connection.vendor == "postgresql":
    kept = {"a list", "a number", "a text", "false", "no end of a number", "a number of no end", "deep", "too deep"}
    CELLS = {
        **{f"JSON: {name}": dict.fromkeys(JSON, value) for name, value in NO_OBJECT.items() if name in kept},
        **{f"texts: {name}": dict.fromkeys(("action", "target", "topic", "reason"), value)
           for name, value in {"empty": "''", "odd": "'/../?#%%0a' || chr(10) || chr(8238) || chr(1114111)"}.items()},
        **{f"instant: {value}": {"at": f"'{value}'"}
           for value in ("infinity", "-infinity", "20000-01-01", "0044-03-15 BC", "0001-01-01")},
        "number: before the first": {"seq": "-5"},
        "number: the last": {"seq": "9223372036854775807"},
    }  # fmt: skip


@pytest.fixture
def reader(db: None) -> Client:
    user = services.create_user(SYSTEM, "reader", [ScopedRole(Role.ADMIN, "*")]).user
    User.objects.filter(pk=user.pk).update(must_change_password=False)
    client = Client()
    client.force_login(user)
    return client


@contextmanager
def unchecked() -> Iterator[None]:
    """SQLite looks at JSON as it is written."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = ON")
    yield
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def changed(cells: dict[str, str], seq: int) -> str:
    sets = ", ".join(
        f"{column} = {value.format(column=column) if 'CAST({' in value else value}" for column, value in cells.items()
    )
    return f"UPDATE audit_auditentry SET {sets} WHERE seq = {seq}"


@pytest.mark.parametrize("what", CELLS)
def test_a_cell_of_whatever_content_is_found_and_no_page_fails(
    write: Callable[..., Any], tamper: Callable[..., None], reader: Client, what: str
) -> None:
    """Found by a stranger: one byte, and the command died, the page of the log said unbroken, and no alarm was kept."""
    seq = write(3)[-1].seq
    write(2, action="topic.resume.failed", after={"decision": seq})
    anchor_head()
    assert verify_now().holds
    with unchecked():
        tamper(changed(CELLS[what], seq))
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("audit", "verify", "--json", stdout=out)
    verdict = verify_now(full=True)
    shown = "seq" not in CELLS[what]
    assert {finding.seq for finding in verdict.findings} & ({seq} if shown else {seq, 0}), verdict.findings
    assert not any("ends at entry" in finding.what for finding in verdict.findings)
    assert not verdict.stopped
    assert chain_state().word == "broken"
    # The log goes on, and is read around it.
    write(1)
    assert "audit" in cells(0, ("*",)).marks
    for address in (
        "/", "/audit/", f"/audit/{seq}/", f"/audit/{seq + 1}/", "/audit/?actor=anna&q=paused", "/audit/?action=topic.*",
        "/audit/?target=booking.created", "/audit/?range=7d", "/topics/", "/jobs/", "/operations/",
        "/api/v1/audit/entries", "/api/v1/audit/entries?actor=anna", f"/api/v1/audit/entries/{seq}",
        "/api/v1/audit/entries?limit=1", "/api/v1/audit/chain", "/api/v1/audit/export?as=csv",
        "/api/v1/audit/export?as=jsonl&reason=x",
    ):  # fmt: skip
        answer = reader.get(address)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert answer.status_code == 200 or (answer.status_code == 404 and not (shown and str(seq) in address)), address
        if "audit/entries?a" in address:
            assert f'"seq":{seq - 1}'.encode() in body, address
    assert reader.post("/audit/verify/").status_code == 302
    assert reader.post("/api/v1/audit/verify").json()["holds"] is False


@pytest.mark.sqlite  # PostgreSQL refuses what is no text
@pytest.mark.parametrize("column", TEXTS)
@pytest.mark.parametrize("value", ["CAST(x'ff41' AS TEXT)", "CAST({column} AS BLOB)", "CAST(x'efbfbd' AS TEXT)"])
def test_each_column_is_looked_at(
    write: Callable[..., Any], tamper: Callable[..., None], column: str, value: str
) -> None:
    write(5)
    tamper(changed({column: value}, 3))
    found = {finding.seq for finding in verify_now().findings}
    # Whose own hash it is: the next one does not follow it.
    assert found & ({3, 4} if column == "hash" else {3})


@pytest.mark.sqlite  # PostgreSQL refuses what is no text
def test_what_stands_for_an_unreadable_cell_is_not_taken_for_one_and_no_other_way_round(
    write: Callable[..., Any], tamper: Callable[..., None]
) -> None:
    write(1, reason="a\ufffdb")
    write(1, reason="(unreadable)")
    assert verify_now().holds
    tamper("UPDATE audit_auditentry SET reason = CAST(x'61ff62' AS TEXT) WHERE seq = 1")
    tamper("UPDATE audit_auditentry SET reason = x'ff' WHERE seq = 2")
    assert [entry.reason for entry in AuditEntry.objects.order_by("seq")] == ["a\ufffdb", "(unreadable)"]
    assert [finding.what for finding in verify_now().findings][:2] == [
        "Entry 1 (topic.pause) is not spelled as it was written: reason.",
        "Entry 2 (topic.pause) holds what its columns do not: reason.",
    ]
