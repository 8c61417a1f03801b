"""A log of one's own: its anchors lie in the test's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from tests.guards import lifted

ANNA = Actor(name="anna")
Write = Callable[..., list[AuditEntry]]
Tamper = Callable[..., None]


@pytest.fixture
def audit_state(tmp_path: Path, settings: Any, prefix: str) -> Path:
    """The folder ``STATE/audit`` of this test alone; the store knows nothing of its log."""
    settings.STATE = tmp_path
    settings.HBUS_PREFIX = prefix
    return tmp_path / "audit"


@pytest.fixture
def write(db: None, audit_state: Path) -> Write:
    """``write(5)`` appends five entries; keywords go to ``record``."""

    def append(count: int = 1, **given: Any) -> list[AuditEntry]:
        fields = {"actor": ANNA, "action": "topic.pause", "subject": Subject("topic", "booking.created")} | given
        with transaction.atomic():
            return [record(**{**fields, "after": {"paused": True, "n": n}, **given}) for n in range(count)]

    return append


@pytest.fixture
def tamper(db: None) -> Callable[[str, list[Any]], None]:
    """Run SQL against the table as an intruder with the database's password would, past the guards."""

    def change(sql: str, parameters: list[Any] | None = None) -> None:
        with lifted(connection), connection.cursor() as cursor:
            cursor.execute(sql, parameters or [])

    return change
