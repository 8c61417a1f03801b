"""What a run that was decided and has not begun waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.cron.slots.job import Overlap
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import Actor
from hbus_console.jobs.busy import Busy, busy_with
from hbus_console.jobs.models import JobRun, JobVersion
from hbus_console.jobs.tags import full_tags, words_of_full


def waits_for(who: Actor, run: JobRun, said: Mapping[str, Any], now_us: int) -> Busy | None:
    """What a run that is claimed waits for now; of another nothing."""
    if run.state != RunState.CLAIMED:
        return None
    if run.not_before_us > now_us:
        return Busy("its time", at_ms=run.not_before_us // 1_000)
    return Busy(_room(run, said)) if run.waits else busy_with(who, run)


def _room(run: JobRun, said: Mapping[str, Any]) -> str:
    """What one waits for that was told to wait."""
    running = JobRun.objects.filter(job=run.job, ended_us=None, state=RunState.RUNNING)
    if said.get("overlap") != Overlap.RUN and (other := running.filter(part=run.part).first()):
        return f"the end of run {other.pk}"
    if full := full_tags(said.get("tags", "").split()):
        return words_of_full(full)
    most = said.get("most_at_once")
    return f"room: {running.count():,} of {most:,} of its runs run" if most else "its turn"


def waits_for_of(who: Actor, run: JobRun, now_us: int) -> Busy | None:
    """Likewise, of the version that it is of."""
    version = JobVersion.objects.filter(job__name=run.job, number=run.version).first()
    return waits_for(who, run, version.settings if version else {}, now_us)
