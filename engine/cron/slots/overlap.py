"""What becomes of a run that is to begin while others of its job run: a pure function of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cron.slots.job import JobPolicy, Overlap
from engine.cron.slots.steps import Beginning, RunRow, RunState

RUNS = "another run of the job was running"
RUNS_AND_WAITS = f"{RUNS}, and one waited already"
#: Of those that wait for room under a tag, so many jobs' oldest runs are offered when there is some.
MOST_TAGGED = 8
NEWER = "a newer run of the job was running, or waited"
#: Said of the runs that make room for a newer one.
REPLACED = "a newer run of the job waits in its place"
STOPPED = "a newer run of the job took its place"


@dataclass(frozen=True, slots=True)
class OverlapVerdict:
    """Whether a run begins, and what becomes of others by that."""

    beginning: Beginning
    #: Why it ends without having begun, where it does.
    ends: str = ""
    #: Runs that are asked to stop, for :data:`STOPPED`.
    cancelled: tuple[int, ...] = ()
    #: Runs that waited and end now, for :data:`REPLACED`.
    replaced: tuple[RunRow, ...] = ()


def judged_overlap(run: RunRow, others: Sequence[RunRow], policy: JobPolicy) -> OverlapVerdict:
    """``others``: the other runs of the job that are running, and those that were told to wait."""
    others = [other for other in others if policy.meet(run.part, other.part)]
    running = [other for other in others if other.state is RunState.RUNNING]
    waiting = [other for other in others if other.waits]
    if not policy.limit or len(running) < policy.limit:
        return OverlapVerdict(Beginning.BEGUN)
    match policy.overlap:
        case Overlap.SKIP:
            return OverlapVerdict(Beginning.REFUSED, RUNS)
        case Overlap.QUEUE if waiting and not run.waits:
            return OverlapVerdict(Beginning.REFUSED, RUNS_AND_WAITS)
        case Overlap.CANCEL if any((other.slot, other.id) > (run.slot, run.id) for other in others):
            return OverlapVerdict(Beginning.REFUSED, NEWER)
        case Overlap.CANCEL:
            return OverlapVerdict(Beginning.WAITS, "", tuple(other.id for other in running), tuple(waiting))
    return OverlapVerdict(Beginning.WAITS)


def not_begun(run: RunRow, state: RunState, why: str) -> tuple[RunState, str]:
    """As what a claimed run ends that nobody begins (any more), and its reason: ``state`` is for the first attempt."""
    # A run that began once has neither been skipped nor left alone.
    return (state, why) if run.last_end is None else (run.last_end, f"not tried again: {why}")
