"""Rows of many topics: each topic and day has its files, in their order, and no more is held than one file may have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.pipeline.lake import row_files
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.row_files import RowFiles
from engine.pipeline.lake.schema import DELIVERIES, KEY_HASH, SCHEMAS, key_hash
from engine.pipeline.lake.state import Kind, LakeFile

NOON = 1_795_867_200_000
DAY = 86_400_000


def batch(kind: Kind, rows: list[dict[str, object]]) -> pa.RecordBatch:
    schema = pa.schema([field for field in SCHEMAS[kind] if field.name != KEY_HASH])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def write(root: Path, *pages: list[tuple[int, str, int]], kind: Kind = Kind.PUBLISHED) -> list[LakeFile]:
    """Each row by its number, its topic and its time; its key is its number of three."""
    files = RowFiles(root, kind, "r0123456789abcdef-published")
    for page in pages:
        rows: list[dict[str, object]] = [
            {"row_id": number, "topic": topic, "message_id": f"m{number % 3}", "key": f"k{number % 3}"}
            if kind is Kind.PUBLISHED
            else {"row_id": number, "topic": topic, "message_id": f"m{number % 3}"}
            for number, topic, _ in page
        ]
        files.add(batch(kind, rows), [at_ms for *_, at_ms in page])
    return files.close()


def numbers(root: Path, file: LakeFile) -> list[int]:
    found: list[int] = pq.read_table(root / file.path)["row_id"].to_pylist()
    return found


def test_each_topic_and_day_has_its_file_though_days_come_mixed(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        [(1, "b", NOON), (2, "a", NOON), (3, "a", NOON + DAY)],
        [(4, "a", NOON - 5), (5, "b", NOON + DAY)],
    )
    assert [(file.topic, file.date, file.rows, file.first, file.last) for file in files] == [
        ("a", "2026-11-29", 1, "3", "3"),
        ("a", "2026-11-28", 2, "2", "4"),
        ("b", "2026-11-28", 1, "1", "1"),
        ("b", "2026-11-29", 1, "5", "5"),
    ]
    assert [(file.first_ms, file.last_ms, file.log) for file in files[1:2]] == [(NOON - 5, NOON, "published")]
    assert list(Lake(tmp_path).verify()) == []


def test_what_belongs_to_one_key_or_message_lies_together_in_its_order(tmp_path: Path) -> None:
    page = [(number, "t", NOON) for number in range(1, 31)]
    for kind, hashed in ((Kind.PUBLISHED, "key"), (Kind.DELIVERIES, "message_id")):
        (file,) = write(tmp_path / kind, page, kind=kind)
        table = pq.read_table(tmp_path / kind / file.path)
        assert table.schema == SCHEMAS[kind]
        hashes = table["key_hash"].to_pylist()
        assert hashes == sorted(key_hash(text) for text in table[hashed].to_pylist())
        for text in set(table[hashed].to_pylist()):
            of_it = [row["row_id"] for row in table.to_pylist() if row[hashed] == text]
            assert of_it == sorted(of_it)
            assert len(of_it) == 10


def test_no_file_and_no_memory_has_more_than_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "ROWS", 10)
    pages = [[(start + at, "busy" if at else "quiet", NOON) for at in range(4)] for start in range(1, 41, 4)]

    files = write(tmp_path, *pages)

    assert max(file.rows for file in files) <= 10
    assert sum(file.rows for file in files) == 40
    busy = [file for file in files if file.topic == "busy"]
    assert len(busy) > 2
    found = [number for file in busy for number in sorted(numbers(tmp_path, file))]
    assert found == sorted(found)
    assert [(int(file.first), int(file.last)) for file in busy] == [
        (min(numbers(tmp_path, file)), max(numbers(tmp_path, file))) for file in busy
    ]


def test_a_heavy_row_is_written_though_they_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BYTES", 4_000)
    files = RowFiles(tmp_path, Kind.DELIVERIES, "r0123456789abcdef-deliveries")
    for number in range(6):
        row = {"row_id": number, "topic": "t", "message_id": "m", "error": "e" * 1_500}
        files.add(batch(Kind.DELIVERIES, [row]), [NOON])
    assert [file.rows for file in files.close()] == [2, 2, 2]
    assert "error" in DELIVERIES.names
