"""Reads Parquet row by row, in pieces that stay small whatever a file says of itself.

A Parquet file holds a value once and names it by its number, packs its pages, and repeats: ten thousand bytes may
stand for any number of rows of any length. So what a row group takes is reckoned from its pages before it is read, each
row is measured before it becomes one of Python's, and what all rows have together is bounded as for a gzip.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from engine.core.error_text import words_of
from hbus_console.imports.parquet_pages import BY_DICTIONARY, DELTA_BYTE_ARRAY, PLAIN, Page, pages
from hbus_console.imports.parquet_sizes import row_sizes

#: About how many bytes of rows are held at once, and how many rows at most. A single row may be larger.
PIECE_BYTES = 16 * 1024 * 1024
PIECE_ROWS = 5_000
#: What a row group needs to be read at all (a page of each column, and a row) may have so many bytes, and where it is
#: large itself so many times its size.
HELD_BYTES = 64 * 1024 * 1024
HELD_TIMES = 20
_BUFFER = 1 << 16
#: What a value of each type takes. Those of other types have no length of their own.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
#: What any value takes besides: its levels, and its number in a dictionary.
_ELEMENT = 8
#: What an entry of a dictionary takes besides.
_ENTRY = 16
#: Text and bytes, which alone can be read as the numbers that they have in a dictionary.
_TEXTS = frozenset(("NONE", "STRING", "ENUM", "JSON", "BSON"))
#: A page that is written so does not hold all of its values itself.
_ELSEWHERE = frozenset((*BY_DICTIONARY, DELTA_BYTE_ARRAY))


class ParquetRow(NamedTuple):
    """One row, or why it cannot be read, and about how many bytes it has."""

    values: dict[str, Any]
    problem: str
    size: int


def parquet_rows(path: Path, *, most: int, longest: int) -> Iterator[ParquetRow]:
    """The rows of a file. One of more than ``longest`` bytes is told apart.

    Raises ``OSError`` where the file breaks off, once its rows have more than ``most`` bytes together, and at a row
    group that cannot be read in little memory.
    """
    # 60 MB, for files of one kind.
    import pyarrow

    room = most
    try:
        for batch in _batches(path):
            for at, size in enumerate(row_sizes(batch)):
                room -= size
                if room < 0:
                    raise OSError(f"it expands to more than {most:,} bytes; unpack it to .jsonl if it is meant to")
                if size > longest:
                    yield ParquetRow({}, f"it is longer than {longest:,} bytes", size)
                else:
                    yield ParquetRow(*_python(batch.slice(at, 1)), size)
    except pyarrow.ArrowException as error:
        raise OSError(words_of(error)) from error


def _batches(path: Path) -> Iterator[Any]:
    # 60 MB, for files of one kind.
    from pyarrow import parquet

    with path.open("rb") as heads:
        file = parquet.ParquetFile(path)
        for group in range(file.num_row_groups):
            need = _need(file, group, heads)
            # Streamed: a row group may be as large as the file.
            reader = parquet.ParquetFile(
                path,
                metadata=file.metadata,
                read_dictionary=need.by_number,
                pre_buffer=False,
                buffer_size=_BUFFER,
            )
            yield from reader.iter_batches(batch_size=need.piece, row_groups=[group])


class _Need(NamedTuple):
    """How a row group is to be read."""

    #: So many rows at once.
    piece: int
    #: The columns that are read as numbers and a dictionary.
    by_number: list[str]


class _Column(NamedTuple):
    """What a column of a row group takes in memory, in bytes."""

    #: Whatever piece of it is read.
    held: int
    #: Each value besides, but for those of lists, all of which are held.
    each: int
    #: Values and size of the pages that hold their values themselves.
    own: list[tuple[int, int]]

    def piece(self, rows: int) -> int:
        """The most of so many rows, but for the pages that are held anyway: where they begin, and where they end."""
        most = within = values = begin = 0
        for more, size in self.own:
            values, within = values + more, within + size
            while values > rows:
                values, within, begin = values - self.own[begin][0], within - self.own[begin][1], begin + 1
            most = max(most, within)
        return rows * self.each + most


def _need(file: Any, group: int, heads: IO[bytes]) -> _Need:
    """Raises ``OSError`` when it is too much."""
    about = file.metadata.row_group(group)
    columns: list[_Column] = []
    by_number: list[str] = []
    packed = 0
    for place in range(about.num_columns):
        leaf, chunk = file.schema.column(place), about.column(place)
        starts = (chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else 0)
        start = min(each or starts[0] for each in starts)
        found = list(pages(heads, start, chunk.num_values))
        packed += heads.tell() - start
        numbered = _is_numbered(leaf, found)
        columns.append(_column(leaf, found, numbered))
        if numbered:
            by_number.append(chunk.path_in_schema)
    most = max(HELD_BYTES, HELD_TIMES * packed)
    if sum(column.held for column in columns) > most:
        raise OSError(
            f"a row group of it expands to more than {most:,} bytes at once; write it with smaller pages and row "
            "groups if it is meant to"
        )
    piece = PIECE_ROWS
    while piece > 1 and sum(column.piece(piece) for column in columns) > PIECE_BYTES:
        piece //= 2
    return _Need(piece, by_number)


def _column(leaf: Any, found: list[Page], numbered: bool) -> _Column:
    data = [page for page in found if not page.dictionary]
    entries = sum(page.size for page in found if page.dictionary)
    held = entries + _ENTRY * sum(page.values for page in found if page.dictionary)
    held += max((page.size for page in data), default=0)
    width = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(leaf.physical_type, 0)

    def each(page: Page) -> int:
        if width or numbered or page.encoding not in _ELSEWHERE:
            return _ELEMENT + width
        # No value is longer than what it was put together from.
        return _ELEMENT + (page.size if page.encoding == DELTA_BYTE_ARRAY else entries)

    own = [] if width else [(page.values, page.size) for page in data if page.encoding not in _ELSEWHERE]
    if not leaf.max_repetition_level:
        return _Column(held, max(map(each, data), default=0), own)
    # One row may have all that there is.
    return _Column(held + sum(page.values * each(page) for page in data) + sum(size for _, size in own), 0, [])


def _is_numbered(leaf: Any, found: list[Page]) -> bool:
    """Whether it can be read as numbers, of which a thousand are little where as many copies would be much."""
    ways = {page.encoding for page in found if not page.dictionary}
    text = leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in _TEXTS
    return text and bool(ways & BY_DICTIONARY) and ways <= {*BY_DICTIONARY, PLAIN}


def _python(row: Any) -> tuple[dict[str, Any], str]:
    """The values of one row, or why they have none in Python: nanoseconds, years after 9999, text that is no UTF-8."""
    try:
        return msgspec.to_builtins(row.to_pylist()[0], str_keys=True, enc_hook=_of_pandas), ""
    except (ValueError, OverflowError, TypeError) as error:
        return {}, f"the row cannot be read: {words_of(error)}"


def _of_pandas(value: Any) -> Any:
    """Where pandas is installed, nanoseconds come as its own kinds of times: the same as without it."""
    if getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)):
        raise ValueError(f"{value!r} has nanoseconds")
    if isinstance(value, datetime):
        return datetime.fromisoformat(value.isoformat())
    if isinstance(value, timedelta):
        return timedelta(days=value.days, seconds=value.seconds, microseconds=value.microseconds)
    raise TypeError(f"a value of the kind {type(value).__name__} cannot be told")
