"""What must never be of a history: told from the rows, and from what was written of them one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.cron.simulation.models import ModelDatabase
from engine.cron.slots.job import CronJob
from engine.cron.slots.parts import WHOLE
from engine.cron.slots.steps import RunRow, RunState

OPEN = (RunState.CLAIMED, RunState.RUNNING)


def judged(jobs: Mapping[str, CronJob], database: ModelDatabase, begin: int) -> Iterator[str]:
    """What must never be, and is: each as a sentence. ``begin``: its first second."""
    for name, job in jobs.items():
        slot = job.slots.next_after(begin)
        while slot is not None:
            yield from _judged_slot(database, job, slot, f"{name} at {slot - begin}")
            slot = job.slots.next_after(slot)
    for row in database.runs.values():
        if row.manual:
            yield from _judged_run(database, row, f"run {row.id} of {row.job}, which somebody triggered,")
    for place in database.stale:
        yield f"the effect of {place} was done by a worker that had lost the run"
    yield from (f"the effect of {place} was done, and is for another" for place in database.astray)
    for place in database.early:
        yield f"{place} was opened before it had come"
    yield from _judged_history(jobs, database, begin)


def _judged_slot(database: ModelDatabase, job: CronJob, slot: int, where: str) -> Iterator[str]:
    runs = [database.runs[number] for number in database.by_slot.get((job.name, slot), [])]
    named = sorted(run.part for run in runs)
    # Which nodes there were nobody knows afterwards; but each has one.
    demanded = sorted(set(named)) if job.policy.on_nodes else sorted(job.parts())
    if not runs or named not in (demanded, [WHOLE]):
        yield f"{where} has {len(runs)} rows, of {', '.join(named) or 'nothing'}"
    for row in runs:
        # What is skipped is skipped whole.
        if row.part == WHOLE and demanded != [WHOLE] and row.state is not RunState.SKIPPED:
            yield f"{where} is {row.state}, and was not divided"
        yield from _judged_run(database, row, f"{where} {row.part}".rstrip())


def _judged_run(database: ModelDatabase, row: RunRow, where: str) -> Iterator[str]:
    effects = database.effects.get(row.id, 0)
    if row.state in OPEN:
        yield f"{where} is still {row.state}"
    # A job that is tried again says that its work may be done twice.
    if effects > row.attempt or (row.state is RunState.DONE and not effects):
        yield f"the effect of {where} was done {effects} times, and it is {row.state} after {row.attempt} attempts"
    if row.state in (RunState.SKIPPED, RunState.ABANDONED) and effects:
        yield f"{where} is {row.state} with {effects} effects"
    if row.state not in (*OPEN, RunState.DONE) and not database.reasons[row.id]:
        yield f"{where} is {row.state}, and nobody says why"


def _judged_history(jobs: Mapping[str, CronJob], database: ModelDatabase, begin: int) -> Iterator[str]:
    running: dict[str, dict[int, RunRow]] = {name: {} for name in jobs}
    claimed: dict[int, RunRow] = {}
    for row in database.history:
        policy, where = jobs[row.job].policy, f"{row.job} at {row.slot - begin}"
        if row.attempt > policy.attempts:
            yield f"{where} was tried {row.attempt} times of {policy.attempts}"
        if row.state is RunState.CLAIMED:
            claimed[row.id] = row
        if row.state is not RunState.RUNNING:
            running[row.job].pop(row.id, None)
            continue
        if row.attempt == 1 and not row.manual and row.changed_s < row.slot + jobs[row.job].wait_s(row.slot):
            yield f"{where} began before it had come, or before its share of the delay was over"
        failed = claimed.get(row.id, row)
        if failed.last_end is RunState.FAILED and row.changed_s < failed.changed_s + policy.pause_s(row.attempt - 1):
            yield f"attempt {row.attempt} of {where} came {row.changed_s - failed.changed_s:.2f} s after the failure"
        running[row.job][row.id] = row
        if row.id in database.stops and database.stops[row.id].epoch < row.epoch:
            yield f"{where} began after it was to stop"
        if row.manual and not policy.binds_manual:
            # Beside all others, whatever they are.
            continue
        bound = (other for other in running[row.job].values() if policy.binds_manual or not other.manual)
        beside = sum(policy.meet(row.part, other.part) for other in bound)
        if policy.limit and beside > policy.limit:
            yield f"{where} began beside {beside - 1} others"
        for tag in policy.tags:
            tagged = sum(len(runs) for name, runs in running.items() if tag in jobs[name].policy.tags)
            if tagged > database.limits.get(tag, tagged):
                yield f"{where} began as the {tagged}th with the tag {tag}"
