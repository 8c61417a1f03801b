"""Operations and their results as lists and as figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from engine.core.errors import BadInput
from hbus_console import cursors
from hbus_console.operations.models import Operation, OperationItem

PAGE = 50


@dataclass(frozen=True)
class OperationPage:
    """Rows, and the cursor of the next page; empty at the end."""

    rows: Sequence[Any]
    next_cursor: str


@dataclass(frozen=True)
class Speed:
    """How fast it goes, and when it will have ended; ``None`` while nobody knows."""

    per_s: float | None
    left: timedelta | None


def page(found: QuerySet[Operation], state: str, cursor: str) -> OperationPage:
    """Operations, newest first."""
    if state:
        _known(state, Operation.State.values, "state")
        found = found.filter(state=state)
    if cursor:
        found = found.filter(cursors.beyond(_place(cursor)))
    return _page(found.order_by("-pk")[: PAGE + 1])


def items(found: QuerySet[OperationItem], result: str, cursor: str) -> OperationPage:
    """Results, newest first."""
    if result:
        _known(result, OperationItem.Result.values, "result")
        found = found.filter(result=result)
    if cursor:
        found = found.filter(cursors.beyond(_place(cursor)))
    return _page(found.order_by("-pk")[: PAGE + 1])


def pace(operation: Operation, now: datetime) -> Speed:
    """From the start to the last step."""
    if operation.started_at is None:
        return Speed(None, None)
    until = operation.ended_at or operation.moved_at or now
    seconds = (until - operation.started_at).total_seconds()
    if seconds <= 0 or not operation.handled:
        return Speed(None, None)
    per_s = operation.handled / seconds
    rest = operation.total - operation.handled
    left = timedelta(seconds=rest / per_s) if operation.state == Operation.State.RUNNING and rest > 0 else None
    return Speed(per_s, left)


def _page(found: QuerySet[Any]) -> OperationPage:
    rows, last = cursors.cut(found, PAGE)
    return OperationPage(rows, cursors.written(last.pk) if last else "")


def _known(value: str, values: Sequence[str], field: str) -> None:
    if value not in values:
        raise BadInput(f"{value[:20]!r} is no {field}.", remedy=f"Use one of {', '.join(values)}.", field=field)


def _place(cursor: str) -> dict[str, object]:
    (number,) = cursors.read(cursor, 1)
    return {"-pk": number}
