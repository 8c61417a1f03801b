"""A query reads the files it was named and nothing else, is bounded, and shows nothing that is hidden."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.clock import SystemClock
from engine.core.strict_json import read_json
from engine.pipeline.lake.schema import DELIVERIES, PUBLISHED, SCHEMA
from engine.pipeline.lake.state import Kind
from engine.pipeline.query import answering
from engine.pipeline.query.running import run_query
from engine.pipeline.query.sealed import sealed
from engine.pipeline.query.spec import FOLDER, HidingRules, QueryAnswer, QueryFile, QuerySpec
from hbus_console.state import ROOT

CHILD = "tests.engine.pipeline.query.child"
AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
AT_MS = round(AT.timestamp() * 1000)


def message(number: int, **more: Any) -> dict[str, Any]:
    said = {"topic": "t", "id": f"m{number}", "stored_at": AT, "size": 50, "data": f'{{"stay":{{"nights":{number}}}}}'}
    return said | more


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    rows = [message(1), message(2), message(3, data=None, data_base64=b"\0\1")]
    rows.append(message(4, data=None, malformed="no JSON: secret", original=b"secret", extensions=[("tenant", "a")]))
    path = tmp_path / "messages.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return path


def ask(sql: str, *files: QueryFile, **more: Any) -> QueryAnswer:
    return run_query(QuerySpec(sql, files, **more), CHILD)


def test_json_in_payloads_is_at_hand(messages: Path) -> None:
    answer = ask(
        "SELECT (data->>'$.stay.nights')::int AS nights, stored_at, extensions['tenant'] AS tenant FROM messages",
        QueryFile(str(messages), Kind.MESSAGES),
    )
    assert answer.error == ""
    assert [column.name for column in answer.columns] == ["nights", "stored_at", "tenant"]
    assert answer.columns[1].type == "TIMESTAMP"
    assert list(answer.rows[0]) == [1, "2026-11-28T12:00:00", None]
    assert answer.rows[3][2] == "a"


def test_each_kind_is_a_view_whether_it_has_files_or_not(tmp_path: Path) -> None:
    told = {"row_id": 1, "message_id": "m", "topic": "t", "at": AT, "kind": "settled"}
    pq.write_table(pa.Table.from_pylist([told], DELIVERIES), tmp_path / "d.parquet")
    file = QueryFile(str(tmp_path / "d.parquet"), Kind.DELIVERIES)
    assert ask("SELECT kind, happened_at FROM deliveries", file).rows == [["settled", "2026-11-28T12:00:00"]]
    assert ask("SELECT count(*) FROM published", file).rows == [[0]]
    assert ask("SELECT topic, stored_at, extensions FROM messages", file).rows == []


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What lies beside the file that is named: a database, a text, another topic's file."""
    with sqlite3.connect(tmp_path / "db.sqlite3") as database:
        database.execute("CREATE TABLE auth (password)")
    (tmp_path / "secret.txt").write_text("secret")
    pq.write_table(pa.Table.from_pylist([message(9, topic="other")], SCHEMA), tmp_path / "other.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('/etc/passwd')",
        "FROM read_blob('/proc/self/environ')",
        "FROM read_csv('/etc/passwd')",
        "FROM sniff_csv('/etc/passwd')",
        "FROM glob('/etc/*')",
        "FROM '{outside}/secret.txt'",
        "FROM read_text('{outside}/secret.txt')",
        "FROM read_parquet('{outside}/other.parquet')",
        "FROM read_parquet('{outside}/messages.parquet/../other.parquet')",
        "FROM read_parquet('{outside}/*.parquet')",
        "FROM parquet_metadata('{outside}/other.parquet')",
        "FROM sqlite_scan('{outside}/db.sqlite3', 'auth')",
        "FROM read_duckdb('{outside}/db.sqlite3')",
        "FROM query('FROM read_text(''/etc/passwd'')')",
        "FROM read_parquet('https://hbus.example/a.parquet')",
        "FROM read_parquet('s3://hbus/a.parquet')",
        "SELECT getenv('HOME')",
        "FROM spec",
        "FROM files",
    ],
)
def test_nothing_else_is_read(sql: str, messages: Path, outside: Path) -> None:
    answer = ask(sql.format(outside=outside), QueryFile(str(messages), Kind.MESSAGES))
    assert answer.error
    assert list(answer.rows) == []
    assert ".parquet" not in answer.error.split("\n")[0] or "https:" in sql or "s3:" in sql


