"""Which dead letters an unfinished operation already has: one that is begun later leaves them to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import BigIntegerField, Q, QuerySet
from django.db.models.functions import Cast

from engine.core.clock import SystemClock, to_datetime
from engine.core.errors import Conflict
from hbus_console.access.permissions import Forbidden
from hbus_console.deadletters.groups import LetterFilters
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations.kinds import Taken, kind_named
from hbus_console.operations.models import ACTIVE, Operation, OperationItem
from hbus_console.operations.starters import acting, reach
from hbus_console.topics.scopes import topic_filter

FILTERS = ("topic", "subscription", "owner", "cause", "fingerprint")
_KINDS = ("redrive", "discard")
_UNDECIDED = (OperationItem.Outcome.WAITING, OperationItem.Outcome.RETRYING)
#: So many choices may stand inside each other: each is a part of every query of the operation.
_MOST = 40
_clock = SystemClock()


def choice(spec: Mapping[str, Any]) -> Q:
    """The letters that a checked spec chooses, whatever became of them and whoever may see them."""
    return _choice(spec, [_MOST])


def left(found: QuerySet[DeadLetter]) -> list[dict[str, int]]:
    """What unfinished operations have of the letters ``found``, as a spec keeps it: up to here, whatever comes of them.

    An operation that is cancelled later gives nothing back to one whose dry run had left it out.
    """
    told: list[dict[str, int]] = []
    for each in Operation.objects.filter(kind__in=_KINDS, state__in=ACTIVE).order_by("pk"):
        if not _goes_on(each):
            continue
        entry = {"operation": each.pk, "after": int(each.cursor.get("after", 0))}
        its = _of(entry, [_MOST])
        # Each letter counts once, for the operation that comes to it first.
        if letters := found.filter(its).count():
            told.append({**entry, "letters": letters})
            found = found.exclude(its)
    return told


def taken(spec: Mapping[str, Any]) -> list[Taken]:
    """What ``spec`` leaves to others, as a dry run tells it."""
    counts = {each["operation"]: each["letters"] for each in spec.get("left_to", ())}
    return [Taken(each, counts[each.pk]) for each in Operation.objects.filter(pk__in=counts).order_by("pk")]


def undecided(found: QuerySet[DeadLetter]) -> list[Taken]:
    """Of ``found``, whatever became of them, what was redriven and nobody knows yet what will come of it."""
    told = []
    for each in Operation.objects.filter(kind="redrive", state=Operation.State.SETTLING).order_by("pk"):
        waiting = each.items.filter(outcome__in=_UNDECIDED).annotate(letter=Cast("key", BigIntegerField()))
        redriven = found.filter(state=DeadLetter.State.REDRIVEN, pk__in=waiting.values("letter"))
        if letters := redriven.count():
            told.append(Taken(each, letters))
    return told


def _choice(spec: Mapping[str, Any], room: list[int]) -> Q:
    room[0] -= 1
    if room[0] < 0:
        raise Conflict(
            "Too many unfinished operations share these letters.", remedy="End some of them first.", field="spec"
        )
    upto = Q(pk__lte=spec["upto"])
    if "letters" in spec:
        found = Q(pk__in=spec["letters"]) & upto
    else:
        found = LetterFilters(**{name: spec[name] for name in FILTERS if spec.get(name)}).narrowed & upto
    for each in spec.get("left_to", ()):
        found &= ~_of(each, room)
    return found


def _of(entry: Mapping[str, int], room: list[int]) -> Q:
    its = Operation.objects.filter(pk=entry["operation"]).first()
    if its is None:
        return Q(pk__in=[])
    within = topic_filter(reach(its, kind_named(its.kind).action))
    return within & _choice(its.spec, room) & Q(pk__gt=entry["after"])


def _goes_on(operation: Operation) -> bool:
    try:
        acting(operation, to_datetime(_clock.now_ms()))
    except Forbidden:
        # Its next step fails: it will never come to them.
        return False
    return True
