"""What is told of runs: beside their rows, which are kept, what they add up to."""

from __future__ import annotations

from engine.core.clock import Clock
from engine.core.facts import FactBatch, Fields, Numbers
from engine.cron.slots.steps import RunState
from engine.cron.subjects import job_subject


class RunFields(Fields, frozen=True, array_like=True, gc=False):
    """What a fact of a run has beside what all facts have. Its subject is the job."""

    #: From its beginning to its end, in microseconds; 0 where it never began.
    duration_us: Numbers = 0
    #: From when it was to begin to its first beginning; 0 where there is no such time: of a further attempt, and of
    #: what a ping began beside all slots.
    late_us: Numbers = 0


#: The kind of fact that tells of an end.
_KINDS = {
    RunState.DONE: "run_done",
    RunState.FAILED: "run_failed",
    RunState.LOST: "run_lost",
    RunState.ABANDONED: "run_abandoned",
    RunState.CANCELLED: "run_cancelled",
    RunState.SKIPPED: "slot_skipped",
    RunState.CLAIMED: "run_tried_again",
}


def begun_fact(job: str, clock: Clock, node: str, late_us: int | None) -> FactBatch:
    """A run began, ``late_us`` after it was to, or before; ``None`` where there is no such time to tell."""
    # What began at its very time is measured as well, and 0 says that nothing is.
    fields = RunFields(late_us=0 if late_us is None else max(1, late_us))
    return FactBatch("run_begun", clock.now_ms(), job_subject(job), node, fields=fields)


def ended_fact(job: str, state: RunState, clock: Clock, node: str, duration_us: int = 0) -> FactBatch | None:
    """What became of a run; ``None`` while nothing has."""
    if state not in _KINDS:
        return None
    fields = RunFields(duration_us=max(0, duration_us))
    return FactBatch(_KINDS[state], clock.now_ms(), job_subject(job), node, fields=fields)


def skipped_fact(job: str, count: int, clock: Clock, node: str) -> FactBatch:
    """Slots of a job were skipped, each with a row that says why."""
    return FactBatch("slot_skipped", clock.now_ms(), job_subject(job), node, count)
