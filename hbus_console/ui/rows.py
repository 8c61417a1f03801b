"""What lists of things that a team answers for share: filters in the address, and pages by the name of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from django.db.models import QuerySet

from hbus_console import checks

#: Rows of one page.
PAGE = 100
#: The value of the owner filter that asks for what nobody owns.
NOBODY = "-"
_LONGEST = 100


@dataclass(frozen=True)
class Filters:
    """What a list is narrowed to; the names are the parameters in the address. Lists add their own."""

    owner: str = ""
    q: str = ""
    state: str = ""

    @property
    def narrowed(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))


_Filters = TypeVar("_Filters", bound=Filters)


def read_filters(kind: type[_Filters], parameters: Mapping[str, str]) -> _Filters:
    """The filters in the address; raises :class:`BadInput` for one that cannot be meant."""
    given = {one.name: parameters.get(one.name, "").strip() for one in fields(kind)}
    for name, value in given.items():
        checks.text(value, name, most=_LONGEST)
    return kind(**given)


_Row = TypeVar("_Row")


def page_of(rows: Sequence[_Row], names: Sequence[str], cursor: str) -> tuple[list[_Row], str]:
    """The rows after the one called ``cursor``, and the cursor of the next page; an unknown one begins anew.

    ``names`` are the rows' names in the same order: the order is by trouble, so it is the name that is remembered.
    """
    begin = names.index(cursor) + 1 if cursor in names else 0
    shown = list(rows[begin : begin + PAGE])
    more = begin + PAGE < len(rows)
    return shown, names[begin + PAGE - 1] if more else ""


_Model = TypeVar("_Model", bound=Any)


def owned(rows: QuerySet[_Model], owner: str) -> QuerySet[_Model]:
    """Narrowed to what the team called ``owner`` answers for, or :data:`NOBODY`; empty: not narrowed."""
    if not owner:
        return rows
    return rows.filter(team=None) if owner == NOBODY else rows.filter(team__name=owner)
