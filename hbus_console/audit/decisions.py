"""Decisions of people that the store carries out, which shares no transaction with the log.

The entry is written before the store is asked: neither an answer that is lost nor a process that dies leaves what was
done without a trace. What came to nothing, and what nobody knows the outcome of, is told by a second entry: also where
the process died, which is found out by what it has left open (:mod:`~.open_decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, transaction

from engine.core.error_text import text_of
from engine.core.errors import HbusError, OutcomeUnknown
from engine.core.store.failures import AnswerLost
from engine.core.subject import Subject
from hbus_console.access.context import RequestContext, bound
from hbus_console.access.permissions import Actor
from hbus_console.audit.models import CAME_TO_NOTHING, FOUND_DONE, OUTCOME_UNKNOWN, AuditEntry, OpenDecision
from hbus_console.audit.plain import as_stored
from hbus_console.audit.services import record
from hbus_console.audit.subjects import about

T = TypeVar("T")

#: So many entries of a subject are looked through for one that has no outcome.
LOOKED_THROUGH = 1_000
#: What to do about an act that finds out by itself whether it was done: see :func:`unanswered`.
_AGAIN = "Look at how it stands, or ask for the same again: if it was done you are told so, and it is not done twice."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StoreDecision:
    """What shall be done, as :func:`~hbus_console.audit.services.record` takes it."""

    actor: Actor
    action: str
    subject: Subject
    reason: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None

    @classmethod
    def told_by(cls, entry: AuditEntry, actor: Actor) -> StoreDecision:
        """As its entry tells it, for ``actor`` to tell of its outcome."""
        return cls(actor, entry.action, entry.subject, entry.reason, entry.before)


def carry_out(decision: StoreDecision, do: Callable[[], T], again: str = _AGAIN) -> T:
    """Write the entry, then have it done. Not inside a transaction, which would keep the entry until after the act.

    ``again``: what whoever gets no answer is to do, where that is something else.

    Raises what ``do`` raises, after a second entry that says what became of it; ``OutcomeUnknown`` for an answer that
    was lost.
    """
    with transaction.atomic(durable=True):
        entry = record(
            decision.actor,
            decision.action,
            decision.subject,
            reason=decision.reason,
            before=decision.before,
            after=decision.after,
        )
        OpenDecision.objects.create(seq=entry.seq, at=entry.at)
    try:
        answer = do()
    except OutcomeUnknown as error:
        _tell(decision, entry, OUTCOME_UNKNOWN, error.what)
        raise
    except AnswerLost as error:
        _tell(decision, entry, OUTCOME_UNKNOWN, error.what)
        raise OutcomeUnknown(f"Nobody knows whether it was done: {error.what}", remedy=again) from error
    except HbusError as error:
        _tell(decision, entry, CAME_TO_NOTHING, error.what)
        raise
    except Exception as error:
        _tell(decision, entry, OUTCOME_UNKNOWN, text_of(error))
        raise
    _close(decision.actor, entry)
    return answer


def names_of(actions: Iterable[str]) -> list[str]:
    """What the entries of these decisions, and of their outcomes, are called."""
    return [action + ending for action in actions for ending in ("", CAME_TO_NOTHING, OUTCOME_UNKNOWN, FOUND_DONE)]


def last_decision(
    subject: Subject,
    actions: Iterable[str],
    is_it: Callable[[AuditEntry], bool] = lambda entry: True,
    *,
    after: int | None = None,
) -> AuditEntry | None:
    """The newest entry of one of these decisions or of its outcome, among those that ``is_it`` takes; none of one that
    came to nothing. ``after``: all those behind the entry of this number are looked through."""
    found = AuditEntry.objects.filter(about(subject), action__in=names_of(actions)).order_by("-seq")
    found = found[:LOOKED_THROUGH] if after is None else found.filter(seq__gt=after)
    void: set[int] = set()
    for entry in found.iterator(chunk_size=50):
        if entry.action.endswith(CAME_TO_NOTHING):
            void.add((entry.after or {}).get("decision", 0))
        elif decision_number(entry) not in void and is_it(entry):
            return entry
    return None


def has_unanswered(subject: Subject, actor: Actor, action: str) -> bool:
    """Whether there is an entry, of any age, that nobody knows the outcome of ``actor``'s decision to do ``action``."""
    found = AuditEntry.objects.filter(about(subject), action=action + OUTCOME_UNKNOWN, actor=as_stored(actor.name))
    return found.exists()


