from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from engine.core.errors import BadInput
from hbus_console.imports import parquet, rows
from hbus_console.imports.rows import read_rows

#: What Arrow may have at once in these tests, whose bounds are small.
MOST = 2_500_000
LONG = "x" * 100_000


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of a few hundred thousand bytes."""
    monkeypatch.setattr(parquet, "PIECE_BYTES", 300_000)
    monkeypatch.setattr(parquet, "HELD_BYTES", 1_000_000)
    monkeypatch.setattr(rows, "EXPANDED_BYTES", 5_000_000)


@contextmanager
def watched() -> Iterator[Any]:
    """What Arrow has in memory from here on."""
    before = pyarrow.default_memory_pool()
    pool = pyarrow.proxy_memory_pool(before)
    pyarrow.set_memory_pool(pool)
    yield pool
    pyarrow.set_memory_pool(before)


def write(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    how = {"compression": "zstd", "store_schema": False, **how}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **how)
    return path


def numbered(count: int) -> Any:
    """One long text, so many times, in the memory of one."""
    return pyarrow.DictionaryArray.from_arrays(pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count), [LONG])


def in_lists(values: Any, each: int) -> Any:
    return pyarrow.ListArray.from_arrays(pyarrow.array(range(0, len(values) + 1, each), pyarrow.int32()), values)


BOMBS = {
    "a dictionary": ({"note": numbered(4_000)}, {}),
    "many row groups": ({"note": numbered(4_000)}, {"row_group_size": 50}),
    "lists": ({"notes": in_lists(numbered(4_000), 10)}, {}),
    "objects": ({"it": pyarrow.StructArray.from_arrays([numbered(4_000)], ["note"])}, {}),
    "pages": ({"note": [LONG] * 500}, {"use_dictionary": False, "write_batch_size": 1, "data_page_size": 1}),
    "deltas": (
        {"note": [LONG] * 500},
        {"use_dictionary": False, "column_encoding": {"note": "DELTA_BYTE_ARRAY"}, "write_batch_size": 50},
    ),
    "a width": ({"note": pyarrow.array([LONG.encode()] * 500, pyarrow.binary(len(LONG)))}, {}),
    "names": ({LONG: pyarrow.nulls(4_000, pyarrow.int8())}, {}),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_parquet_that_expands_without_end_is_stopped_and_takes_little(
    tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    columns, how = BOMBS[kind]
    file = write(tmp_path / "a.parquet", columns, **how)
    monkeypatch.setattr(rows, "EXPANDED_TIMES", 1)
    reading, read = read_rows(file), []
    with watched() as pool, pytest.raises(BadInput, match="it expands to more than 5,000,000 bytes; unpack it"):
        read.extend(replace(row, values={}) for row in reading)
    assert 5_000_000 - 1_100_000 < sum(row.size for row in read) <= 5_000_000
    # Arrow asks for room for a thousand of a fixed width, and then uses none of it.
    assert kind == "a width" or pool.max_memory() < MOST


@pytest.mark.parametrize(
    ("columns", "how"),
    [
        ({"note": numbered(400)}, {}),
        ({"note": ["x" * 400_000] * 10}, {"use_dictionary": False}),
        ({"ns": in_lists(pyarrow.repeat(7, 1_000_000), 1_000_000)}, {}),
        ({"notes": in_lists(pyarrow.array([LONG[:9_000]] * 4_000), 4_000)}, {"use_dictionary": False}),
        ({f"note{place}": numbered(9) for place in range(20)}, {}),
    ],
    ids=["a value", "a page", "a list", "a list of pages", "columns"],
)
def test_a_row_group_that_cannot_be_read_in_little_memory_is_refused(
    tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], how: dict[str, Any]
) -> None:
    monkeypatch.setattr(parquet, "HELD_BYTES", 1_000_000 if len(columns) > 1 or "note" not in columns else 90_000)
    file = write(tmp_path / "a.parquet", columns, **how)
    with (
        watched() as pool,
        pytest.raises(BadInput, match=r"a row group of it expands to more than [\d,]+ bytes at once"),
    ):
        next(read_rows(file))
    assert pool.max_memory() < 400_000


def test_a_parquet_row_that_is_too_long_costs_itself_only(
    tmp_path: Path, tight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LINE_LIMIT", 50_000)
    file = write(tmp_path / "a.parquet", {"n": [1, 2, 3], "notes": [["a"], [LONG[:9_000]] * 6, None]})
    found = list(read_rows(file))
    assert [row.values for row in found] == [{"n": 1, "notes": ["a"]}, {}, {"n": 3, "notes": None}]
    assert found[1].problem == "it is longer than 50,000 bytes"


def test_sizes_that_a_parquet_tells_falsely_are_not_believed(tmp_path: Path, tight: None) -> None:
    how: dict[str, Any] = {"use_dictionary": False, "write_batch_size": 1, "data_page_size": 1}
    file = write(tmp_path / "a.parquet", {"note": [LONG] * 40}, **how)
    said = pyarrow.parquet.read_metadata(file).row_group(0).total_byte_size
    # As long as before, and a few bytes.
    true, false = _varint(said * 2), b"\x82" + b"\x80" * (len(_varint(said * 2)) - 2) + b"\x00"
    whole = file.read_bytes()
    assert whole.count(true) == 2
    file.write_bytes(whole.replace(true, false))
    assert pyarrow.parquet.read_metadata(file).row_group(0).total_byte_size == 1
    with watched() as pool:
        assert [len(row.values["note"]) for row in read_rows(file)] == [len(LONG)] * 40
    assert pool.max_memory() < MOST


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 128:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


@pytest.mark.parametrize("at", range(4, 60))
def test_a_parquet_with_a_broken_page_ends_with_a_refusal_or_goes_on(tmp_path: Path, at: int) -> None:
    file = write(tmp_path / "a.parquet", {"n": ["a", "b"] * 100})
    whole = bytearray(file.read_bytes())
    whole[at] ^= 255
    file.write_bytes(whole)
    try:
        assert len(list(read_rows(file))) == 200
    except BadInput as refused:
        assert "cannot be read" in str(refused)  # noqa: PT017 - a broken statistic breaks nothing


def test_every_way_to_write_a_parquet_is_read_alike(tmp_path: Path) -> None:
    texts = [None, "", *(f"a text {number % 700}" for number in range(20_000))]
    columns = {
        "note": texts,
        "tags": [None if each is None else [each, "b"] for each in texts],
        "pair": pyarrow.array(
            [None if each is None else [each, ""] for each in texts], pyarrow.list_(pyarrow.string(), 2)
        ),
        "it": [{"note": each, "of": [{"n": place}]} for place, each in enumerate(texts)],
        "map": pyarrow.array([[("k", each)] for each in texts], pyarrow.map_(pyarrow.string(), pyarrow.string())),
        "large": pyarrow.array(texts, pyarrow.large_string()),
        "own": pyarrow.array(texts).dictionary_encode(),
        "nothing": pyarrow.nulls(len(texts)),
        "price": pyarrow.array([Decimal("1.50")] * len(texts), pyarrow.decimal128(9, 2)),
        "ok": [True] * len(texts),
    }
    expected = [row.values for row in read_rows(write(tmp_path / "a.parquet", columns, store_schema=True))]
    assert len(expected) == len(texts)
    assert expected[2] == {
        "note": "a text 0", "tags": ["a text 0", "b"], "pair": ["a text 0", ""], "map": [("k", "a text 0")],
        "it": {"note": "a text 0", "of": [{"n": 2}]}, "large": "a text 0", "own": "a text 0", "nothing": None,
        "price": "1.50", "ok": True,
    }  # fmt: skip
    delta = {"note": "DELTA_BYTE_ARRAY", "tags.list.element": "DELTA_BYTE_ARRAY"}
    for how in (
        {"data_page_version": "2.0", "row_group_size": 7_000, "compression": "snappy"},
        {"use_dictionary": False, "data_page_size": 500, "compression": "none"},
        {"dictionary_pagesize_limit": 900, "data_page_size": 2_000},
        {"use_dictionary": False, "column_encoding": delta, "data_page_size": 500, "row_group_size": 5_000},
    ):
        found = [row.values for row in read_rows(write(tmp_path / "a.parquet", columns, store_schema=True, **how))]
        assert found == expected, how


def test_parquet_values_become_json_values(tmp_path: Path) -> None:
    table = pyarrow.table({"day": [date(2015, 7, 1)], "price": [Decimal("75.50")], "gone": [None], "n": [3]})
    file = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, file)
    assert [row.values for row in read_rows(file)] == [{"day": "2015-07-01", "price": "75.50", "gone": None, "n": 3}]


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    file.write_bytes(b"no parquet")
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_rows(file))


def test_a_parquet_of_large_rows_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PIECE_BYTES", 10_000)
    file = tmp_path / "a.parquet"
    notes = [f"{number:04}" * 250 for number in range(100)]
    pyarrow.parquet.write_table(pyarrow.table({"note": notes}), file, use_dictionary=False, compression="none")
    list(read_rows(file))  # what is imported and kept with the first reading is none of the file's
    tracemalloc.start()
    reading = read_rows(file)
    assert next(reading).values["note"] == notes[0]
    # Its own rows are held as Python's objects one piece at a time.
    held, _ = tracemalloc.get_traced_memory()
    assert [row.values["note"] for row in reading] == notes[1:]
    tracemalloc.stop()
    found = list(read_rows(file))
    assert [row.number for row in found] == list(range(1, 101))
    assert all(1_000 <= row.size < 1_100 for row in found)
    assert held < 60_000


def test_a_parquet_value_that_python_has_none_for_spoils_its_row_alone(tmp_path: Path) -> None:
    """Nanoseconds: it ended the whole import, again and again at the same place."""
    at = pyarrow.array([0, 1, 2_000], pyarrow.timestamp("ns"))
    table = pyarrow.table({"n": [1, 2, 3], "at": at})
    file = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, file)
    found = list(read_rows(file))
    assert [row.number for row in found] == [1, 2, 3]
    assert [bool(row.problem) for row in found] == [False, True, False]
    assert "cannot be read" in found[1].problem
