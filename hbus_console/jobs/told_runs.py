"""Runs as the rows of a list tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.error_text import shortened
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import Actor
from hbus_console.jobs.holding import RunStanding, leases_of
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.unseen import Asked, asked

#: Of what is told of a run, so much is in its row; the whole stands on its page.
_ROOM, _ROOM_WHY = 240, 120
#: How a run stands, where a sentence says it and its state is no adjective.
_VERBS = {RunState.CLAIMED: "waits", RunState.LOST: "lost its lease", RunState.FAILED: "failed"}


@dataclass(frozen=True)
class ToldRun:
    """A run, and what its row shows of it."""

    run: JobRun
    asked: Asked
    standing: RunStanding
    now_us: int
    #: Whether it runs elsewhere: then it waits for a ping.
    elsewhere: bool = False

    @property
    def slot_ms(self) -> int:
        return self.run.slot * 1_000

    @property
    def took_us(self) -> int | None:
        return self.run.took_us(self.now_us)

    @property
    def late_us(self) -> int | None:
        return self.run.late_us

    @property
    def due_ms(self) -> int | None:
        """Since when it should have begun, of one that nobody has begun yet: it is late already."""
        waits = self.run.state == RunState.CLAIMED and self.run.attempt == 1 and not self.elsewhere
        return self.run.due_us // 1_000 if waits and self.run.due_us <= self.now_us else None

    @property
    def why(self) -> str:
        """What became of it and who asked for it, each for itself."""
        reason = self.run.reason or self.run.summary
        if self.due_ms is not None and not reason:
            reason = "waits for its turn" if self.run.waits else "waits for a worker"
        if reason and goes_on_after(self.run):
            reason = f"attempt {self.run.attempt - 1} {stands(self.run.last_end)}: {reason}"
        by, why = self.asked.by, shortened(self.asked.why, _ROOM_WHY)
        wanted = f"{by}: “{why}”" if by else why
        return " · ".join(part for part in (shortened(reason, _ROOM), wanted) if part)


def goes_on_after(run: JobRun) -> bool:
    """Whether it is tried again, so that its reason is that of the attempt before."""
    return run.ended_us is None and run.attempt > 1 and bool(run.last_end)


def stands(state: str) -> str:
    """As a sentence goes on behind the run: ``is done``, ``lost its lease``."""
    return _VERBS.get(RunState(state), f"is {state}")


def told_runs(who: Actor, rows: Sequence[JobRun], now_us: int) -> list[ToldRun]:
    """What a row of a list shows of each."""
    leases = leases_of(rows)
    waiting = {run.job for run in rows if run.state == RunState.CLAIMED}
    elsewhere = set(Job.objects.elsewhere().filter(name__in=waiting).values_list("name", flat=True)) if waiting else ()
    return [ToldRun(run, asked(who, run), leases.standing(run), now_us, run.job in elsewhere) for run in rows]