def unanswered(entry: AuditEntry | None, actor: Actor, action: str) -> AuditEntry | None:
    """``entry``, if it says that nobody knows the outcome of ``actor``'s own decision to do ``action``: then asking for
    the same again is no second decision. What the repeat of a request did itself :mod:`hbus_console.audit.tries` tells.
    """
    ours = entry is not None and _is_by(entry, actor) and entry.action == action + OUTCOME_UNKNOWN
    return entry if ours else None


def decided_at(entry: AuditEntry) -> datetime:
    """When the decision was made that ``entry`` tells of, or the outcome of."""
    decision = AuditEntry.objects.filter(seq=decision_number(entry)).only("at").first()
    return entry.at if decision is None else decision.at


def decision_number(entry: AuditEntry) -> int:
    """The number of the decision that ``entry`` tells of, or the outcome of."""
    number: int = (entry.after or {}).get("decision", entry.seq)
    return number


def outcome_unknown(actor: Actor, entry: AuditEntry, why: str) -> None:
    """Write down that nobody knows the outcome of the decision that ``entry`` tells."""
    _tell(StoreDecision.told_by(entry, actor), entry, OUTCOME_UNKNOWN, why)


def found_done(actor: Actor, entry: AuditEntry, subject: Subject) -> None:
    """Write down that what ``entry`` did not know the outcome of had been done."""
    with transaction.atomic():
        record(
            actor,
            entry.action.removesuffix(OUTCOME_UNKNOWN) + FOUND_DONE,
            subject,
            reason=entry.reason,
            before=entry.before,
            after={"decision": decision_number(entry), "outcome": "it had been done"},
        )


def _is_by(entry: AuditEntry, actor: Actor) -> bool:
    return (entry.actor, entry.actor_kind) == (as_stored(actor.name), actor.kind)


def _close(actor: Actor, entry: AuditEntry) -> None:
    """It was done, as its entry says already; where it took so long that it was given up, the log says so now."""
    try:
        if not OpenDecision.objects.filter(seq=entry.seq).delete()[0]:
            found_done(actor, entry, entry.subject)
    except (DatabaseError, HbusError):
        # Who asked is told that it was done. The log will say that nobody knows.
        _log.exception("the outcome of a decision is not in the audit log", decision=entry.seq, outcome="it was done")


def given_up(seq: int, why: str) -> None:
    """Write down that nobody knows the outcome of that decision, unless somebody tells of it at this moment."""
    entry = AuditEntry.objects.filter(seq=seq).first()
    with transaction.atomic():
        is_open, _ = OpenDecision.objects.filter(seq=seq).delete()
        if is_open and entry is not None:
            decision = StoreDecision.told_by(entry, Actor(entry.actor, entry.actor_kind))
            # Of the request that decided it: whoever asks what became of that finds it.
            with bound(RequestContext(entry.request_id, entry.correlation_id)):
                _record_outcome(decision, entry, OUTCOME_UNKNOWN, why)


def _tell(decision: StoreDecision, entry: AuditEntry, ending: str, why: str) -> None:
    try:
        with transaction.atomic():
            OpenDecision.objects.filter(seq=entry.seq).delete()
            _record_outcome(decision, entry, ending, why)
    except (DatabaseError, HbusError):
        # Who asked is told what happened all the same, and the log will say that nobody knows.
        _log.exception("the outcome of a decision is not in the audit log", decision=entry.seq, outcome=ending)


def _record_outcome(decision: StoreDecision, entry: AuditEntry, ending: str, why: str) -> None:
    outcome = "nobody knows whether it was done" if ending == OUTCOME_UNKNOWN else "it was not done"
    record(
        decision.actor,
        decision.action + ending,
        decision.subject,
        reason=decision.reason,
        before=decision.before,
        after={"decision": entry.seq, "outcome": outcome, "why": why},
    )
