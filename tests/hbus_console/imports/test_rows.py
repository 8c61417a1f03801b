from __future__ import annotations

import gzip
import hashlib
import tracemalloc
from pathlib import Path

import pytest

from engine.core.errors import BadInput
from hbus_console.imports import rows
from hbus_console.imports.rows import LINE_LIMIT, read_rows


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_csv_rows_carry_their_line_and_survive_quoted_newlines(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", 'id,note\n1,"two\nlines"\n\n2,plain\n')
    found = list(read_rows(file))
    assert [(row.number, row.line, row.values) for row in found] == [
        (1, 2, {"id": "1", "note": "two\nlines"}),
        (2, 5, {"id": "2", "note": "plain"}),
    ]


def test_a_csv_row_of_the_wrong_width_is_told_apart_and_the_rest_goes_on(tmp_path: Path) -> None:
    found = list(read_rows(write(tmp_path / "a.csv", "id,note\n1\n2,b,c\n3,d\n")))
    assert [row.problem for row in found] == [
        "has 1 columns where the header has 2",
        "has 3 columns where the header has 2",
        "",
    ]


def test_a_stray_quote_costs_its_own_line_only(tmp_path: Path) -> None:
    lines = "".join(f"{number},x\n" for number in range(3, 2_000))
    found = list(read_rows(write(tmp_path / "a.csv", f'id,note\n1,x\n2,"never closed\n{lines}')))
    assert [row.line for row in found if row.problem] == [3]
    assert len(found) == 1_999
    assert found[-1].line == 2_000
    assert found[-1].values == {"id": "1999", "note": "x"}


def test_a_csv_row_that_is_not_utf8_is_told_apart(tmp_path: Path) -> None:
    found = list(read_rows(write(tmp_path / "a.csv", b"id,note\n1,caf\xe9\n2,ok\n")))
    assert [row.problem for row in found] == ["note is not UTF-8", ""]


@pytest.mark.parametrize("text", ["", "\n", "id,id\n1,2\n", "id,\n1,2\n"])
def test_a_csv_file_without_a_usable_header_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="header"):
        list(read_rows(write(tmp_path / "a.csv", text)))


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv.gz", gzip.compress(b"id\n1\n"))
    assert [row.values for row in read_rows(file)] == [{"id": "1"}]


def test_a_torn_gzip_gives_what_it_holds_and_then_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(b"id\n" + b"".join(b"%d\n" % (n * 7919) for n in range(50_000)))
    reading = read_rows(write(tmp_path / "a.csv.gz", whole[: len(whole) // 2]))
    assert next(reading).values == {"id": "0"}
    with pytest.raises(BadInput, match="cannot be read"):
        list(reading)


def test_json_lines_that_are_no_objects_are_told_apart(tmp_path: Path) -> None:
    found = list(read_rows(write(tmp_path / "a.jsonl", '{"id": 1}\n\n[1]\n{"id": \n{"id": 2}\n')))
    assert [(row.line, bool(row.problem)) for row in found] == [(1, False), (3, True), (4, True), (5, False)]


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet.gz", "a"])
def test_an_unknown_kind_of_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"Use \.csv"):
        list(read_rows(write(tmp_path / name, "x")))


@pytest.mark.parametrize("name", ["missing.csv", "missing.parquet"])
def test_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_rows(tmp_path / name))


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.csv", "id\n1\n"), write(tmp_path / "b.csv", "id\n2\n")
    assert rows.fingerprint(a) == rows.fingerprint(a) != rows.fingerprint(b)


def test_a_line_without_end_costs_itself_only_and_little_memory(tmp_path: Path) -> None:
    long = b'{"id": "' + b"x" * (8 * LINE_LIMIT) + b'"}'
    file = write(tmp_path / "a.jsonl.gz", gzip.compress(b'{"id": 1}\n' + long + b'\n{"id": 2}\n' + long, 1))
    del long
    tracemalloc.start()
    found = list(read_rows(file))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(row.line, row.values, bool(row.problem)) for row in found] == [
        (1, {"id": 1}, False), (2, {}, True), (3, {"id": 2}, False), (4, {}, True),
    ]  # fmt: skip
    assert "longer than 16,777,216 bytes" in found[1].problem
    assert most < 4 * LINE_LIMIT


def test_a_line_that_nests_without_end_is_told_apart(tmp_path: Path) -> None:
    found = list(read_rows(write(tmp_path / "a.jsonl", '{"a":' + "[" * 100_000 + '\n{"id": 2}\n')))
    assert [bool(row.problem) for row in found] == [True, False]


def test_a_csv_line_without_end_costs_itself_only_and_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LINE_LIMIT", 1_000_000)
    long = b"x" * 16_000_000
    file = write(tmp_path / "a.csv", b"id,note\n1,a\n2," + long + b'\n3,"b\n' + long + b"\n4,c\n")
    del long
    tracemalloc.start()
    found = list(read_rows(file))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The open quote costs its own line, and then the long one itself.
    assert [(row.line, bool(row.problem)) for row in found] == [(2, False), (3, True), (4, True), (5, True), (6, False)]
    assert "longer than 1,000,000 bytes" in found[1].problem
    assert most < 8_000_000


def test_a_csv_row_of_many_lines_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LINE_LIMIT", 100)
    quoted = '2,"' + "twenty bytes are here\n" * 5 + '"\n'
    found = list(read_rows(write(tmp_path / "a.csv", f"id,note\n1,a\n{quoted}3,c\n")))
    assert (found[1].line, found[1].problem) == (3, "not CSV: it is longer than 100 bytes")
    assert (found[-1].line, found[-1].values) == (9, {"id": "3", "note": "c"})


@pytest.mark.parametrize("header", [b"id,caf\xe9\n1,2\n", b'id,"no\nend\n'])
def test_a_csv_header_that_cannot_be_read_is_refused(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(BadInput, match=r"a\.csv"):
        list(read_rows(write(tmp_path / "a.csv", header)))


def test_a_gzip_that_expands_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "EXPANDED_BYTES", 400_000)
    monkeypatch.setattr(rows, "EXPANDED_TIMES", 10)
    file = write(tmp_path / "a.jsonl.gz", gzip.compress(b'{"id": 1}\n' * 80_000))
    reading, read = read_rows(file), []
    with pytest.raises(BadInput, match="it expands to more than 400,000 bytes") as refused:
        read.extend(reading)
    assert len(read) == 40_000
    assert "\n" not in str(refused.value)


def test_a_gzip_that_is_large_itself_may_expand_to_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "EXPANDED_BYTES", 10)
    assert len(list(read_rows(write(tmp_path / "a.csv.gz", gzip.compress(b"id\n" + b"1\n" * 100))))) == 100


def test_the_beginnings_of_a_file_are_known_by_their_own_digests(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", b"id\n1\n2\n")
    found = list(rows.beginnings(file, [5, 3, 5, 9]))
    assert found == [(hashlib.sha256(b"id\n").hexdigest(), 3), (hashlib.sha256(b"id\n1\n").hexdigest(), 5)]
    assert rows.fingerprint(file) == (hashlib.sha256(b"id\n1\n2\n").hexdigest(), 7)
