"""Database connections outside the request cycle: consumers, keeper and commands live for weeks."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

#: What a database that cannot be asked now raises. Other errors of it are mistakes of whoever asks.
AWAY = (OperationalError, InterfaceError)

#: What a database says of a statement that it will never take.
_OF_THE_STATEMENT = (DataError, IntegrityError, ProgrammingError, NotSupportedError)
#: Of those that are called operational: SQLite has one code for an unknown table, an unknown column and bad grammar.
#: PostgreSQL has a class for what is beyond its limits, such as too long a row of an index.
_NEVER_IN_SQLITE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)
_NEVER_IN_POSTGRESQL = "54"
_DAMAGED_SQLITE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
#: Of those that are called internal: PostgreSQL's code for a server that is a standby.
_READ_ONLY = "25006"

#: Rows, or names, in one statement: every database takes so many, and no list of them gets long.
BATCH = 500

#: Seconds a connection of a long-lived thread is used before it is opened anew.
KEEP_S = 300

_bound = threading.local()
_Item = TypeVar("_Item")


def in_batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """``items`` in parts that each fit into one statement."""
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def is_away(error: BaseException) -> bool:
    """Whether ``error`` says that the database cannot do its work now: gone, locked, full, read-only.

    A finer sieve than :data:`AWAY`, among which is an unknown table on SQLite. False for what it will refuse however
    often it is asked, and for all that is no error of a database.
    """
    if not isinstance(error, DatabaseError | InterfaceError) or isinstance(error, _OF_THE_STATEMENT):
        return False
    state = getattr(error.__cause__, "sqlstate", None) or ""
    if isinstance(error, InternalError):
        return state == _READ_ONLY
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code not in _NEVER_IN_SQLITE and not state.startswith(_NEVER_IN_POSTGRESQL)


def is_damage(error: BaseException) -> bool:
    """Whether ``error`` says that what lies in the database cannot be read, now or later."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _DAMAGED_SQLITE
    return isinstance(error, DataError | InternalError)


def one_at_a_time(number: int, database: BaseDatabaseWrapper | None = None) -> None:
    """Until the open transaction ends nobody else is where ``number`` stands, which is the caller's own.

    SQLite has one writer at a time from the beginning of a transaction on.
    """
    database = database or connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql":
        with database.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])


def keep_connections(seconds: int = KEEP_S) -> None:
    """Let every thread of this process keep its connections between units of work.

    Call once, before the threads start. Without it :func:`fresh_connections` would open a connection per message,
    which costs more than handling one. A kept connection is checked before its first use in a unit.
    """
    for alias in connections:
        settings = connections.settings[alias]
        settings["CONN_MAX_AGE"] = seconds
        settings["CONN_HEALTH_CHECKS"] = settings["ENGINE"].endswith("postgresql")


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Around each unit of work (a message, a tick): drops connections that are broken or too old.

    Django does this around requests and Celery around tasks only; a thread of its own must do it for itself, or a
    restarted database is an error for ever.
    """
    _drop_unusable()
    try:
        yield
    finally:
        _drop_unusable()


@contextmanager
def snapshot(database: BaseDatabaseWrapper) -> Iterator[None]:
    """All that is read meanwhile is as of one moment. Reads alone, in no other transaction; nobody waits for it."""
    if database.vendor == "postgresql":
        with transaction.atomic(using=database.alias, durable=True):
            with database.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
        return
    # Django would begin it as a writer, and have every other one wait.
    with database.cursor() as cursor:
        cursor.execute("BEGIN DEFERRED")
    try:
        yield
    finally:
        with database.cursor() as cursor:
            cursor.execute("ROLLBACK")


def bound_statements(seconds: float) -> None:
    """Let no statement of this thread take longer: it fails, as where the database is away. For the connections that
    the thread opens from now on.

    On PostgreSQL, where one may wait for a lock for ever. SQLite has a bound for that already, and no reader waits.
    """
    _bound.seconds = seconds
    connection_created.connect(_bind_statements, dispatch_uid=_bind_statements.__qualname__)


def put_off_write_back() -> None:
    """Let no transaction of this process write SQLite's log back into the database: :func:`write_back` has to be
    called now and then instead. Call once, before the threads start.

    By itself SQLite does that in whichever transaction makes the log long, and waits for the disk: a second in which
    thousands of slots come is such a one.
    """
    connection_created.connect(_put_off, dispatch_uid=_put_off.__qualname__)


def write_back(database: BaseDatabaseWrapper | None = None) -> None:
    """What can be written back without waiting for anybody who reads or writes. On PostgreSQL it does nothing."""
    database = database or connections[DEFAULT_DB_ALIAS]
    if database.vendor == "sqlite":
        with database.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _bind_statements(connection: BaseDatabaseWrapper, **_: Any) -> None:
    seconds = getattr(_bound, "seconds", None)
    if seconds is not None and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", [f"{seconds * 1_000:.0f}ms"])


def _put_off(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_autocheckpoint=0")


def _drop_unusable() -> None:
    for each in connections.all(initialized_only=True):
        # Who opened a transaction around the unit decides about its connection.
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()
