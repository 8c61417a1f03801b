"""What no statement may call, whatever it is written like: told by how DuckDB itself reads the statement.

The text is not looked at: a name may be put together in it, quoted, or stand behind a point. In the tree that DuckDB
makes of a statement each function that is called stands by its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from engine.pipeline.lake.state import Kind

#: What waits without doing anything, tells how DuckDB is set or of its environment, writes to its log, or reads a
#: statement out of a text. A test holds it to what DuckDB has wrapped round any of them.
NEVER_CALLED = frozenset(
    {
        *("sleep_ms", "pg_sleep", "current_setting", "getvariable", "getenv", "write_log"),
        *("json_serialize_sql", "json_deserialize_sql", "json_serialize_plan", "json_execute_serialized_sql"),
        *("query", "query_table", "from_substrait", "from_substrait_json", "get_substrait", "get_substrait_json"),
    }
)
#: What a statement may read from by a call. All else is refused, so that nobody gets what a later DuckDB brings along.
READ_FROM = frozenset(
    {
        *("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"),
        *("read_parquet", "parquet_scan", "pg_timezone_names", "icu_calendar_names", "pragma_version"),
        *("duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_schemas", "duckdb_tables", "duckdb_types"),
        *("duckdb_views", "duckdb_constraints", "pragma_table_info"),
    }
)
#: Views that tell how it is set, and what it logs.
NEVER_READ = frozenset({"pg_settings", "duckdb_settings", "duckdb_logs", "duckdb_log_contexts", "duckdb_secrets"})

_VIEWS = frozenset(kind.value for kind in Kind)
_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rf"(?P<key>{_TEXT})\s*:|(?P<text>{_TEXT})|(?P<brace>[{{}}])")


def refused_in(tree: str) -> str:
    """The first thing in a statement, as ``json_serialize_sql`` tells it, that is not to be had; empty: nothing."""
    for stands_as, node in _nodes(tree):
        called = node.get("function_name", "")
        if called.lower() in NEVER_CALLED or (called and stands_as == "function" and called.lower() not in READ_FROM):
            return called
        if node.get("type") == "BASE_TABLE" and node.get("table_name", "").lower() in NEVER_READ:
            return node["table_name"]
        # Of what is no view, SHOW tells how it is set.
        shows = node.get("type") == "SHOW_REF" and node.get("show_type") == "SHOW" and "query" not in node
        if shows and (name := node.get("table_name", "")).lower() not in _VIEWS:
            return f"SHOW {name}"
    return ""


def _nodes(tree: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Each object, the inner ones first, with the name that it has in the one round it: its members that are texts,
    and a brace for those that are objects. By no parser that calls itself: a sum of some hundred terms is as deep."""
    key = ""
    open_: list[tuple[str, dict[str, str]]] = []
    for token in _TOKEN.finditer(tree):
        if token["key"]:
            key = json.loads(token["key"])
        elif token["text"]:
            open_[-1][1][key] = json.loads(token["text"])
        elif token["brace"] == "{":
            if open_:
                open_[-1][1][key] = "{"
            open_.append((key, {}))
        else:
            key = open_[-1][0]
            yield open_.pop()
