"""Reads CSV, JSON lines and Parquet row by row; what cannot be read is told apart, not thrown away."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_json
from hbus_console.imports.parquet import parquet_rows

#: The longest field of a CSV file, in characters.
FIELD_LIMIT = 16 * 1024 * 1024
#: The longest line of a file of JSON lines, and the longest row of a CSV or Parquet file, in bytes.
LINE_LIMIT = 16 * 1024 * 1024
#: The most lines one CSV row may have.
ROW_LINES = 1_000
#: A gzip, or the rows of a Parquet file, may expand to so many bytes, and where the file is large itself to so many
#: times its size.
EXPANDED_BYTES = 1024 * 1024 * 1024
EXPANDED_TIMES = 200
_BLOCK = 1 << 20


@dataclass(frozen=True)
class ImportRow:
    """One row. ``number`` counts rows, ``line`` is where it begins in the file (Parquet: the row again)."""

    number: int
    line: int
    values: dict[str, Any]
    #: Why it cannot be read; empty when it can.
    problem: str = ""
    #: About how many bytes it has in the file.
    size: int = 0

    @property
    def digest(self) -> str:
        """SHA-256 of what it holds, or of why it cannot be read."""
        return hashlib.sha256(self.problem.encode() or msgspec.json.encode(self.values)).hexdigest()


class Fingerprint(NamedTuple):
    """By what a file is known."""

    #: SHA-256 of its bytes.
    digest: str
    #: How many they are.
    size: int


def fingerprint(path: Path) -> Fingerprint:
    """The file as it is now; raises ``BadInput`` when it cannot be read."""
    *_, whole = _fingerprints(path, ())
    return whole


def beginnings(path: Path, sizes: Iterable[int]) -> Iterator[Fingerprint]:
    """The file's first bytes, for each of ``sizes`` that it has; raises ``BadInput`` when it cannot be read."""
    *shorter, _ = _fingerprints(path, sorted(set(sizes)))
    yield from shorter


def _fingerprints(path: Path, sizes: Sequence[int]) -> Iterator[Fingerprint]:
    """Those of the beginnings of ``sizes``, which ascend, and in the end that of the whole."""
    digest, read = hashlib.sha256(), 0
    wanted = iter(sizes)
    end = next(wanted, None)
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK if end is None else min(_BLOCK, end - read)):
                digest.update(block)
                read += len(block)
                if read == end:
                    yield Fingerprint(digest.hexdigest(), read)
                    end = next(wanted, None)
    except OSError as error:
        raise _unreadable(path, error) from error
    yield Fingerprint(digest.hexdigest(), read)


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
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        # csv.Error: of the header.
        raise _unreadable(path, error) from error


def _open(path: Path) -> IO[bytes]:
    if not path.name.endswith(".gz"):
        return path.open("rb")
    return io.BufferedReader(_Expanding(path, _most_expanded(path)), _BLOCK)


class _Expanding(io.RawIOBase):
    """What a gzip expands to, up to ``most`` bytes: a few million bytes of it may hold more than any disk."""

    def __init__(self, path: Path, most: int) -> None:
        self._file = gzip.open(path, "rb")  # noqa: SIM115 - closed with this
        self._most = self._room = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # Not more than is there: what stands before a tear is good.
        taken = self._file.readinto1(memoryview(buffer)[: self._room or 1])
        if taken and not self._room:
            raise OSError(f"it expands to more than {self._most:,} bytes; unpack it if it is meant to")
        self._room -= taken
        return taken

    def close(self) -> None:
        self._file.close()
        super().close()


class _Lines:
    """The lines of a CSV file, which can be taken back to just behind the first line of the row at hand."""

    def __init__(self, file: IO[bytes]) -> None:
        self._lines = _bounded_lines(file)
        #: ``None`` stands for a line that is too long.
        self._back: list[str | None] = []
        self._taken: list[str | None] = []
        self._number = 0
        #: About how many bytes the row at hand has.
        self.size = 0

    def begin_row(self) -> int:
        """Note that a row begins; returns its line number."""
        self._taken, self.size = [], 0
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
        line = self._back.pop() if self._back else self._read()
        self._taken.append(line)
        self._number += 1
        self.size += len(line or "")
        if line is None or self.size > LINE_LIMIT:
            raise csv.Error(f"it is longer than {LINE_LIMIT:,} bytes")
        return line

    def _read(self) -> str | None:
        line = next(self._lines)
        # Undecodable bytes become lone surrogates, so that one bad row does not end the file.
        return None if line is None else line.decode("utf-8", "surrogateescape")


def _csv_rows(path: Path) -> Iterator[ImportRow]:
    csv.field_size_limit(FIELD_LIMIT)
    with _open(path) as file:
        lines = _Lines(file)
        reader = csv.reader(lines, strict=True)
        header = [name.removeprefix("\ufeff").strip() for name in next(reader, [])]
        if not header or len(set(header)) < len(header) or "" in header or any(map(_torn, header)):
            raise BadInput(
                f"{path.name} has no usable header: every column needs a name of its own, in UTF-8.",
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
                yield ImportRow(number, line, {}, f"not CSV: {error}", lines.size)
                continue
            if not values:
                continue
            number += 1
            yield ImportRow(
                number, line, dict(zip(header, values, strict=False)), _csv_problem(header, values), lines.size
            )


def _csv_problem(header: list[str], values: list[str]) -> str:
    if len(values) != len(header):
        return f"has {len(values)} columns where the header has {len(header)}"
    for name, value in zip(header, values, strict=True):
        if _torn(value):
            return f"{name} is not UTF-8"
    return ""


def _torn(text: str) -> bool:
    """Whether bytes of it were no UTF-8."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


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
                yield ImportRow(number, line, values, size=len(text))
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
    for number, row in enumerate(parquet_rows(path, most=_most_expanded(path), longest=LINE_LIMIT), start=1):
        yield ImportRow(number, number, row.values, row.problem, row.size)


def _most_expanded(path: Path) -> int:
    return max(EXPANDED_BYTES, EXPANDED_TIMES * path.stat().st_size)


def _unreadable(path: Path, error: Exception) -> BadInput:
    return BadInput(f"{path} cannot be read: {words_of(error)}.", remedy="Name a whole, readable file.", field="file")
