"""What would run in a span of time, and what would run beside it: reckoned from the schedules, and nothing is run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from engine.core.errors import HbusError
from engine.cron.expression import Slot
from hbus_console.jobs.known import coming
from hbus_console.jobs.models import Job

#: A job with more slots in the span is told in one line: a list of them tells nobody anything.
MOST_OF_ONE = 300
#: Jobs that are looked at, and slots that are listed.
MOST_JOBS, MOST_SLOTS = 500, 3_000
#: Slots of such jobs that are reckoned to see what is beside the others, of all of them together, whatever comes of it;
#: what runs each second has more.
MOST_DENSE = 40_000
#: Slots that are nearer to each other than this begin at the same time.
TOGETHER_S = 60


@dataclass(frozen=True)
class PlannedSlot:
    """One slot, with the jobs that begin with it or still run then, by how long they usually take: it may be itself
    that does. What never ran has no usual time."""

    job: str
    slot: Slot
    usual_s: float | None
    beside: tuple[str, ...] = ()

    @property
    def wall(self) -> str:
        """On the wall of its zone, as times stand on pages: ``2027-03-28 03:00:00 +01:00``."""
        local = self.slot.local
        return f"{local[:10]} {local[11:19]} {local[19:]}"

    @property
    def utc(self) -> str:
        return self.slot.utc.replace("T", " ").removesuffix("Z")


@dataclass
class Simulation:
    """What was found; ``dense`` are jobs with too many slots to list, ``unreadable`` those with no slots to tell."""

    planned: list[PlannedSlot] = field(default_factory=list)
    slots: dict[str, list[int]] = field(default_factory=dict)
    dense: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    #: Of the dense ones those with so many slots that nobody looked what they are beside.
    unmet: list[str] = field(default_factory=list)
    #: Whether there were more slots than are listed.
    cut: bool = False

    @property
    def collisions(self) -> int:
        """Slots with anything beside them."""
        return sum(bool(each.beside) for each in self.planned)


def simulate(jobs: Sequence[Job], usual_s: Mapping[str, float | None], begin_s: int, end_s: int) -> Simulation:
    """The slots of ``jobs`` from ``begin_s`` up to ``end_s``, by their time; what is held runs none of them."""
    found = Simulation()
    dense: list[_Dense] = []
    for job in jobs:
        if job.held:
            found.held.append(job.name)
            continue
        try:
            walk = takewhile(lambda slot: slot.at < end_s, coming(job, begin_s - 1))
            slots = list(islice(walk, MOST_OF_ONE + 1))
        except HbusError as error:
            found.unreadable[job.name] = error.what
            continue
        found.slots[job.name] = [slot.at for slot in slots]
        if len(slots) > MOST_OF_ONE:
            found.dense.append(job.name)
            dense.append(_Dense(job.name, found.slots[job.name], walk))
            continue
        found.planned += [PlannedSlot(job.name, slot, usual_s.get(job.name)) for slot in slots]
    found.planned.sort(key=lambda each: (each.slot.at, each.job))
    found.cut = len(found.planned) > MOST_SLOTS
    often, found.unmet = _reckoned(dense, usual_s)
    found.planned = _with_neighbours(found.planned[:MOST_SLOTS], often)
    return found


@dataclass(frozen=True)
class _Dense:
    """A job whose slots are too many to list: the first of them, and the walk through the others."""

    job: str
    first: list[int]
    others: Iterator[Slot]


def _reckoned(dense: Sequence[_Dense], usual_s: Mapping[str, float | None]) -> tuple[list[_Often], list[str]]:
    """Those that could be reckoned to their end, and the names of the others."""
    often, unmet, left = [], [], MOST_DENSE
    # The rarer first: of those the most find room.
    for each in sorted(dense, key=lambda each: (-each.first[-1], each.job)):
        others = [slot.at for slot in islice(each.others, left)]
        left -= len(others)
        if left:
            often.append(_Often(each.job, [*each.first, *others], usual_s.get(each.job) or 0.0))
        else:
            unmet.append(each.job)
    return often, sorted(unmet)


@dataclass(frozen=True)
class _Often:
    """A job whose slots are too many to list, and stand beside those that are listed."""

    job: str
    slots: Sequence[int]
    usual_s: float

    def is_beside(self, at: int) -> bool:
        """Whether it begins together with what begins at ``at``, or still runs then."""
        first = bisect_right(self.slots, at - max(self.usual_s, TOGETHER_S))
        return first < len(self.slots) and self.slots[first] < at + TOGETHER_S


def _with_neighbours(planned: list[PlannedSlot], often: Sequence[_Often]) -> list[PlannedSlot]:
    starts = [each.slot.at for each in planned]
    longest = max((each.usual_s or 0.0 for each in planned), default=0.0)
    told = []
    for each in planned:
        at = each.slot.at
        near = planned[bisect_left(starts, at - max(longest, TOGETHER_S)) : bisect_right(starts, at + TOGETHER_S - 1)]
        names = {
            other.job
            for other in near
            if (other.job != each.job and abs(other.slot.at - at) < TOGETHER_S)
            or other.slot.at < at < other.slot.at + (other.usual_s or 0.0)
        }
        names |= {other.job for other in often if other.is_beside(at)}
        told.append(PlannedSlot(each.job, each.slot, each.usual_s, tuple(sorted(names))))
    return told
