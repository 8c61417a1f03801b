"""What the pages of a Parquet file say of themselves, which is what a reader goes by.

A file's footer tells sizes too, and statistics, but no reader needs them: whoever wrote the file may have put anything
there. Only what stands at the head of each page cannot lie, or the page could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

#: How a page of text or bytes is written, as far as it matters here.
PLAIN, DELTA_BYTE_ARRAY = 0, 7
BY_DICTIONARY = frozenset((2, 8))

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
#: Of each kind of page: the field with what only it has, and in that the field with its encoding.
_OWN = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
# Types of Thrift's compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _I32, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 5, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
#: A head nests twice; a longer number than this is none.
_DEEPEST, _LONGEST = 8, 10

#: The fields of a struct by number and type: a reader skips one that has another type than it should.
_Fields = dict[tuple[int, int], "int | _Fields"]


class Page(NamedTuple):
    """One page of a column."""

    #: Whether it holds the values that other pages name by their numbers.
    dictionary: bool
    #: How many bytes it has once it is unpacked.
    size: int
    values: int
    encoding: int


def pages(file: IO[bytes], start: int, values: int) -> Iterator[Page]:
    """The pages from ``start`` on, until so many ``values`` have come. Raises ``OSError`` for what is none."""
    file.seek(start)
    while values > 0:
        head = _struct(file)
        kind, unpacked, packed = (_number(head, field) for field in (1, 2, 3))
        if kind in _OWN:
            own, encoding = _OWN[kind]
            about = head.get((own, _STRUCT))
            if not isinstance(about, dict):
                raise OSError("a page of it says nothing of itself")
            page = Page(kind == _DICTIONARY, max(unpacked, packed), _number(about, 1), _number(about, encoding))
            yield page
            values -= 0 if page.dictionary else page.values
        file.seek(packed, 1)


def _number(fields: _Fields, field: int) -> int:
    found = fields.get((field, _I32))
    if not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise OSError("a page of it says nothing of itself")
    return found


def _struct(file: IO[bytes], depth: int = 0) -> _Fields:
    fields: _Fields = {}
    field = 0
    while (head := _byte(file)) & 15 != _STOP:
        kind = head & 15
        field = field + (head >> 4) if head >> 4 else _zigzag(file)
        value = _value(file, kind, depth)
        if value is not None:
            fields[field, kind] = value
    return fields


def _value(file: IO[bytes], kind: int, depth: int) -> int | _Fields | None:
    """A value that may be asked for; others are passed over."""
    if depth > _DEEPEST:
        raise OSError("a page of it nests too deep")
    if kind in _INTEGERS:
        return _zigzag(file)
    if kind == _STRUCT:
        return _struct(file, depth + 1)
    if kind in (_LIST, _SET):
        head = _byte(file)
        for _ in range(_varint(file) if head >> 4 == 15 else head >> 4):
            # In a list a truth has a byte of its own.
            _value(file, _BYTE if head & 15 in (_TRUE, _FALSE) else head & 15, depth + 1)
    elif kind in (_BYTE, _DOUBLE, _BINARY):
        file.seek({_BYTE: 1, _DOUBLE: 8}.get(kind) or _varint(file), 1)
    elif kind not in (_TRUE, _FALSE):
        raise OSError("a page of it cannot be read")
    return None


def _zigzag(file: IO[bytes]) -> int:
    number = _varint(file)
    return (number >> 1) ^ -(number & 1)


def _varint(file: IO[bytes]) -> int:
    number = 0
    for place in range(_LONGEST):
        byte = _byte(file)
        number |= (byte & 127) << 7 * place
        if byte < 128:
            return number
    raise OSError("a page of it cannot be read")


def _byte(file: IO[bytes]) -> int:
    read = file.read(1)
    if not read:
        raise OSError("a page of it is missing")
    return read[0]
