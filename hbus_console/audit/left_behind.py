"""Whether a request was done whose answer was lost: by what the audit log has of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import QuerySet

from hbus_console.access.permissions import Actor
from hbus_console.audit.decisions import names_of, outcome_unknown
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.outcomes import ActOutcome, outcomes
from hbus_console.audit.subjects import about

#: How far a clock may have been set back while the request was at work.
_STEP = timedelta(hours=1)


def left_entry(actor: str, request_id: str, since: datetime) -> bool:
    """Whether ``actor`` did something in that request, or may have. What was refused or came to nothing is nothing."""
    became = outcomes(_entries(actor, [request_id], since)).values()
    return any(each is not ActOutcome.NOTHING for each in became)


def note_unanswered(actor: Actor, request_ids: Sequence[str], since: datetime) -> None:
    """Write down that nobody knows the outcome of what ``actor`` decided in those requests, which were not answered.

    Without it the repeat would take the decision for one that was carried out, and itself for another.
    """
    entries = {entry.seq: entry for entry in _entries(actor.name, request_ids, since)}
    for decision, became in outcomes(entries.values()).items():
        if became is ActOutcome.WRITTEN and _is_untold(entries[decision]):
            outcome_unknown(actor, entries[decision], "its request was not answered")


def _is_untold(decision: AuditEntry) -> bool:
    """Whether nobody has told of its outcome, in whatever request."""
    told = AuditEntry.objects.filter(
        about(decision.subject), action__in=names_of([decision.action]), seq__gte=decision.seq
    )
    return outcomes(told)[decision.seq] is ActOutcome.WRITTEN


def _entries(actor: str, request_ids: Sequence[str], since: datetime) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(actor=actor, request_id__in=request_ids, at__gte=since - _STEP)
