"""Which dead letters an unfinished operation already has: one that is begun later leaves them to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import BigIntegerField, Q, QuerySet
from django.db.models.functions import Cast

from engine.core.clock import SystemClock, to_datetime
from engine.core.errors import Conflict
from hbus_console.access.permissions import GLOBAL
from hbus_console.deadletters.groups import LetterFilters
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations.kinds import Taken, kind_named
from hbus_console.operations.models import ACTIVE, Operation, OperationItem
from hbus_console.operations.rights import goes_on
from hbus_console.operations.starters import reach
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


def within(scopes: Sequence[str]) -> Q:
    """Letters in what an operation reaches. A topic that it names is reached also when it is there no more."""
    if GLOBAL in scopes:
        return Q()
    named = [scope for scope in scopes if not scope.endswith("*")]
    return Q(topic__in=named) | topic_filter([scope for scope in scopes if scope not in named])


def overtaken(found: QuerySet[DeadLetter], operation_id: int) -> int:
    """How many of the letters ``found`` somebody decided since the operation began, and not it."""
    began = Operation.objects.filter(pk=operation_id).values_list("created_at", flat=True).first()
    own = OperationItem.objects.filter(operation=operation_id).annotate(letter=Cast("key", BigIntegerField()))
    decided = found.exclude(state=DeadLetter.State.DEAD).filter(decided_at__gte=began)
    return decided.exclude(pk__in=own.values("letter")).count()


def left(found: QuerySet[DeadLetter]) -> list[dict[str, int]]:
    """What unfinished operations have of the letters ``found``, as a spec keeps it: up to here, whatever comes of them.

    An operation that is cancelled later gives nothing back to one whose dry run had left it out.
    """
    told: list[dict[str, int]] = []
    for each in Operation.objects.filter(kind__in=_KINDS, state__in=ACTIVE).order_by("pk"):
        if not goes_on(each, to_datetime(_clock.now_ms())):
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
    reached = within(reach(its, kind_named(its.kind).action))
    return reached & _choice(its.spec, room) & Q(pk__gt=entry["after"])
