"""What no statement may call is refused however it is written, and nothing else is."""

from __future__ import annotations

import re

import pytest

from engine.pipeline.query.answering import NotRun, check
from engine.pipeline.query.refusing import NEVER_CALLED, NEVER_READ, READ_FROM
from engine.pipeline.query.running import run_query
from engine.pipeline.query.sealed import sealed
from engine.pipeline.query.spec import QuerySpec

CHILD = "tests.engine.pipeline.query.child"
SETTINGS = "SELECT name, value FROM duckdb_' || 'settings()"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sleep_ms(60000)",
        'SELECT "SLEEP_MS"(1)',
        "SELECT pg_sleep(60)",
        "FROM duckdb_settings()",
        'FROM "DUCKDB_settings" /* it */ ()',
        "FROM duckdb_profiling_settings()",
        "FROM pg_settings",
        'FROM pg_catalog."PG_Settings"',
        "SELECT current_setting('allowed_paths')",
        "SELECT system.main.current_setting('allowed_paths')",
        "SELECT 'allowed_paths'.current_setting()",
        "SELECT list_transform(['allowed_paths'], x -> current_setting(x))",
        "SELECT [current_setting(x) for x in ['allowed_paths']]",
        "SHOW allowed_paths",
        'FROM (SHOW "allowed_paths")',
        "SELECT getvariable('x')",
        f"SELECT * FROM query('{SETTINGS}')",
        f"SELECT * FROM \"query\"\n/* it */ -- and this\n('{SETTINGS}')",
        f"SELECT * FROM main.QUERY('{SETTINGS}')",
        f"WITH a AS (FROM query('{SETTINGS}')) SELECT (SELECT count(*) FROM a)",
        f"DESCRIBE SELECT * FROM query('{SETTINGS}')",
        f"SELECT 1 UNION ALL SELECT 2 WHERE EXISTS (FROM query('{SETTINGS}'))",
        "FROM query_table('pg_' || 'settings')",
        "FROM histogram_values('pg_' || 'settings', name)",
        "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT json_deserialize_sql('{}')",
        "SELECT json_serialize_plan('SELECT current_' || 'setting(''threads'')', optimize := true)",
        "FROM from_substrait('x'::blob)",
        "FROM sniff_csv('/etc/passwd')",
        "FROM enable_logging()",
        "FROM duckdb_logs",
        "SELECT write_log('x')",
    ],
)
def test_what_waits_tells_how_it_is_set_or_builds_a_statement_is_refused(sql: str) -> None:
    with pytest.raises(NotRun, match="is not to be had here"):
        check(sql)


def test_the_process_of_a_query_refuses_it_whether_it_runs_it_or_looks() -> None:
    for parse_only in (False, True):
        told = run_query(QuerySpec(f"SELECT * FROM query('{SETTINGS}')", parse_only=parse_only), CHILD)
        assert (told.error, list(told.rows)) == ("query is not to be had here. Leave it out.", [])


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT \'current_setting\', \'{"function_name":"query"}\' AS query, "}{" FROM (SELECT 1 AS "}{")',
        "WITH query AS (SELECT 1 AS sleep_ms) SELECT sleep_ms FROM query",
        "SELECT data->>'$.query', count(*) FROM messages WHERE type = 'query' GROUP BY ALL",
        "FROM range(3), generate_series(1, 2), json_each('{\"a\": 1}'), unnest([1])",
        "FROM information_schema.views",
        "SHOW messages",
        "SHOW TABLES",
        "SUMMARIZE messages",
        "FROM (SELECT 1 a, 2 b) PIVOT (sum(b) FOR a IN (1))",
        f"SELECT {' || '.join(['1'] * 900)}",
        f"SELECT {'abs(' * 400}1{')' * 400}",
    ],
)
def test_all_else_is_run(sql: str) -> None:
    check(sql)
    sealed({}).execute(sql)


def test_what_duckdb_wraps_round_it_is_refused_as_well() -> None:
    opened = sealed({})
    hidden = re.compile(rf"\b(?:{'|'.join(NEVER_CALLED | {'duckdb_settings', 'duckdb_secrets'})})\(")
    macros = opened.execute(
        "SELECT function_name, macro_definition, function_type FROM duckdb_functions() WHERE macro_definition NOT NULL"
    ).fetchall()
    for name, text, kind in macros:
        if hidden.search(text):
            assert name in NEVER_CALLED or (kind == "table_macro" and name not in READ_FROM), name
    views = opened.execute("SELECT view_name, sql FROM duckdb_views()").fetchall()
    for name, text in views:
        if hidden.search(text):
            assert name in NEVER_READ, name
    assert len(macros) > 20
    assert len(views) > 20
