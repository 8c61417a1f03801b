"""What became of what a request did, as its audit entries tell together.

An entry is written with its act and proves it. One of a decision is written before its act
(:mod:`hbus_console.audit.decisions`): what a second entry says of the outcome is heeded instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from hbus_console.audit.models import CAME_TO_NOTHING, FOUND_DONE, OUTCOME_UNKNOWN, REFUSED, AuditEntry


class ActOutcome(Enum):
    """What an act came to, or the last that is known of it."""

    #: Its entry has no outcome: done, or, where entries precede their acts, begun at least.
    WRITTEN = "written"
    DONE = "done"
    UNKNOWN = "unknown"
    NOTHING = "nothing"


_ENDINGS = {CAME_TO_NOTHING: ActOutcome.NOTHING, OUTCOME_UNKNOWN: ActOutcome.UNKNOWN, FOUND_DONE: ActOutcome.DONE}


def outcomes(entries: Iterable[AuditEntry]) -> dict[int, ActOutcome]:
    """Number of each act's first entry → what became of it. What was refused is no act."""
    found: dict[int, ActOutcome] = {}
    for entry in sorted(entries, key=lambda each: each.seq):
        if entry.action.endswith(REFUSED):
            continue
        became = _ENDINGS.get(entry.action[entry.action.rfind(".") :], ActOutcome.WRITTEN)
        # Some acts write nothing before they are done, and then that nobody knows: that entry is their first.
        decision = (entry.after or {}).get("decision") if became is not ActOutcome.WRITTEN else None
        found[decision if isinstance(decision, int) else entry.seq] = became
    return found
