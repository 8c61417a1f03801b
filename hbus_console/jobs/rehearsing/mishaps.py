"""Who is killed in a rehearsal, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.cron.slots.steps import ClaimSlots, OpenRuns, Step


class Death(Enum):
    """Behind which step of its own somebody dies; the words say so, and a job follows them."""

    CLAIMED = "was killed between claiming and deciding a slot of"
    DECIDED = "was killed between deciding and offering a run of"
    AT_WORK = "was killed in the middle of a run of"


class Killed(BaseException):
    """Ends who it is raised in where it stands. No error: nothing may catch it but the play."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """The first who comes to that step with ``job`` from ``at_s`` on dies."""

    at_s: int
    death: Death
    job: str

    def befalls_node(self, step: Step, answer: Any) -> bool:
        """Whether a node dies now that ``step`` was answered."""
        match self.death, step:
            case Death.CLAIMED, ClaimSlots():
                return any(slot.job == self.job for slot in answer.won)
            case Death.DECIDED, OpenRuns():
                return any(row.job == self.job for row in answer.rows)
        return False


class Mishaps:
    """Those that are to come. Each comes once."""

    def __init__(self, mishaps: Iterable[Mishap]) -> None:
        self._left = list(mishaps)

    def node_dies(self, now_s: float, step: Step, answer: Any) -> Mishap | None:
        return self._taken(lambda each: each.at_s <= now_s and each.befalls_node(step, answer))

    def worker_dies(self, now_s: float, job: str) -> Mishap | None:
        return self._taken(lambda each: each.at_s <= now_s and (each.death, each.job) == (Death.AT_WORK, job))

    def _taken(self, fits: Callable[[Mishap], bool]) -> Mishap | None:
        found = next((each for each in self._left if fits(each)), None)
        if found is not None:
            self._left.remove(found)
        return found
