"""What lies in a cell of the database that its column does not promise is read as something, and is no error.

SQLite keeps in any column whatever it was given, bytes that are no UTF-8 among it, and PostgreSQL knows instants that
Python does not. Drivers raise for the row, and so for the page or the list that it is in: one cell would hide all.
"""

from __future__ import annotations

import sqlite3
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from functools import partial
from typing import Any

# Whoever registers a converter last is heeded.
import django.db.backends.sqlite3.base  # noqa: F401
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils.dateparse import parse_datetime

#: Stands in the place of an instant that nobody can read.
NO_INSTANT = datetime.fromtimestamp(0, UTC)


def read_any_cell() -> None:
    """Let connections that are opened from now on read whatever lies there.

    A byte that is no UTF-8 is read as U+FFFD, and an instant that is none as :data:`NO_INSTANT`.
    """
    sqlite3.register_converter("datetime", _instant)
    connection_created.connect(_set_up, dispatch_uid=_set_up.__qualname__)


def _set_up(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    elif connection.vendor == "postgresql":
        _read_any_instant(connection)


def _instant(raw: bytes) -> datetime:
    try:
        found = parse_datetime(raw.decode())
        # Within the calendar in every zone: whoever shows it, or hashes it, converts it.
        return _settled(found) if found is not None else NO_INSTANT
    except (ValueError, OverflowError):
        return NO_INSTANT


def _settled(found: datetime) -> datetime:
    if not MINYEAR < found.year < MAXYEAR:
        raise ValueError(found)
    return found


def _read_any_instant(connection: Any) -> None:
    # The driver is there only where it is needed.
    from django.db.backends.postgresql.psycopg_any import BaseTzLoader
    from psycopg import DataError
    from psycopg.abc import Buffer

    class AnyInstant(BaseTzLoader):  # type: ignore[misc]  # Django's own, without types
        timezone = connection.timezone

        def load(self, data: Buffer) -> datetime:
            try:
                return _settled(super().load(data))
            except (DataError, ValueError, OverflowError):
                return NO_INSTANT

    connection.connection.adapters.register_loader("timestamptz", AnyInstant)
