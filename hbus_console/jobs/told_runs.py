"""Runs as the rows of a list tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.error_text import shortened
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import Actor
from hbus_console.jobs.holding import RunStanding, leases_of
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.unseen import Asked, asked

#: Of what is told of a run, so much is in its row; the whole stands on its page.
_ROOM, _ROOM_WHY = 240, 120
#: How a run stands, where a sentence says it and its state is no adjective.
_VERBS = {RunState.LOST: "lost its lease", RunState.FAILED: "failed"}


@dataclass(frozen=True)
class ToldRun:
    """A run, and what its row shows of it."""

    run: JobRun
    asked: Asked
    standing: RunStanding
    now_us: int

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
    def why(self) -> str:
        """What became of it and who asked for it, each for itself."""
        by, why = self.asked.by, shortened(self.asked.why, _ROOM_WHY)
        wanted = f"{by}: “{why}”" if by else why
        return " · ".join(part for part in (shortened(self.run.reason or self.run.summary, _ROOM), wanted) if part)


def stands(state: str) -> str:
    """As a sentence goes on behind the run: ``is done``, ``lost its lease``."""
    return _VERBS.get(RunState(state), f"is {state}")


def told_runs(who: Actor, rows: Sequence[JobRun], now_us: int) -> list[ToldRun]:
    """What a row of a list shows of each."""
    leases = leases_of(rows)
    return [ToldRun(run, asked(who, run), leases.standing(run), now_us) for run in rows]
