"""Operations and their results as lists and as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any

from django.db.models import QuerySet

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import cursors
from hbus_console.access.permissions import Actor
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness
from hbus_console.operations import services
from hbus_console.operations.kinds import kind_named
from hbus_console.operations.models import Operation, OperationItem, OperationPlace
from hbus_console.operations.outcomes import PATIENCE, holdings
from hbus_console.ui.formats import duration, num

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


#: Places whose waiting is told one by one.
_NAMED = 3


def held_itself(operation: Operation) -> bool:
    """Whether it waits for somebody to look at what became of its first few."""
    return operation.state == Operation.State.PAUSED and 0 < operation.first == operation.handled


def sentences(operations: Sequence[Operation], booked: Freshness) -> dict[int, str]:
    """What became of what each of them published, in words, by their ids: a fixed number of queries. ``booked``: of
    when the facts are that this is known from.

    Empty for one that published nothing: "copied; 22 settled, 105 wait behind the open breaker of billing".
    """
    places: dict[int, list[OperationPlace]] = {}
    told = [each for each in operations if each.copies]
    waiting = [each.pk for each in told if each.waiting]
    for place in OperationPlace.objects.filter(operation__in=waiting).exclude(waiting=0, retrying=0):
        places.setdefault(place.operation_id, []).append(place)
    held = holdings({place.subject for each in places.values() for place in each})
    return {each.pk: _sentence(each, places.get(each.pk, []), held, booked) for each in told}


def _sentence(
    operation: Operation, places: Sequence[OperationPlace], held: Mapping[Subject, str], booked: Freshness
) -> str:
    known = [
        (operation.settled, "settled"),
        (operation.died, kind_named(operation.kind).died),
        (operation.unhandled, "ended unhandled"),
        (operation.unknown, "cannot be known"),
    ]
    said = [f"{num(count)} {words}" for count, words in known if count]
    if operation.decided_at is not None:
        if operation.waiting:
            said.append(f"{num(operation.waiting)} not decided after {PATIENCE.days} days")
        return ", ".join(said)
    if booked.known:
        said += _waits(operation, places, held)
    elif operation.waiting:
        said.append(f"what became of {num(operation.waiting)} is {booked.why}")
    return f"{'copied; ' if operation.state == Operation.State.SETTLING else ''}{', '.join(said)}"


def _waits(operation: Operation, places: Sequence[OperationPlace], held: Mapping[Subject, str]) -> list[str]:
    most = sorted(places, key=lambda place: -(place.waiting + place.retrying))
    stuck = [place for place in most if place.subject in held][:_NAMED]
    said, rest = [], operation.waiting
    for place in stuck:
        # Places are counted once a look has met everything, and some of it may be decided since.
        if count := min(rest, place.waiting + place.retrying):
            said.append(f"{num(count)} {'waits' if count == 1 else 'wait'} {held[place.subject]}")
        rest -= count
    if retrying := min(rest, operation.retrying, sum(place.retrying for place in most if place not in stuck)):
        said.append(f"{num(retrying)} {'is' if retrying == 1 else 'are'} retrying")
    if rest := rest - retrying:
        said.append(f"{num(rest)} {'waits' if rest == 1 else 'wait'} to be handled")
    return said


@dataclass(frozen=True)
class Reached:
    """An operation that reached something, and what became of what it published, in words."""

    operation: Operation
    outcome: str


def reached_by(actor: Actor, place: Subject, most: int, now_ms: int) -> list[Reached]:
    """The newest operations that reached ``place``, of those that ``actor`` may see."""
    found = list(services.operations(actor).filter(places__place=str(place)).order_by("-pk")[:most])
    told = sentences(found, freshness.facts(now_ms))
    return [Reached(each, told.get(each.pk, "")) for each in found]


def that_made(actor: Actor, subject: Subject) -> Operation | None:
    """The operation that made ``subject``, if one did that ``actor`` may see."""
    made = OperationItem.objects.filter(became=str(subject)).values_list("operation", flat=True)
    return services.operations(actor).filter(pk__in=made[:1]).first()


def at_rate(total: int | None, rate_per_s: int) -> str:
    """How long that takes: ``about 6 s``; empty where nobody knows."""
    if not rate_per_s or not total:
        return ""
    return f"about {duration(round(max(1.0, total / rate_per_s)) * 1_000_000)}"


def page(found: QuerySet[Operation], state: str, cursor: str) -> OperationPage:
    """Operations, newest first."""
    if state:
        _known(state, Operation.State.values, "state")
        found = found.filter(state=state)
    if cursor:
        found = found.filter(cursors.beyond(_place(cursor)))
    return _page(found.order_by("-pk")[: PAGE + 1])


def items(found: QuerySet[OperationItem], result: str, cursor: str, outcome: str = "") -> OperationPage:
    """Results, newest first."""
    if result:
        _known(result, OperationItem.Result.values, "result")
        found = found.filter(result=result)
    if outcome:
        _known(outcome, OperationItem.Outcome.values, "outcome")
        found = found.filter(outcome=outcome)
    if cursor:
        found = found.filter(cursors.beyond(_place(cursor)))
    return _page(found.order_by("-pk")[: PAGE + 1])


def pace(operation: Operation) -> Speed:
    """Since it was begun or last resumed, up to the last step: how long it was held says nothing of its speed."""
    if operation.went_at is None or operation.moved_at is None:
        return Speed(None, None)
    seconds = (operation.moved_at - operation.went_at).total_seconds()
    handled = operation.handled - operation.went_from
    if seconds <= 0 or handled <= 0:
        return Speed(None, None)
    # Of the first few the first took no time.
    per_s = min(handled / seconds, operation.rate_per_s or inf)
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
