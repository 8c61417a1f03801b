"""The duty that advances operations: a step at a time, at their rate, each step whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.error_text import storable, text_of, words_of
from engine.core.errors import HbusError, Unavailable
from engine.core.pacing import Pace, Pacing, Together
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.services import record
from hbus_console.database import is_away
from hbus_console.operations.kinds import Step, Task, kind_named
from hbus_console.operations.models import UNDECIDED, Operation, OperationItem, OperationPlace
from hbus_console.operations.outcomes import tells
from hbus_console.operations.rights import permitted
from hbus_console.operations.starters import reach
from hbus_console.operations.watching import outcome_counts
from hbus_console.ui.formats import counted

#: Things of one step: few enough that its transaction holds nobody up.
STEP = 200
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 1.0
#: How much of its rate an operation may have saved up, in seconds.
BURST_S = 1.0
#: How often in a row a step may break for a reason nobody foresaw.
TRIES = 5

State = Operation.State
_log = structlog.get_logger(__name__)


class _Fenced(Exception):
    """Somebody paused, cancelled or advanced the operation meanwhile: the step is rolled back."""


class OperationRunner:
    """A keeper duty. Two runners at once do no harm: every step commits only at the revision it began from."""

    name = "operations"
    interval_s = 0.25

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._paces: dict[int, Pacing] = {}
        #: Of which kind each is that this one has advanced.
        self._kinds: dict[int, str] = {}
        self._tries: dict[int, int] = {}

    def tick(self) -> None:
        """Advance all operations in turns until nothing more may be done now."""
        until = self._clock.monotonic() + TICK_S
        moved = True
        while moved and self._clock.monotonic() < until:
            waiting = list(Operation.objects.filter(state__in=(State.QUEUED, State.RUNNING)).order_by("pk"))
            self._forget_all_but({operation.pk for operation in waiting})
            moved = sum(self._advance(operation) for operation in waiting) > 0

    def _forget_all_but(self, waiting: set[int]) -> None:
        """Whatever ended them: done, failed, cancelled by somebody or by another runner."""
        for ended in self._kinds.keys() - waiting:
            kind_named(self._kinds.pop(ended)).let_go(ended)
        for known in (self._paces, self._tries):
            for ended in known.keys() - waiting:
                del known[ended]

    def _advance(self, operation: Operation) -> bool:
        """One step, if its rate has room; ``True`` when there may be more at once."""
        try:
            return self._advanced(operation)
        except _Fenced:
            return False
        except Exception as error:  # noqa: BLE001 - a kind's own fault must not end the duty
            self._broke(operation, error)
            return False

    def _advanced(self, operation: Operation) -> bool:
        pacing = self._pacing(operation)
        room = pacing.take(min(STEP, _until_held(operation) or STEP))
        if room < 1:
            self._say_held(operation, pacing.why)
            return False
        went = 0
        try:
            step = self._step(operation, room)
            went = len(step.items)
        finally:
            pacing.give_back(room - went)
        self._tries.pop(operation.pk, None)
        # A step that found nothing to do yet, such as one that waits, is not repeated at once.
        return not step.finished and bool(step.items or step.scanned)

    def _broke(self, operation: Operation, error: Exception) -> None:
        """A step was not done, and left nothing behind."""
        if isinstance(error, Unavailable) or is_away(error):
            # It is tried again with the next tick.
            self._say(operation, words_of(error))
            return
        if isinstance(error, HbusError):
            self._fail(operation, words_of(error))
            return
        _log.error("a step of an operation broke", exc_info=error, operation=operation.pk, kind=operation.kind)
        self._tries[operation.pk] = self._tries.get(operation.pk, 0) + 1
        if self._tries[operation.pk] >= TRIES:
            self._fail(operation, text_of(error))
        else:
            self._say(operation, f"{text_of(error)}; it is tried again")

    def _pacing(self, operation: Operation) -> Pacing:
        """How many things it may touch now: by the rate that was asked for, and by what limits who started it."""
        if operation.pk not in self._paces:
            rate = operation.rate_per_s
            own = Pace(rate, self._clock, burst_s=BURST_S) if rate else None
            more = kind_named(operation.kind).pacing(operation.actor, operation.spec)
            self._paces[operation.pk] = Together([each for each in (own, more) if each is not None])
        return self._paces[operation.pk]

    def _step(self, operation: Operation, room: int) -> Step:
        now = to_datetime(self._clock.now_ms())
        kind = kind_named(operation.kind)
        self._kinds[operation.pk] = operation.kind
        task = Task(
            operation.pk,
            permitted(operation, now),
            reach(operation, kind.action),
            operation.spec,
            operation.cursor,
            f"operation {operation.pk}: {operation.reason}",
            operation.correlation_id,
        )
        # Whatever is asked of a store is asked before the transaction, which makes every other writer wait.
        do = kind.look(task, room)
        with transaction.atomic():
            step = do()
            OperationItem.objects.bulk_create(
                OperationItem(
                    operation=operation,
                    key=item.key,
                    kind=item.subject.kind,
                    namespace=item.subject.namespace,
                    name=item.subject.name,
                    result=item.result,
                    detail=storable(item.detail, 500),
                    facets=dict(item.facets),
                    became=str(item.became) if item.became else "",
                    outcome=OperationItem.Outcome.WAITING if tells(item.became) else "",
                    at=now,
                )
                for item in step.items
            )
            _keep_places(operation, step)
            tally = {result: sum(item.result == result for item in step.items) for result in OperationItem.Result}
            state = self._state_after(operation, step)
            self._write(
                operation,
                state=state,
                cursor=dict(step.cursor),
                done=F("done") + tally[OperationItem.Result.DONE],
                skipped=F("skipped") + tally[OperationItem.Result.SKIPPED],
                failed=F("failed") + tally[OperationItem.Result.FAILED],
                scanned=F("scanned") + step.scanned,
                copies=F("copies") + sum(tells(item.became) for item in step.items),
                note=(step.note or _of_the_rest(operation, step))[:500],
                last_error="",
                moved_at=now,
                started_at=operation.started_at or now,
                **(_sets_out(operation, step, now) if operation.state == State.QUEUED else {}),
                ended_at=now if step.finished else None,
            )
            if step.finished:
                self._record_end(operation)
            elif state == State.PAUSED:
                self._record_hold(operation)
        return step

    def _state_after(self, operation: Operation, step: Step) -> Operation.State:
        if not step.finished:
            left = _until_held(operation)
            return State.PAUSED if left and left == len(step.items) else State.RUNNING
        waits = operation.items.filter(outcome__in=UNDECIDED).exists()
        return State.SETTLING if waits else State.DONE

    def _fail(self, operation: Operation, why: str) -> None:
        now = to_datetime(self._clock.now_ms())
        try:
            with transaction.atomic():
                self._write(operation, state=State.FAILED, last_error=why, ended_at=now)
                self._record_end(operation)
        except _Fenced:
            return

    def _say_held(self, operation: Operation, why: str) -> None:
        """On its page, and in no log: it may be held for hours."""
        if why and operation.last_error != why:
            Operation.objects.filter(pk=operation.pk, revision=operation.revision).update(last_error=why)

    def _say(self, operation: Operation, why: str) -> None:
        _log.warning("an operation waits", operation=operation.pk, error=why)
        Operation.objects.filter(pk=operation.pk, revision=operation.revision).update(last_error=why)

    def _write(self, operation: Operation, **values: Any) -> None:
        found = Operation.objects.filter(
            pk=operation.pk, revision=operation.revision, state__in=(State.QUEUED, State.RUNNING)
        )
        if not found.update(revision=operation.revision + 1, **values):
            raise _Fenced

    def _record_hold(self, operation: Operation) -> None:
        held = Operation.objects.get(pk=operation.pk)
        record(
            SYSTEM,
            "operation.pause",
            held.subject,
            reason=f"the first {held.first:,} are done, and wait to be looked at",
            before={"state": State.RUNNING.value},
            after={"state": held.state, "done": held.done, "skipped": held.skipped, "failed": held.failed},
        )

    def _record_end(self, operation: Operation) -> None:
        ended = Operation.objects.get(pk=operation.pk)
        after: Mapping[str, Any] = {
            "state": ended.state,
            "done": ended.done,
            "skipped": ended.skipped,
            "failed": ended.failed,
            **(outcome_counts(ended) if ended.copies else {}),
            "started_by": ended.actor,
            "started_in": ended.audit_seq,
            **({"error": ended.last_error} if ended.last_error else {}),
        }
        record(
            SYSTEM,
            f"operation.{'fail' if ended.state == State.FAILED else 'end'}",
            ended.subject,
            reason=ended.reason,
            before={"state": State.RUNNING.value},
            after=after,
        )


def _until_held(operation: Operation) -> int:
    """How many more results until it holds itself; 0 when it does not, or has, or when no more than these are there."""
    left = operation.first - operation.handled
    if left <= 0 or 0 < operation.total <= operation.first:
        return 0
    return left


def _sets_out(operation: Operation, step: Step, now: datetime) -> dict[str, Any]:
    """From where its speed is counted. Of the first step nobody knows how long it took, and it may be a second's worth
    at once.
    """
    return {"went_at": now, "went_from": operation.handled + len(step.items)}


def _keep_places(operation: Operation, step: Step) -> None:
    places = {str(item.place) for item in step.items if item.place is not None}
    OperationPlace.objects.bulk_create(
        [OperationPlace(operation=operation, place=place) for place in sorted(places)], ignore_conflicts=True
    )


def _of_the_rest(operation: Operation, step: Step) -> str:
    """At the end: what was counted at the beginning and has no result, and as far as it is known, why."""
    missing = operation.total - operation.handled - len(step.items)
    if not step.finished or missing <= 0:
        return ""
    overtaken = min(missing, step.overtaken)
    said = []
    if overtaken:
        gone = counted(overtaken, "thing was", "things were")
        said.append(f"{gone} no longer there when it came to them: decided by others meanwhile.")
    if missing > overtaken:
        lost = counted(missing - overtaken, "thing was", "things were")
        said.append(f"{lost} not found any more, and nothing was done to what is not listed here.")
    return " ".join(said)
