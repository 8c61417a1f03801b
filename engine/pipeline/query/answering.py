"""One statement, checked and run in a sealed DuckDB; its answer bounded."""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime
from typing import Any

import duckdb

from engine.core.error_text import shortened, words_of
from engine.pipeline.query.refusing import refused_in
from engine.pipeline.query.spec import MOST_BYTES, MOST_CELL, MOST_COLUMNS, QueryAnswer, QueryColumn, QuerySpec

#: Rows fetched at once.
_FETCHED = 500
#: Larger ones lose their last digits in a browser.
_EXACT = 2**53
#: What DuckDB says of files: where they lie is nobody's business.
_PATH = re.compile(r"""(["']?)/[^\s"']+\.parquet\1""")
_LONGEST_ERROR = 1_000
#: Of the name of a type, which may be as long as a statement makes it, and of what is refused.
_LONGEST_TYPE, _LONGEST_NAME = 200, 100


class NotRun(Exception):
    """A statement is none that is run; says why, in a sentence."""


def check(sql: str) -> None:
    """Raise :class:`NotRun` unless it is one statement that reads."""
    try:
        found = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise NotRun(said(error)) from error
    if len(found) != 1 or found[0].type is not duckdb.StatementType.SELECT:
        raise NotRun("Only one statement is run, and only one that reads: SELECT, WITH, VALUES, DESCRIBE or SHOW.")
    if refused := refused_in(_tree(sql)):
        raise NotRun(f"{shortened(refused, _LONGEST_NAME)} is not to be had here. Leave it out.")


def _tree(statement: str) -> str:
    """How DuckDB reads it, as JSON. Raises :class:`NotRun` where it would not say."""
    try:
        with duckdb.connect(":memory:") as reading:
            told = reading.execute("SELECT json_serialize_sql(?)", [statement]).fetchone()
    except duckdb.Error as error:
        raise NotRun(said(error)) from error
    tree = str(told[0]) if told else ""
    if not tree.startswith('{"error":false'):
        # What nobody has looked at is not run.
        raise NotRun("DuckDB does not say what it would call. Write it in another way.")
    return tree


def answer(opened: duckdb.DuckDBPyConnection, spec: QuerySpec) -> QueryAnswer:
    """Raises ``duckdb.Error``, and :class:`NotRun`."""
    check(spec.sql)
    found = opened.execute(spec.sql)
    columns = [
        QueryColumn(str(name), shortened(str(type_), _LONGEST_TYPE)) for name, type_, *_ in found.description or ()
    ]
    if len(columns) > MOST_COLUMNS:
        raise NotRun(f"It has {len(columns):,} columns, and {MOST_COLUMNS} are answered at most.")
    rows: list[list[Any]] = []
    left = MOST_BYTES
    while fetched := found.fetchmany(_FETCHED):
        for row in fetched:
            cells = [_cell(value) for value in row]
            left -= sum(len(cell.encode()) + 2 if isinstance(cell, str) else 8 for cell in cells)
            if len(rows) == spec.rows or left < 0:
                return QueryAnswer(columns, rows, cut=True)
            rows.append(cells)
    return QueryAnswer(columns, rows)


def said(error: Exception) -> str:
    """What DuckDB says, without where files lie."""
    return shortened(_PATH.sub("a file of the archive", words_of(error)), _LONGEST_ERROR)


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return shortened(_text(value), MOST_CELL)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:MOST_CELL].hex()
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=_text)
    # A lone half of a surrogate pair is in no JSON.
    return str(value).encode(errors="replace").decode()
