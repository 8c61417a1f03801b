"""Reads CSV, JSON lines and Parquet row by row; what cannot be read is told apart, not thrown away."""

from __future__ import annotations

import csv
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_json

#: The longest field of a CSV file, in characters.
FIELD_LIMIT = 16 * 1024 * 1024
#: The longest line of a file of JSON lines, in bytes.
LINE_LIMIT = 16 * 1024 * 1024
#: The most lines one CSV row may have.
ROW_LINES = 1_000
_BLOCK = 1 << 20


@dataclass(frozen=True)
class ImportRow:
    """One row. ``number`` counts rows, ``line`` is where it begins in the file (Parquet: the row again)."""

    number: int
    line: int
    values: dict[str, Any]
    #: Why it cannot be read; empty when it can.
    problem: str = ""


def file_digest(path: Path, advance: Callable[[int], None] = lambda _: None) -> str:
    """SHA-256 of the file; raises ``BadInput`` when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                advance(len(block))
    except OSError as error:
        raise _unreadable(path, error) from error
    return digest.hexdigest()


def read_rows(path: Path) -> Iterator[ImportRow]:
    """The rows of a file, by the end of its name: .csv, .jsonl, .ndjson (each also .gz) or .parquet.

    Raises ``BadInput`` for another kind, and when the file itself breaks off (a torn gzip, a foreign Parquet): rows
    read so far are good.
    """
    name = path.name.removesuffix(".gz")
    try:
        if name.endswith(".csv"):
            yield from _csv_rows(path)
        elif name.endswith((".jsonl", ".ndjson")):
            yield from _json_rows(path)
        elif path.name.endswith(".parquet"):
            yield from _parquet_rows(path)
        else:
            raise BadInput(
                f"{path.name} is no kind of file that can be imported.",
                remedy="Use .csv, .csv.gz, .jsonl, .jsonl.gz, .ndjson or .parquet.",
                field="file",
            )
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.name.endswith(".gz") else path.open("rb")


class _Lines:
    """The lines of a CSV file, which can be taken back to just behind the first line of the row at hand."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._back: list[str] = []
        self._taken: list[str] = []
        self._number = 0

    def begin_row(self) -> int:
        """Note that a row begins; returns its line number."""
        self._taken = []
        return self._number + 1

    def skip_first(self) -> None:
        """Hand out again what followed the first line of the row."""
        self._back.extend(reversed(self._taken[1:]))
        self._number -= len(self._taken[1:])
        self._taken = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if len(self._taken) >= ROW_LINES:
            raise csv.Error(f"a quote is not closed within {ROW_LINES} lines")
        # Undecodable bytes become lone surrogates, so that one bad row does not end the file.
        line = self._back.pop() if self._back else next(self._file).decode("utf-8", "surrogateescape")
        self._taken.append(line)
        self._number += 1
        return line


def _csv_rows(path: Path) -> Iterator[ImportRow]:
    csv.field_size_limit(FIELD_LIMIT)
    with _open(path) as file:
        lines = _Lines(file)
        reader = csv.reader(lines, strict=True)
        header = [name.removeprefix("\ufeff").strip() for name in next(reader, [])]
        if not header or len(set(header)) < len(header) or "" in header:
            raise BadInput(
                f"{path.name} has no usable header: every column needs a name of its own.",
                remedy="Put the column names into the first line.",
                field="file",
            )
        number = 0
        while True:
            line = lines.begin_row()
            try:
                values = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                # A stray quote would swallow all that follows: give up the one line only.
                lines.skip_first()
                reader = csv.reader(lines, strict=True)
                number += 1
                yield ImportRow(number, line, {}, f"not CSV: {error}")
                continue
            if not values:
                continue
            number += 1
            yield ImportRow(number, line, dict(zip(header, values, strict=False)), _csv_problem(header, values))


def _csv_problem(header: list[str], values: list[str]) -> str:
    if len(values) != len(header):
        return f"has {len(values)} columns where the header has {len(header)}"
    for name, value in zip(header, values, strict=True):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return f"{name} is not UTF-8"
    return ""


def _json_rows(path: Path) -> Iterator[ImportRow]:
    with _open(path) as file:
        number = 0
        for line, text in enumerate(_bounded_lines(file), start=1):
            if text is None:
                number += 1
                yield ImportRow(number, line, {}, f"its line is longer than {LINE_LIMIT:,} bytes")
                continue
            if not text.strip():
                continue
            number += 1
            try:
                values = read_json(text)
            except NotJson as error:
                yield ImportRow(number, line, {}, f"not a JSON object: {error}")
                continue
            if isinstance(values, dict):
                yield ImportRow(number, line, values)
            else:
                yield ImportRow(number, line, {}, "not a JSON object")


def _bounded_lines(file: IO[bytes]) -> Iterator[bytes | None]:
    """The lines of a file; one longer than :data:`LINE_LIMIT` is read over piece by piece, and stands as ``None``."""
    while text := file.readline(LINE_LIMIT + 1):
        if len(text) <= LINE_LIMIT or text.endswith(b"\n"):
            yield text
            continue
        while text and not text.endswith(b"\n"):
            text = file.readline(_BLOCK)
        yield None


def _parquet_rows(path: Path) -> Iterator[ImportRow]:
    # 60 MB, for files of one kind.
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(batch_size=5_000):
            for values in batch.to_pylist():
                number += 1
                yield ImportRow(number, number, msgspec.to_builtins(values, str_keys=True))
    except pyarrow.ArrowException as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> BadInput:
    return BadInput(f"{path} cannot be read: {words_of(error)}.", remedy="Name a whole, readable file.", field="file")
