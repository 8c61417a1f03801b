"""That no entry is hidden by how the log's table and its indexes lie in the database.

Lists find entries by indexes: one that leaves an entry out hides it from whoever looks, while the entry itself is there
and its hash agrees. The database keeps an index as it was made, whatever is written of it afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from hbus_console.audit.guards import TABLE
from hbus_console.audit.models import AuditEntry

#: So many entries that an index lacks are named.
SHOWN = 20
#: Of an index: its columns, each with whether the last is first.
_Columns = list[tuple[str | None, bool]]
_MISSING = re.compile(r"row (\d+) missing from index (\S+)")
_ORDERED = r"\w+(?: DESC)?(?: NULLS (?:FIRST|LAST))?"
_TREE = re.compile(rf" USING btree \(({_ORDERED}(?:, {_ORDERED})*)\)")
#: Leaves walking along an index, and reading the table whole. However long that takes: it is done once a day.
_BY_INDEX = (
    "SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;"
    " SET LOCAL enable_incremental_sort = off; SET LOCAL enable_seqscan = on; SET LOCAL enable_indexonlyscan = on;"
    " SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; SET LOCAL statement_timeout = 0"
)
_POSTGRESQL_INDEXES = """
    SELECT c.relname, pg_get_indexdef(i.indexrelid),
        EXISTS (SELECT FROM unnest(i.indclass::oid[]) AS used JOIN pg_opclass o ON o.oid = used
            JOIN pg_am a ON a.oid = o.opcmethod
            WHERE a.amname IN ('btree', 'hash') AND o.opcnamespace <> 'pg_catalog'::regnamespace)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass(%(table)s)
"""
#: Besides indexes: what decides which entries a filter matches. A comparison of somebody's own goes before PostgreSQL's
#: where it fits the column better.
_POSTGRESQL_MATCHING = """
    SELECT 'operator ' || oprname FROM pg_operator WHERE oprnamespace <> 'pg_catalog'::regnamespace
        AND oprname IN ('=', '<>', '<', '<=', '>', '>=', '~~')
        AND oprleft IN (SELECT atttypid FROM pg_attribute WHERE attrelid = to_regclass(%(table)s) AND attnum > 0)
    UNION ALL SELECT 'column ' || attname || ' of type ' || format_type(atttypid, NULL) FROM pg_attribute
        WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped
        AND atttypid NOT IN ('int8'::regtype, 'varchar'::regtype, 'text'::regtype, 'timestamptz'::regtype,
            'jsonb'::regtype)
    UNION ALL SELECT 'search_path' WHERE (SELECT name FROM unnest(current_schemas(true)) AS name
        WHERE name NOT LIKE 'pg\\_temp%%' LIMIT 1) <> 'pg_catalog'
