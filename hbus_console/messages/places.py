"""For whoever takes rows of the ledger by their numbers, each once: how far it may go, and what it missed.

Whoever goes on says so before: it marks the end of the ledger as a place. Retention counts at each place what it lets
go of beyond it. So a reader that comes from one place to another, and looks at both in one snapshot with the rows
between them, knows how many are missing. A number is drawn before its row can be seen: on PostgreSQL a lower one may
come to light after a higher one, and :func:`wait_for_writers` waits for it. A row that waits to be published is left
aside, and taken when its :class:`~hbus_console.messages.models.LedgerRelease` comes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import connections, transaction
from django.db.models import Max, Min, Model, QuerySet

from engine.core.clock import Clock, SystemClock
from engine.core.errors import Unavailable
from hbus_console.database import in_batches, one_at_a_time
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.models import WAITS, LedgerEvent, LedgerMessage, LedgerPlace, LedgerRelease

LedgerRows = type[LedgerMessage] | type[LedgerEvent]

#: Of marking a place and of letting rows go, one at a time on PostgreSQL.
_ADVISORY_LOCK = 0x6862_7573_706C
#: How long whoever is writing is waited for, seconds, and how long between two looks.
PATIENCE_S = 20.0
_LOOK_S = 0.02
#: Who is writing to a table: each has its lock before it draws a number.
_WRITERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND granted AND mode = 'RowExclusiveLock'
        AND relation = to_regclass(%s) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class LedgerAt(NamedTuple):
    """A place: past the rows up to one number, and past so many releases; of events these are 0."""

    row_id: int
    release_id: int = 0


#: Before the first row.
BEGINNING = LedgerAt(0)


def end_of_ledger(model: LedgerRows) -> LedgerAt | None:
    """Its last row that can be seen; ``None`` while there is none."""
    last: int | None = model.objects.aggregate(last=Max("pk"))["last"]
    if last is None:
        return None
    released = LedgerRelease.objects.aggregate(last=Max("pk"))["last"] if model is LedgerMessage else 0
    return LedgerAt(last, released or 0)


def mark_end(model: LedgerRows) -> LedgerAt:
    """The same, as a place from now on: what is let go of beyond it is counted."""
    with _alone():
        end = end_of_ledger(model) or BEGINNING
        LedgerPlace.objects.get_or_create(table=_table(model), row_id=end.row_id, release_id=end.release_id)
    return end


def wait_for_writers(model: LedgerRows, clock: Clock | None = None) -> None:
    """Until everybody has ended who may have drawn a number before now, and may not have shown its row.

    Takes no lock: nobody waits for who waits here. Raises ``Unavailable`` after :data:`PATIENCE_S`.
    """
    connection, clock = connections[LEDGER], clock or SystemClock()
    if connection.vendor != "postgresql":
        # SQLite has one writer at a time, and numbers in its order.
        return
    before, started = _writers(model), clock.monotonic()
    while before & _writers(model):
        if clock.monotonic() - started > PATIENCE_S:
            raise Unavailable(
                "A transaction has been writing to the ledger for long, and what it wrote is not to be passed by.",
                remedy="Look for an idle one in pg_stat_activity. The next run tries again.",
            )
        clock.wait(threading.Event(), _LOOK_S)


def let_go_beyond(model: LedgerRows, at: LedgerAt) -> Mapping[str, int] | None:
    """By topic, how many rows beyond that place the ledger has let go of; ``None``: it knows no such place."""
    found: Mapping[str, int] | None = (
        LedgerPlace.objects.filter(table=_table(model), row_id=at.row_id, release_id=at.release_id)
        .values_list("let_go", flat=True)
        .first()
    )
    return found


def places_known(model: LedgerRows) -> set[LedgerAt]:
    """All that are marked."""
    known = LedgerPlace.objects.filter(table=_table(model)).values_list("row_id", "release_id")
    return {LedgerAt(*at) for at in known}


def forget_places(model: LedgerRows, passed: LedgerAt, held: Collection[LedgerAt]) -> None:
    """Those that everybody is past, but for the ones that are ``held`` while the ledger still reaches back to them."""
    with _alone():
        first: int = model.objects.aggregate(first=Min("pk"))["first"] or 0
        known = LedgerPlace.objects.filter(
            table=_table(model), row_id__lte=passed.row_id, release_id__lte=passed.release_id
        )
        at = {pk: LedgerAt(*place) for pk, *place in known.values_list("pk", "row_id", "release_id")}
        old = [pk for pk, place in at.items() if place != passed and (place not in held or place.row_id < first)]
        for part in in_batches(old):
            LedgerPlace.objects.filter(pk__in=part).delete()


def let_go(rows: QuerySet[LedgerMessage] | QuerySet[LedgerEvent]) -> int:
    """Delete ``rows`` and count them at the places they lie beyond; returns how many they were."""
    model = rows.model
    with _alone():
        places = list(LedgerPlace.objects.filter(table=_table(model)))
        if not places or _are_passed(rows, places):
            return _delete(rows)
        # Locked, so that none is changed, nor another one added, between being counted and being deleted.
        found: list[tuple[int, str]] = list(rows.select_for_update().order_by("pk").values_list("pk", "topic"))
        if model is LedgerMessage:
            _count(places, found, set(rows.filter(WAITS).values_list("pk", flat=True)), _releases(found))
        else:
            _count(places, found, (), {})
        return sum(_delete(model.objects.filter(pk__in=part)) for part in in_batches([pk for pk, _ in found]))


def _are_passed(rows: QuerySet[Any], places: Sequence[LedgerPlace]) -> bool:
    """Whether none lies beyond any place: so it is unless somebody has fallen behind."""
    last: int = rows.aggregate(last=Max("pk"))["last"] or 0
    if last > min(place.row_id for place in places):
        return False
    if rows.model is not LedgerMessage:
        return True
    # Locked, so that none of these is published between this look and its end.
    list(rows.filter(WAITS).select_for_update().values_list("pk"))
    released = LedgerRelease.objects.filter(pk__gt=min(place.release_id for place in places), row_id__lte=last)
    return not released.exists()


def _count(
    places: Sequence[LedgerPlace], found: Sequence[tuple[int, str]], waiting: Collection[int], released: dict[int, int]
) -> None:
    last, last_release = max((pk for pk, _ in found), default=0), max(released.values(), default=0)
    for place in places:
        if last <= place.row_id and last_release <= place.release_id:
            continue
        gone = Counter(
            topic
            for pk, topic in found
            # What waits is no loss: it is booked anew when it is published.
            if (pk > place.row_id and pk not in waiting) or released.get(pk, 0) > place.release_id
        )
        if gone:
            place.let_go = dict(Counter(place.let_go) + gone)
            place.save(update_fields=["let_go"])


def _releases(found: Sequence[tuple[int, str]]) -> dict[int, int]:
    if not found:
        return {}
    releases = LedgerRelease.objects.filter(row_id__gte=found[0][0], row_id__lte=found[-1][0])
    return dict(releases.values_list("row_id", "pk"))


def _delete(rows: QuerySet[Any]) -> int:
    if rows.model is LedgerMessage:
        LedgerRelease.objects.filter(row_id__in=rows.order_by().values("pk")).delete()
    return rows.delete()[0]


def _writers(model: LedgerRows) -> set[str]:
    with connections[LEDGER].cursor() as cursor:
        cursor.execute(_WRITERS, [model._meta.db_table])
        return {name for (name,) in cursor.fetchall()}


def _table(model: type[Model]) -> str:
    name = model._meta.model_name
    assert name is not None
    return name


@contextmanager
def _alone() -> Iterator[None]:
    """A transaction on the ledger in which nobody else marks a place, or lets rows go."""
    with transaction.atomic(using=LEDGER):
        one_at_a_time(_ADVISORY_LOCK, connections[LEDGER])
        yield
