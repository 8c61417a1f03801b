"""The duty that follows what operations made until it is known what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, F, Value, When

from engine.core.clock import Clock, SystemClock, to_datetime
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.services import record
from hbus_console.operations.models import ACTIVE, UNDECIDED, Operation, OperationItem, OperationPlace
from hbus_console.operations.outcomes import PATIENCE, Fate, Made, fates
from hbus_console.subjects import of_text

#: Items asked about in one question to the evidence.
PAGE = 500
#: Questions of one tick about one operation: beyond these it is looked at over several ticks.
PAGES = 4
#: A tick hands control back after so many seconds.
TICK_S = 1.0
#: What has not moved for ten minutes is looked at every ten seconds, and so on; never more seldom than this.
SELDOM_S = 30.0
#: Places that an operation is told to wait in; the others are counted with it.
MOST_PLACES = 50

Outcome = OperationItem.Outcome
State = Operation.State
#: The count of an operation that each final outcome adds to.
_COUNTED = {
    Outcome.SETTLED: "settled",
    Outcome.DEAD: "died",
    Outcome.UNHANDLED: "unhandled",
    Outcome.UNKNOWN: "unknown",
}


@dataclass
class _Look:
    """One look at all that an operation waits for."""

    began: datetime
    moved: bool = False
    #: What retries first: it never goes back to waiting, so that no item is met twice.
    stage: int = 0
    after: int = 0
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)


class OutcomeWatcher:
    """A keeper duty. Two watchers at once do no harm: an item's outcome is counted by the one that wrote it."""

    name = "operation-outcomes"
    interval_s = 1.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._looks: dict[int, _Look] = {}
        #: When each was last seen to move, and when it is to be looked at again, on the monotonic clock.
        self._moved: dict[int, float] = {}
        self._due: dict[int, float] = {}

    def tick(self) -> None:
        """Look on at every operation that has something undecided; a long one takes several ticks."""
        until = self._clock.monotonic() + TICK_S
        undecided = Operation.objects.filter(copies__gt=0, decided_at=None)
        waiting = {each.pk: each for each in undecided.order_by(F("looked_at").asc(nulls_first=True), "pk")}
        for known in (self._looks, self._moved, self._due):
            for gone in known.keys() - waiting.keys():
                del known[gone]
        for operation in waiting.values():
            if operation.active or self._due.get(operation.pk, 0.0) <= self._clock.monotonic():
                self._advance(operation)
            if self._clock.monotonic() >= until:
                break

    def _advance(self, operation: Operation) -> None:
        now = to_datetime(self._clock.now_ms())
        look = self._looks.setdefault(operation.pk, _Look(now))
        for _ in range(PAGES):
            items = _page(operation, look)
            if not items:
                del self._looks[operation.pk]
                self._rest(operation, look)
                _conclude(operation, look, now)
                return
            told = fates([_made(operation, item) for item in items])
            look.moved |= _write(operation, items, told, look)

    def _rest(self, operation: Operation, look: _Look) -> None:
        """The longer nothing has moved, the longer it may be until the next look."""
        now = self._clock.monotonic()
        if look.moved or operation.pk not in self._moved:
            self._moved[operation.pk] = now
        self._due[operation.pk] = now + min(SELDOM_S, (now - self._moved[operation.pk]) / 60)


def _page(operation: Operation, look: _Look) -> list[OperationItem]:
    """The next items that are undecided; none at the end."""
    while look.stage < len(UNDECIDED):
        found = operation.items.filter(outcome=UNDECIDED[look.stage], pk__gt=look.after).order_by("pk")
        if items := list(found[:PAGE]):
            look.after = items[-1].pk
            return items
        look.stage, look.after = look.stage + 1, 0
    return []


def _made(operation: Operation, item: OperationItem) -> Made:
    unseen = max(item.at, operation.looked_at) if operation.looked_at else item.at
    return Made(of_text(item.became), item.at, unseen, item.facets)


def _write(operation: Operation, items: Sequence[OperationItem], told: Sequence[Fate], look: _Look) -> bool:
    """Keep what is new, and add up in ``look`` what waits; ``True`` when anything had changed."""
    changed: dict[tuple[Outcome, str], list[int]] = {}
    for item, fate in zip(items, told, strict=True):
        if fate.outcome in UNDECIDED:
            look.waits[str(fate.place or ""), fate.outcome] += 1
        if (fate.outcome, fate.detail) != (item.outcome, item.outcome_detail):
            changed.setdefault((fate.outcome, fate.detail), []).append(item.pk)
    if not changed:
        return False
    with transaction.atomic():
        # Whoever else writes outcomes of it waits: what retries is counted of all that is written.
        Operation.objects.select_for_update().get(pk=operation.pk)
        added: Counter[str] = Counter()
        for (outcome, detail), numbers in changed.items():
            written = operation.items.filter(pk__in=numbers, outcome__in=UNDECIDED).update(
                outcome=outcome, outcome_detail=detail[:200]
            )
            if outcome in _COUNTED:
                added[_COUNTED[outcome]] += written
        more: Mapping[str, Any] = {name: F(name) + count for name, count in added.items()}
        # Together, so that nobody reads more that retries than still waits.
        Operation.objects.filter(pk=operation.pk).update(retrying=_retrying(operation), **more)
    return True


def _retrying(operation: Operation) -> int:
    return operation.items.filter(outcome=Outcome.RETRYING).count()


def _conclude(operation: Operation, look: _Look, now: datetime) -> None:
    """What the look found as a whole, and the end if that was the last of it."""
    with transaction.atomic():
        _tell_places(operation, look)
        Operation.objects.filter(pk=operation.pk).update(looked_at=look.began)
        operation.refresh_from_db()
        if operation.active or not (operation.waiting == 0 or _is_late(operation, now)):
            return
        # Of two watchers one ends it.
        ended = Operation.objects.filter(pk=operation.pk, decided_at=None).exclude(state__in=ACTIVE)
        state = Case(When(state=State.SETTLING, then=Value(State.DONE.value)), default=F("state"))
        if not ended.update(decided_at=now, state=state, revision=F("revision") + 1):
            return
        was = operation.state
        operation.refresh_from_db()
        record(
            SYSTEM,
            "operation.outcome",
            operation.subject,
            reason=operation.reason,
            before={"state": was},
            after={
                "state": operation.state,
                **outcome_counts(operation),
                "started_by": operation.actor,
                "started_in": operation.audit_seq,
            },
        )


def outcome_counts(operation: Operation) -> dict[str, int]:
    """What became of what ``operation`` made, as the audit log and the API tell it."""
    names = ("copies", "settled", "died", "unhandled", "unknown", "waiting", "retrying")
    return {name: getattr(operation, name) for name in names}


def _tell_places(operation: Operation, look: _Look) -> None:
    found: dict[str, dict[str, int]] = {}
    for (place, outcome), count in look.waits.items():
        if place:
            found.setdefault(place, {})["retrying" if outcome == Outcome.RETRYING else "waiting"] = count
    most = dict(sorted(found.items(), key=lambda each: -sum(each[1].values()))[:MOST_PLACES])
    # Also what waits and is not told by its name any more: it would keep the count that it had then.
    operation.places.exclude(waiting=0, retrying=0).exclude(place__in=list(most)).update(waiting=0, retrying=0)
    for place, counts in most.items():
        values = {"waiting": counts.get("waiting", 0), "retrying": counts.get("retrying", 0)}
        OperationPlace.objects.update_or_create(operation=operation, place=place, defaults=values)


def _is_late(operation: Operation, now: datetime) -> bool:
    return operation.ended_at is not None and now - operation.ended_at > PATIENCE