"""


@dataclass(frozen=True)
class Hidden:
    """That an entry can be hidden (``seq`` 0: any), in one sentence."""

    seq: int
    what: str


def definitions(connection: BaseDatabaseWrapper) -> list[Hidden]:
    """What of the table and its indexes is not as hbus made it, and decides what is found. Cheap.

    An index that is missing, or that others added, hides nothing.
    """
    find = _sqlite_strange if connection.vendor == "sqlite" else _postgresql_strange
    if strange := sorted(find(connection)):
        return [Hidden(0, f"How entries are found is not what hbus made, and could hide some: {', '.join(strange)}.")]
    return []


def contents(connection: BaseDatabaseWrapper) -> list[Hidden]:
    """Entries that an index lacks: a walk over all of them, and of the table, which takes about as long as verifying
    every entry.
    """
    return list(_sqlite_lacks(connection) if connection.vendor == "sqlite" else _postgresql_lacks(connection))


def _made() -> dict[str, _Columns]:
    """What hbus calls its indexes."""
    column = {field.name: field.column for field in AuditEntry._meta.concrete_fields}
    return {
        index.name: [(column[name], order == "DESC") for name, order in index.fields_orders]
        for index in AuditEntry._meta.indexes
    }


def _sqlite_strange(connection: BaseDatabaseWrapper) -> Iterator[str]:
    made = _made()
    types = {field.column: _plain(field.db_type(connection)) for field in AuditEntry._meta.concrete_fields}
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, partial FROM pragma_index_list(%s)", [TABLE])
        for name, partial in cursor.fetchall():
            cursor.execute('SELECT name, "desc", coll FROM pragma_index_xinfo(%s) WHERE key', [name])
            columns = [(column, bool(desc)) for column, desc, coll in cursor.fetchall() if coll == "BINARY"]
            if name in made and (partial or columns != made[name]):
                yield name
        cursor.execute("SELECT name, type, hidden FROM pragma_table_xinfo(%s)", [TABLE])
        for name, kind, hidden in cursor.fetchall():
            # By its type SQLite takes a text for a number before it compares.
            if name in types and (_plain(kind) != types[name] or hidden):
                yield f"column {name}"
        cursor.execute("SELECT sql FROM sqlite_master WHERE lower(name) = %s", [TABLE])
        if any(re.search(r"\bcollate\b", str(sql).lower()) for (sql,) in cursor.fetchall()):
            yield "a collation"


def _plain(kind: str | None) -> str:
    """A type without its width, which SQLite does not heed, and which older releases had others of."""
    return re.sub(r"\(\d+\)", "", kind or "").strip().lower()


def _sqlite_lacks(connection: BaseDatabaseWrapper) -> Iterator[Hidden]:
    lacking: dict[int, list[str]] = {}
    others = []
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA integrity_check({TABLE})")
        for (said,) in cursor.fetchall():
            if found := _MISSING.match(str(said)):
                lacking.setdefault(int(found[1]), []).append(found[2])
            elif said != "ok" and not str(said).startswith("wrong # of entries in index"):
                others.append(str(said))
        for row, names in list(lacking.items())[:SHOWN]:
            # Not by an index.
            cursor.execute(f"SELECT seq FROM {TABLE} NOT INDEXED WHERE rowid = %s", [row])  # noqa: S608 - a constant
            seq = next(iter(cursor.fetchone() or [0]))
            yield _lack(seq if isinstance(seq, int) else 0, names)
    if others:
        yield Hidden(0, f"The database says of the log's table: {others[0][:200]}.")


def _postgresql_strange(connection: BaseDatabaseWrapper) -> Iterator[str]:
    made = {
        name: f"({', '.join(f'{column} DESC' if last_first else f'{column}' for column, last_first in columns)})"
        for name, columns in _made().items()
    }
    with connection.cursor() as cursor:
        cursor.execute(_POSTGRESQL_INDEXES, {"table": TABLE})
        for name, definition, compares_otherwise in cursor.fetchall():
            # How full its pages are is nobody's business.
            told = re.sub(r" WITH \(fillfactor='?\d+'?\)$", "", definition.partition(" USING btree ")[2])
            if compares_otherwise or (name in made and told != made[name]):
                yield name
        cursor.execute(_POSTGRESQL_MATCHING, {"table": TABLE})
        yield from (name for (name,) in cursor.fetchall())


def _postgresql_lacks(connection: BaseDatabaseWrapper) -> Iterator[Hidden]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_BY_INDEX)
        for name, order in _trees(connection):
            columns = re.sub(r" (DESC|NULLS \w+)", "", order)
            # One statement sees one state of the log, however many act meanwhile. By the hash: it is in no index.
            query = f"""
                SELECT e.first, e.last FROM (
                    SELECT ROW({columns})::text AS held, min(seq) AS first, max(seq) AS last, count(hash) AS times
                    FROM {TABLE} GROUP BY 1
                ) AS e LEFT JOIN (
                    SELECT ROW({columns})::text AS held, count(*) AS times
                    FROM (SELECT {columns} FROM {TABLE} ORDER BY {order} OFFSET 0) AS walk GROUP BY 1
                ) AS i ON i.held = e.held
                WHERE i.times IS NULL OR i.times < e.times LIMIT {SHOWN}
            """  # noqa: S608 - of the catalogue
            cursor.execute(f"EXPLAIN (FORMAT JSON) {query}")
            plan = json.dumps(cursor.fetchone())
            # One that it does not go by, as one that is not valid, hides nothing.
            if f'"Index Name": "{name}"' not in plan or "Index Only Scan" not in plan or "Seq Scan" not in plan:
                continue
            cursor.execute(query)
            for first, last in cursor.fetchall():
                yield _lack(first, [name], last)
        # Nobody else of this transaction walks like that.
        transaction.set_rollback(True)


def _trees(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """The name of each index that is a tree of columns, of all rows, and its order."""
    with connection.cursor() as cursor:
        cursor.execute(_POSTGRESQL_INDEXES, {"table": TABLE})
        found = [(name, _TREE.search(told)) for name, told, _ in cursor.fetchall()]
    return [(name, order[1]) for name, order in found if order is not None]


def _lack(seq: int, names: list[str], last: int = 0) -> Hidden:
    """``last``: the last of those that the index tells nothing else of, one of which it lacks."""
    indexes = ", ".join(names)
    if last > seq:
        what = f"One of the entries {seq:,} to {last:,} is hidden from lists: it is missing in {indexes}."
        return Hidden(0, what)
    return Hidden(seq, f"Entry {seq:,} is hidden from lists: it is missing in {indexes}.")
