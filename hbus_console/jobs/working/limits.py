"""Starts of jobs count against the limits of the team that owns them; a run that may not begin yet is offered again."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.errors import QuotaExceeded
from engine.cron.slots.steps import RunState
from hbus_console.jobs.columns import REASON_LIMIT
from hbus_console.jobs.models import Job, JobRun
from hbus_console.quotas.asking import JOBS, limits_anything, nothing_taken, take


def start_of(run: int, now_us: int) -> Callable[[int], None] | None:
    """Take what the start of a run costs: what gives it back, where it is not begun after all. ``None``: it may not
    begin yet. Its row says why, and before when it is not offered again.

    A further attempt goes on with what has started. Asks the database only where there are limits.
    """
    if not limits_anything(JOBS):
        return nothing_taken
    # Whatever else keeps it from beginning is found by who begins it.
    name = JobRun.objects.filter(pk=run, state=RunState.CLAIMED, attempt=1).values_list("job", flat=True).first()
    if name is None:
        return nothing_taken
    team = Job.objects.filter(name=name).values_list("team__name", flat=True).first() or ""
    try:
        return take(JOBS, name, team, f"start no more runs of {name}")
    except QuotaExceeded as held:
        # By this machine's clock: a second more or less is nothing to a limit.
        JobRun.objects.filter(pk=run, state=RunState.CLAIMED, attempt=1).update(
            not_before_us=now_us + held.again_s * 1_000_000, reason=f"It waits: {held.what}"[:REASON_LIMIT]
        )
        return None