@pytest.mark.parametrize(
    "sql",
    [
        "COPY messages TO '/tmp/hbus-out.csv'",
        "ATTACH '/tmp/hbus-out.db'",
        "EXPORT DATABASE '/tmp/hbus-out'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET threads",
        "PRAGMA database_list",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW messages",
        "CALL pragma_version()",
        "EXPLAIN SELECT 1",
        "USE memory",
        "SELECT 1; COPY messages TO '/tmp/hbus-out.csv'",
        "",
    ],
)
def test_only_one_statement_that_reads_is_run(sql: str) -> None:
    assert ask(sql).error.startswith("Only one statement")
    with pytest.raises(answering.NotRun):
        answering.check(sql)


def test_statements_that_read_are_run() -> None:
    for sql in ("SELECT 1 AS a", "WITH x AS (SELECT 1 AS a) FROM x", "VALUES (1)", "DESCRIBE messages", "SHOW TABLES"):
        assert ask(sql).rows, sql


def test_what_is_no_sql_is_told_in_duckdbs_words() -> None:
    assert 'syntax error at or near "SELEC"' in ask("SELEC 1").error
    assert 'syntax error at or near "SELEC"' in ask("SELEC 1", parse_only=True).error
    assert not ask("SELECT 1", parse_only=True).error


def test_the_child_knows_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch, messages: Path) -> None:
    monkeypatch.setenv("HBUS_SECRET_KEY", "secret")
    file = QueryFile(str(messages), Kind.MESSAGES, HidingRules(classification="environment"))
    known = set(read_json(ask("SELECT min(data) FROM messages", file).rows[0][0].encode()))
    assert {"PATH", "PYTHONPATH"} <= known
    assert "HBUS_SECRET_KEY" not in known
    assert "HOME" not in known


def left() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if CHILD in child.cmdline()]


def test_rows_cells_and_bytes_are_bounded() -> None:
    answer = ask("FROM range(20)", rows=10)
    assert len(answer.rows) == 10
    assert answer.cut
    assert not ask("FROM range(10)", rows=10).cut
    cell = ask("SELECT repeat('x', 100_000)").rows[0][0]
    assert len(cell) == 4_000
    assert cell.endswith("…")
    many = ask("SELECT repeat('x', 3_000) FROM range(10_000)", rows=10_000)
    assert many.cut
    assert len(many.rows) < 1_400
    assert "columns" in ask(f"SELECT {', '.join(f'1 AS c{n}' for n in range(201))}").error


def test_values_that_json_has_not_are_texts() -> None:
    numbers = "'nan'::double, 2::hugeint * 100000000000000000000, 1.50::decimal(4,2)"
    sql = f"SELECT {numbers}, DATE '2026-11-28', [1, 2], {{'a': 1}}, '\\xAA'::blob"
    row = ask(sql).rows[0]
    assert list(row) == ["nan", "200000000000000000000", "1.50", "2026-11-28", "[1, 2]", '{"a": 1}', "aa"]


def test_one_that_takes_too_long_is_ended() -> None:
    answer = ask("SELECT max(i * j) FROM range(10_000_000) a(i), range(10_000_000) b(j)", seconds=1)
    assert "longer than 1 s" in answer.error
    assert not left()


class Slow(SystemClock):
    """A machine on which so much time goes by before the process of a query says its first word, seconds."""

    def __init__(self, lost_s: float) -> None:
        self._lost_s, self._asked = lost_s, 0

    def monotonic(self) -> float:
        self._asked += 1
        return 0.0 if self._asked == 1 else self._lost_s


def test_what_its_process_takes_to_begin_is_no_time_of_the_query() -> None:
    answer = run_query(QuerySpec("SELECT 1", seconds=10), CHILD, clock=Slow(29))
    assert (answer.error, list(answer.rows[0])) == ("", [1])


def test_one_whose_process_does_not_begin_says_so() -> None:
    answer = run_query(QuerySpec("SELECT 1", seconds=10), CHILD, clock=Slow(31))
    assert (answer.begun, answer.error) == (False, "It did not begin within 30 s. Try again.")
    assert not left()


