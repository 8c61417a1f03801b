"""A node's part: claim what has come, decide it in the database, offer what is to run, and look after what is open."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from engine.core.errors import Unavailable
from engine.cron.slots.job import AfterLoss, CronJob
from engine.cron.slots.planning import decide, due_after
from engine.cron.slots.steps import (
    Again,
    ClaimSlot,
    Cursor,
    GiveUp,
    LeasesHeld,
    Offer,
    OpenRuns,
    ReadCursors,
    ReadOpen,
    RunRow,
    RunState,
    SlotClaim,
    Steps,
)

#: How long a node has to decide a slot that it claimed before another may try, in seconds.
CLAIM_S = 5.0
#: How long a run may wait for a worker before it is offered once more.
OFFER_AGAIN_S = 10.0


def schedule(jobs: Mapping[str, CronJob], node: str, now_s: float) -> Steps[int]:
    """Decide what has come of ``jobs``; how many runs were opened. ``now_s``: the node's own clock, which may be wrong.

    A job whose store or database does not answer is left for the next tick.
    """
    opened = 0
    cursors: list[Cursor] = yield ReadCursors()
    for cursor in cursors:
        job = jobs.get(cursor.job)
        if job is not None and job.version == cursor.version:
            with suppress(Unavailable):
                opened += yield from _decide(job, cursor, node, now_s)
    return opened


def _decide(job: CronJob, cursor: Cursor, node: str, now_s: float) -> Steps[int]:
    slots = due_after(job, cursor.at, now_s)
    if not slots:
        return 0
    # The first stands for all that follow it: who decides it moves the cursor, and the others start behind that.
    claim: SlotClaim = yield ClaimSlot(job.name, job.version, slots[0], node, CLAIM_S)
    # Not what this node's own clock says: it may be ahead.
    come = [slot for slot in slots if slot <= claim.now_s]
    if not (claim.won and come):
        return 0
    rows: list[RunRow] = yield OpenRuns(cursor, tuple(decide(job, come, claim.now_s)), node)
    for row in rows:
        # What is not offered here is found by :class:`RunSweeper`.
        yield Offer(row.id)
    return len(rows)


class RunSweeper:
    """Finds runs that nobody began, and those whose worker is gone. Its memory may be lost at any time.

    A lease that is missing counts only when it is missing twice, a whole lease apart: one that is being renewed is
    there in between.
    """

    def __init__(self) -> None:
        #: When the lease of a run, under an epoch, was first seen missing: the database's clock.
        self._missing: dict[tuple[int, int], float] = {}

    def sweep(self, jobs: Mapping[str, CronJob]) -> Steps[None]:
        """One look at everything open. Raises ``Unavailable``."""
        answer: tuple[list[RunRow], float] = yield ReadOpen()
        rows, now_s = answer
        for row in rows:
            if row.state is RunState.CLAIMED:
                yield from _look_after(row, jobs.get(row.job), now_s)
        running = [row for row in rows if row.state is RunState.RUNNING]
        held: set[int] = (yield LeasesHeld(tuple(row.id for row in running))) if running else set()
        missing = {(row.id, row.epoch): row for row in running if row.id not in held}
        self._missing = {key: self._missing.get(key, now_s) for key in missing}
        for key, since in list(self._missing.items()):
            job = jobs.get(missing[key].job)
            if job is not None and now_s - since > job.policy.lease_s:
                yield from _end_lost(missing[key], job)


def _look_after(row: RunRow, job: CronJob | None, now_s: float) -> Steps[None]:
    if job is None:
        return
    waited_s = now_s - row.changed_s
    if waited_s > job.policy.catch_up_window_s:
        # What began once, and was lost, has not been left alone.
        state = RunState.ABANDONED if row.attempt == 1 else RunState.LOST
        yield GiveUp(row, state, f"no worker began it within {job.policy.catch_up_window_s:,.0f} s")
    elif waited_s > OFFER_AGAIN_S:
        yield Offer(row.id)


def _end_lost(row: RunRow, job: CronJob) -> Steps[None]:
    given_up: bool = yield GiveUp(row, RunState.LOST, "its worker did not renew its lease")
    if given_up and job.policy.after_loss is AfterLoss.RETRY and row.attempt < job.policy.attempts:
        yield Again(row)
