"""From columns of facts to values that every database takes, without an object or a call for each fact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]

#: The largest number of a PostgreSQL integer.
INT4 = 2**31 - 1


def each(column: T | list[T], count: int) -> Iterable[T]:
    """The value for each of ``count`` facts."""
    return column if isinstance(column, list) else repeat(column, count)


def texts(column: str | list[str], count: int, limit: int) -> Iterable[str]:
    """Likewise, as a text column of so many characters takes it: PostgreSQL refuses NUL and, unlike SQLite, what is
    too long."""
    if isinstance(column, str):
        return repeat(_clean(column, limit), count)
    if max(map(len, column)) <= limit and "\x00" not in "".join(column):
        return column
    return [_clean(text, limit) for text in column]


def numbers(column: int | list[int], count: int, most: int) -> Iterable[int]:
    """Likewise, none below 0 and none beyond ``most``."""
    if isinstance(column, int):
        return repeat(min(max(column, 0), most), count)
    if min(column) >= 0 and max(column) <= most:
        return column
    return [min(max(number, 0), most) for number in column]


def whole(column: Sequence[str]) -> bool:
    """Whether every fact has a value in it."""
    return "" not in column


def _clean(text: str, limit: int) -> str:
    return text[:limit].replace("\x00", "") if text else ""
