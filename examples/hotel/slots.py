"""The judge of the jobs: each slot that their schedules demand, its row, and what it did in the books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date

import msgspec

from engine.core.clock import to_rfc3339
from examples.hotel.books import HOTELS
from examples.hotel.closing import closed_day
from examples.hotel.invoicing import invoiced_month
from examples.hotel.models import BookLine, PlayedNight
from examples.hotel.seed import job_drafts
from hbus_console.jobs.demanded import (
    SlotComparison,
    SlotDemand,
    SlotFault,
    compare_slots,
    demands_of,
    kept_from,
)
from hbus_console.jobs.known import schedule_said
from hbus_console.jobs.models import Job, JobRun

#: How many differences are told.
TOLD = 10
#: Of the functions that enter lines in the books: the period of a slot.
PERIODS: dict[str, Callable[[int], date]] = {
    "hotel.nightly-close": closed_day,
    "hotel.month-end-invoice": invoiced_month,
}
#: What may be wrong with a slot.
FAULTS = ("missing", "doubled", "invented", "unexplained", "effect_missing", "effect_doubled", "effect_invented")
#: What the jobs of simulated nights are called, in place of the first.
BY_DAY, AT_NIGHT = "hotel.", "hotel.night."


class JobSlots(msgspec.Struct, frozen=True):
    """One job: of so many slots so many are done or under way, and the rest is told by state and reason."""

    job: str
    demanded: int
    done: int
    open: int
    explained: dict[str, int]
    effects: int


class SlotVerdict(msgspec.Struct, frozen=True):
    """All jobs of the example, and of its simulated nights; ``differences`` names the first ten."""

    jobs: list[JobSlots]
    faults: dict[str, int]
    differences: list[str]
    #: Nights that were not played to their end.
    unfinished: list[str]

    @property
    def demanded(self) -> int:
        return sum(each.demanded for each in self.jobs)

    @property
    def done(self) -> int:
        return sum(each.done for each in self.jobs)

    @property
    def open(self) -> int:
        return sum(each.open for each in self.jobs)

    @property
    def effects(self) -> int:
        return sum(each.effects for each in self.jobs)

    @property
    def explained(self) -> dict[str, int]:
        """Slots that are neither done nor under way, by state and reason."""
        total: Counter[str] = Counter()
        for each in self.jobs:
            total.update(each.explained)
        return dict(total)

    @property
    def equal(self) -> bool:
        return not any(self.faults.values()) and not self.unfinished


def judge() -> SlotVerdict:
    """The jobs that there are, from when they were made to where their slots are decided; and all simulated nights."""
    names = [draft.name for draft in job_drafts()]
    jobs = Job.objects.filter(name__in=names)
    demands = {job.name: demands_of(job) for job in jobs} | _by_night(PlayedNight.objects.order_by("begin_s"))
    unfinished = PlayedNight.objects.filter(finished_at=None).values_list("begin_s", flat=True)
    return _judged(demands, [to_rfc3339(begin_s * 1000) for begin_s in unfinished])


def judge_night(night: PlayedNight) -> SlotVerdict:
    """One simulated night by itself."""
    return _judged(_by_night([night]), [] if night.finished_at else [to_rfc3339(night.begin_s * 1000)])


def _by_night(nights: Iterable[PlayedNight]) -> dict[str, list[SlotDemand]]:
    demands: dict[str, list[SlotDemand]] = {}
    for night in nights:
        for job, said in night.when.items():
            after_s = max(night.begin_s - 1, kept_from(job))
            demand = SlotDemand(schedule_said(job, said), after_s, night.end_s - 1, is_over=True)
            demands.setdefault(job, []).append(demand)
    return demands


def _judged(demands: dict[str, list[SlotDemand]], unfinished: list[str]) -> SlotVerdict:
    jobs, faults = [], []
    for job, held in sorted(demands.items()):
        found = compare_slots(job, held)
        effects = _judge_effects(found)
        told = {f"{state}: {reason}": count for (state, reason), count in found.explained.items()}
        jobs.append(JobSlots(job, found.demanded, found.done, found.open, told, effects))
        faults += found.faults
    counts = {what: sum(fault.what == what for fault in faults) for what in FAULTS}
    return SlotVerdict(jobs, counts, [str(fault) for fault in faults[:TOLD]], unfinished)


def _judge_effects(found: SlotComparison) -> int:
    """Adds to the faults of a job what its slots did not do, or did twice; how many effects there are."""
    period_of = PERIODS.get(found.job.replace(AT_NIGHT, BY_DAY))
    if period_of is None:
        return 0
    lines: dict[date, list[BookLine]] = {}
    for line in BookLine.objects.filter(job=found.job):
        lines.setdefault(line.period, []).append(line)
    runs = [line.run for same in lines.values() for line in same]
    by_run = {run.pk: run for run in JobRun.objects.filter(pk__in=runs).only("attempt", "begun_us")}
    for line in (line for same in lines.values() for line in same):
        if (said := _beyond(line, by_run.get(line.run))) is not None:
            found.faults.append(SlotFault(found.job, line.slot, *said))
    effects = 0
    for row in found.done_rows:
        same = lines.pop(period_of(row.slot), [])
        effects += len(same)
        for hotel in set(HOTELS) - {line.hotel for line in same}:
            says = f"it is done, and nothing is entered for {hotel}"
            found.faults.append(SlotFault(found.job, row.slot, "effect_missing", says))
    return effects


def _beyond(line: BookLine, run: JobRun | None) -> tuple[str, str] | None:
    """What is wrong with a line that is there, if anything is; of a run that was removed nobody can tell."""
    if run is None:
        return None
    if run.attempt == 1 and run.begun_us is None:
        return "effect_invented", f"{line.hotel} was entered by a run that never began"
    if line.entries > run.attempt:
        return "effect_doubled", f"{line.hotel} was entered {line.entries} times by a run of {run.attempt} attempts"
    return None
