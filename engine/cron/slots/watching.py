"""Runs that are done elsewhere: no worker begins them, pings tell of them, and what is not told in time ends them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from engine.cron.slots.job import JobPolicy
from engine.cron.slots.steps import RunRow, RunState

#: How the reason begins of a slot that nobody was heard of.
NO_PING = "no ping came until"
#: Likewise, of a run that began and whose end nobody heard of.
NO_END = "no end came within"


@dataclass(frozen=True, slots=True)
class Overdue:
    """As what a run ends that was not told of in time."""

    state: RunState
    reason: str


def overdue(row: RunRow, policy: JobPolicy, now_s: float, held: str = "") -> Overdue | None:
    """``row`` is claimed or running, and its work is done elsewhere; ``None`` while there is time left.

    A slot is told of by its end or its beginning, within the grace. Nobody is blamed for what is ``held`` by then.
    """
    if row.state is RunState.RUNNING:
        if not policy.timeout_s or now_s - row.changed_s <= policy.timeout_s:
            return None
        return Overdue(RunState.FAILED, f"{NO_END} {policy.timeout_s:,.0f} s")
    if now_s - row.slot <= policy.grace_s:
        return None
    until = datetime.fromtimestamp(round(row.slot + policy.grace_s), UTC)
    why = f"{NO_PING} {until:%Y-%m-%d %H:%M:%S} UTC"
    return Overdue(RunState.SKIPPED, f"{held}; {why}") if held else Overdue(RunState.ABANDONED, why)
