"""Tells facts of what a node decides: around the places that its steps go to."""

from __future__ import annotations

from typing import Any

from engine.core.clock import Clock, SystemClock
from engine.core.facts import Emitter
from engine.cron.facts import ended_fact, skipped_fact
from engine.cron.slots.driving import Act
from engine.cron.slots.steps import GiveUp, Opened, OpenRuns, Step


def telling(act: Act, facts: Emitter, node: str, clock: Clock | None = None) -> Act:
    """``act``, which also tells of slots that are skipped and of runs that are given up."""
    clock = clock or SystemClock()

    def tell(step: Step) -> Any:
        answer = act(step)
        if isinstance(step, OpenRuns):
            _tell_skipped(step, answer)
        elif isinstance(step, GiveUp) and answer:
            ended = ended_fact(step.seen.job, step.state, clock, node)
            facts.emit([ended] if ended else [])
        return answer

    def _tell_skipped(step: OpenRuns, opened: Opened) -> None:
        moved = {cursor.job for cursor in opened.cursors}
        counts = {
            each.cursor.job: sum(bool(decision.skipped) for decision in each.decisions)
            for each in step.openings
            if each.cursor.job in moved
        }
        told = [skipped_fact(job, count, clock, node) for job, count in counts.items() if count]
        if told:
            facts.emit(told)

    return tell
