"""Where a list goes on: the place of a page's last row in the order of the list, as addresses carry it.

For lists on pages, and those of the API that are no plain tables. The API's tables have the cursors of its framework
(:mod:`hbus_console.api.pagination`); lists ordered by trouble name a row (:func:`hbus_console.ui.rows.page_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from django.db.models import Q

from engine.core.errors import BadInput
from engine.core.numbers import whole

_Row = TypeVar("_Row")


def written(*place: int) -> str:
    """A place as :func:`read` knows it: ``1753862400000-17``."""
    return "-".join(map(str, place))


def read(cursor: str, numbers: int) -> tuple[int, ...]:
    """The place, of so many whole numbers; raises :class:`BadInput` for what no page gave."""
    place = [whole(part) for part in cursor.split("-")]
    known = tuple(number for number in place if number is not None)
    if not len(known) == len(place) == numbers:
        raise no_page()
    return known


def no_page() -> BadInput:
    """What is said to who asks for a page that no list has."""
    return BadInput("This page does not exist.", remedy="Start from the first page.", field="cursor")


def beyond(place: Mapping[str, object]) -> Q:
    """The rows after a place in the order of its columns, ``{"-published_ms": 1753862400000, "-pk": 17}``.

    The last column must tell all rows apart.
    """
    found, same = Q(), Q()
    for column, value in place.items():
        name = column.removeprefix("-")
        found |= same & Q((f"{name}__{'gt' if name == column else 'lt'}", value))
        same &= Q((name, value))
    return found


def cut(rows: Iterable[_Row], size: int) -> tuple[list[_Row], _Row | None]:
    """A page of ``size`` out of rows asked for beyond it, and its last row; ``None`` when no row follows."""
    found = list(rows)
    page = found[:size]
    return page, page[-1] if page and len(found) > size else None