def test_one_that_is_not_wanted_any_more_is_ended() -> None:
    class Unwanted(Exception):
        pass

    def go_on() -> None:
        raise Unwanted

    with pytest.raises(Unwanted):
        run_query(QuerySpec("SELECT 1", seconds=60), CHILD, go_on)
    assert not left()


def test_one_that_takes_too_much_memory_says_so() -> None:
    assert "more memory than a query may have" in ask("SELECT list(range(1_000_000_000))").error


@pytest.mark.parametrize(("name", "stays"), [(f"{FOLDER}abc", False), ("anybody's", True)])
def test_the_child_ends_with_whoever_began_it_and_leaves_nothing(tmp_path: Path, name: str, stays: bool) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "0.parquet").write_bytes(b"a copy")
    spec = QuerySpec("SELECT max(i * j) FROM range(10_000_000) a(i), range(10_000_000) b(j)", seconds=60)
    child = subprocess.Popen(
        [sys.executable, "-m", CHILD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(msgspec.json.encode(spec) + b"\n")
    child.stdin.close()
    assert child.wait(timeout=30) == 1
    assert folder.exists() is stays


def test_what_is_hidden_is_not_there_for_sql(messages: Path) -> None:
    hidden = QueryFile(str(messages), Kind.MESSAGES, HidingRules(["*"], "personal", True))
    answer = ask("SELECT data, size, data_base64, original, malformed FROM messages ORDER BY id", hidden)
    assert answer.error == ""
    assert [list(row) for row in answer.rows] == [
        ['"personal"', None, None, None, None],
        ['"personal"', None, None, None, None],
        ['"personal"', None, None, None, None],
        [None, None, None, None, "It is no envelope."],
    ]
    assert ask(f"FROM read_parquet('{messages}')", hidden).error


def test_what_is_older_than_its_topic_is_hidden_whole(messages: Path) -> None:
    rules = HidingRules(["guest"], "personal", True)
    file = QueryFile(str(messages), Kind.MESSAGES, rules, since_ms=AT_MS + 1)
    assert ask("SELECT data FROM messages WHERE id = 'm1'", file).rows == [['"unknown"']]


def test_sizes_of_what_was_published_are_hidden_likewise(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"topic": "t", "size": 7, "key": "k"}], PUBLISHED), tmp_path / "p.parquet")
    file = QueryFile(str(tmp_path / "p.parquet"), Kind.PUBLISHED, HidingRules())
    assert ask("SELECT key, size FROM published", file).rows == [["k", None]]


def test_a_file_that_is_gone_is_told_without_its_path(tmp_path: Path) -> None:
    for hides in (None, HidingRules()):
        error = ask("FROM messages", QueryFile(str(tmp_path / "gone.parquet"), Kind.MESSAGES, hides)).error
        assert error
        assert str(tmp_path) not in error


def test_answers_are_json(messages: Path) -> None:
    answer = ask("FROM messages", QueryFile(str(messages), Kind.MESSAGES))
    assert read_json(msgspec.json.encode(answer))["rows"][0][0] == "t"
    assert os.path.exists(messages)


def test_it_is_closed_and_cannot_be_opened() -> None:
    settings = {
        "enable_external_access": False,
        "lock_configuration": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        "temp_directory": "",
        "TimeZone": "UTC",
    }
    asked = ", ".join(f"current_setting('{name}')" for name in settings)
    told = sealed({}).execute(f"SELECT {asked}").fetchone()
    assert list(told or ()) == list(settings.values())


def test_no_view_tells_where_files_lie(messages: Path) -> None:
    for sql in ("FROM duckdb_views()", "FROM information_schema.views", "DESCRIBE messages", "SHOW ALL TABLES"):
        told = str(ask(sql, QueryFile(str(messages), Kind.MESSAGES)))
        assert "0.parquet" in told or "DESCRIBE" in sql or "SHOW" in sql
        assert str(messages.parent) not in told


def test_a_text_that_no_memory_holds_is_refused_whatever_duckdb_reckons() -> None:
    answer = ask("SELECT length(x) FROM (SELECT repeat('a', 1_900_000_000) AS x FROM range(3)) t", seconds=30)
    assert "more memory than a query may have" in answer.error


def test_names_of_types_are_bounded() -> None:
    sql = "SELECT 1 AS x"
    for _ in range(6):
        sql = f"SELECT {{'{'a' * 1_000}': x, 'b': x}} AS x FROM ({sql})"
    (column,) = ask(sql).columns
    assert len(column.type) <= 201
