"""Who held, resumed or cancelled an operation last, as the audit log tells it."""

from __future__ import annotations

from collections.abc import Sequence

from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import stored
from hbus_console.operations.models import Operation

_STEERED = {
    "operation.pause": "paused",
    "operation.resume": "resumed",
    "operation.cancel": "cancelled",
}
State = Operation.State
#: What stands beside a state in a list: where nothing goes on, by whom it was stopped.
_STOPPED = {State.PAUSED: "paused", State.CANCELLED: "cancelled"}


def steered(operation: Operation) -> tuple[str, AuditEntry] | None:
    """What was done to it last and the entry that says by whom, when and why; ``None`` where nobody did anything."""
    entry = _last([operation]).get(operation.pk)
    return (_STEERED[entry.action], entry) if entry is not None else None


def stopped(operations: Sequence[Operation]) -> dict[int, AuditEntry]:
    """The entries of those that are held or cancelled, by their ids: one query."""
    still = [each for each in operations if each.state in _STOPPED]
    found = _last(still)
    return {
        each.pk: found[each.pk]
        for each in still
        if each.pk in found and _STEERED[found[each.pk].action] == _STOPPED[State(each.state)]
    }


def by_whom(operation: Operation) -> str:
    """``olga cancelled it: “too loud”.``; empty where nobody stopped it."""
    entry = stopped([operation]).get(operation.pk)
    if entry is None:
        return ""
    who = "It" if entry.actor_kind == SYSTEM.kind else entry.actor
    what = "held itself" if who == "It" else f"{_STEERED[entry.action]} it"
    return f"{who} {what}: “{entry.reason}”." if entry.reason else f"{who} {what}."


def _last(operations: Sequence[Operation]) -> dict[int, AuditEntry]:
    if not operations:
        return {}
    numbers = {stored(each.subject).target: each.pk for each in operations}
    kind = stored(operations[0].subject).target_type
    rows = AuditEntry.objects.filter(target_type=kind, target__in=numbers, action__in=_STEERED)
    # The last one of each stays.
    return {numbers[entry.target]: entry for entry in rows.order_by("seq")}
