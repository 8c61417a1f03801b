"""What the repeat of a request finds of its own earlier tries, and of who has decided since.

The newest decision about a subject says nothing of that: it may be another's, or another of the same person's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.subject import Subject
from hbus_console.access.context import current
from hbus_console.access.permissions import Actor
from hbus_console.audit.decisions import decision_number, last_decision, names_of
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.outcomes import ActOutcome, outcomes
from hbus_console.audit.plain import as_stored
from hbus_console.audit.subjects import about
from hbus_console.ui.formats import instant


@dataclass(frozen=True)
class EarlierTry:
    """What a try before this one decided. Nobody knows whether it was done, unless it is known to be."""

    decision: AuditEntry
    done: bool

    @property
    def before(self) -> Mapping[str, Any]:
        """How it stood when that was decided."""
        return self.decision.before or {}


def own_try(subject: Subject, actor: Actor, action: str) -> EarlierTry | None:
    """What an earlier try of the request at hand decided about ``subject``, and may have done.

    ``None`` where the request is no repeat, where none of its tries came to a decision, and where what they decided
    came to nothing: then it is decided as if it were new.
    """
    if not (tries := current().repeated):
        return None
    entries = AuditEntry.objects.filter(about(subject))
    own = list(
        entries.filter(
            action=action, actor=as_stored(actor.name), actor_kind=actor.kind, request_id__in=tries
        ).order_by("-seq")
    )
    if not own:
        return None
    # Who finds out may be another request, by another key.
    became = outcomes(entries.filter(action__in=names_of([action]), seq__gte=own[-1].seq))
    for entry in own:
        if became[entry.seq] is ActOutcome.DONE:
            return EarlierTry(entry, True)
    return next((EarlierTry(entry, False) for entry in own if became[entry.seq] is not ActOutcome.NOTHING), None)


def decided_since(
    tried: EarlierTry, actions: Iterable[str], is_it: Callable[[AuditEntry], bool] = lambda entry: True
) -> AuditEntry | None:
    """The newest of these decisions that anybody made after that one about the same, under another key, or its
    outcome. None that came to nothing."""
    number = tried.decision.seq
    # What is told of a decision comes after it, and may come after others.
    return last_decision(
        tried.decision.subject, actions, lambda entry: decision_number(entry) > number and is_it(entry), after=number
    )


def decided_for(entry: AuditEntry, actions: Mapping[str, str]) -> str:
    """Which of these acts, each with the name of its decision, ``entry`` tells of, or of its outcome."""
    return next((act for act, action in actions.items() if entry.action.startswith(action)), "")


def has_decided(entry: AuditEntry, about_what: str, what: str) -> str:
    """How it is told that somebody decided ``what`` since: who, and when."""
    return f"{entry.actor} has decided about {about_what} since ({what}, at {instant(entry.at):%d %b %H:%M})"
