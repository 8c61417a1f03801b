"""An entry that is there, and that no list shows, is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from hbus_console.access.permissions import SYSTEM
from hbus_console.audit import indexes
from hbus_console.audit.guards import TABLE
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.state import chain_state, verify_now
from hbus_console.audit.trail import Filter, narrowed, visible
from hbus_console.audit.verify import FindingKind, verify
from tests.hbus_console.audit import hiding
from tests.hbus_console.audit.intruder import Intruder

pytestmark = pytest.mark.django_db
Write = Callable[..., list[AuditEntry]]


@pytest.fixture
def intruder(write: Write, audit_state: Path) -> Intruder:
    return Intruder(audit_state, audit_state, write, lambda: None)


def shown(wanted: Filter) -> list[int]:
    rows = narrowed(visible(SYSTEM), wanted).order_by("-seq")
    return list(rows.values_list("seq", flat=True))


@pytest.mark.sqlite  # PostgreSQL: test_postgresql.py, for there a session keeps what it knows of an index it made
def test_an_entry_that_its_indexes_lack_is_named(write: Write, intruder: Intruder) -> None:
    """Found by a stranger: hidden from every list of its topic, its actor and its action, and verified as unbroken."""
    write(5)
    hiding.rebuilt(intruder)
    for wanted in (Filter(target="booking.created"), Filter(actor="anna"), Filter(action="topic.pause")):
        assert shown(wanted) == [5, 4, 2, 1], "else this test shows nothing"
    verdict = verify_now()
    assert [(finding.kind, finding.seq) for finding in verdict.findings] == [(FindingKind.HIDDEN, 3)]
    assert verdict.findings[0].what.startswith("Entry 3 is hidden from lists: it is missing in ")
    assert all(name in verdict.findings[0].what for name in indexes._made())
    assert chain_state().word == "broken"


def test_no_more_than_some_are_named_and_none_that_every_index_has(write: Write, intruder: Intruder) -> None:
    write(indexes.SHOWN + 10)
    assert indexes.contents(connection) == indexes.definitions(connection) == []
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {TABLE}")
    assert indexes.contents(connection) == []


@pytest.mark.parametrize(
    "change",
    [
        f"CREATE INDEX of_the_administrator ON {TABLE} (reason)",
        f"CREATE INDEX of_the_administrator ON {TABLE} (request_id) WHERE request_id <> ''",
        f"CREATE INDEX of_the_administrator ON {TABLE} (lower(actor))",
        "DROP INDEX audit_correlation",
    ],
)
def test_what_an_administrator_may_want_is_no_tampering(write: Write, intruder: Intruder, change: str) -> None:
    write(5)
    intruder.ddl(change)
    assert verify().holds


@pytest.mark.sqlite  # likewise
def test_an_increment_looks_at_the_definitions_alone(
    write: Write, intruder: Intruder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.audit.state.FULL_UP_TO", 2)
    write(5)
    assert verify_now().holds
    hiding.rebuilt(intruder)
    write(1)
    assert verify_now().holds, "all of them take as long as all entries"
    assert not verify_now(full=True).holds
    hiding.partial(intruder)
    assert FindingKind.HIDDEN in {finding.kind for finding in verify(5, AuditEntry.objects.get(seq=5).hash).findings}


@pytest.mark.sqlite  # PostgreSQL's pages are files of its own
def test_a_table_that_the_database_cannot_read_is_a_finding(write: Write, intruder: Intruder) -> None:
    write(3)
    assert verify_now().holds
    hiding.rewrite(intruder, "rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'audit_actor')", TABLE)
    found: list[Any] = verify_now().findings
    assert any("cannot be read (" in finding.what for finding in found), found
    assert chain_state().word == "broken"
