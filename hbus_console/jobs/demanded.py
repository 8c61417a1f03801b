"""Every slot that a schedule demands, held against the rows: is one missing, doubled, or left unexplained?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Max

from engine.core.clock import to_rfc3339
from engine.cron.expression import Schedule
from engine.cron.slots.parts import WHOLE, shard_of
from engine.cron.slots.steps import OPEN, WORST_FIRST, RunState
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.known import schedule_said
from hbus_console.jobs.models import Job, JobCursor, JobRun
from hbus_console.jobs.services.jobs import WHEN
from hbus_console.jobs.undecided import told_until

#: Around the begin of a job, and a change of when it runs, nobody can say to the second what is demanded.
SLACK_S = 2
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """A schedule of a job, and from when to when it held: after the one second, up to the other."""

    schedule: Schedule
    after_s: int
    until_s: int
    #: Whether it is over, so that nothing of it may be open any more.
    is_over: bool = False
    #: Its slots, where somebody has them already.
    known: Sequence[int] | None = None

    def slots(self) -> Iterator[int]:
        if self.known is not None:
            return iter(self.known)
        return (slot.at for slot in takewhile(lambda slot: slot.at <= self.until_s, self.schedule.slots(self.after_s)))


class SlotFault(NamedTuple):
    """What is wrong with a slot: ``missing``, ``doubled``, ``invented`` or ``unexplained``."""

    job: str
    slot: int
    what: str
    says: str
    #: The number of a run of it; 0: it has none.
    run: int = 0

    def __str__(self) -> str:
        return f"{self.job} at {to_rfc3339(self.slot * 1000)}: {self.says}"


class SlotRow(NamedTuple):
    """What is looked at of a run."""

    slot: int
    state: str
    reason: str
    part: str = WHOLE
    pk: int = 0


@dataclass
class SlotComparison:
    """The slots of a job and their rows."""

    job: str
    demanded: int = 0
    #: Slots that are done.
    done: int = 0
    #: Those under way.
    open: int = 0
    #: Neither, and why: states with reasons.
    explained: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Of each of these the first row.
    examples: dict[tuple[str, str], SlotRow] = field(default_factory=dict)
    faults: list[SlotFault] = field(default_factory=list)
    #: The rows of what is done.
    done_rows: list[SlotRow] = field(default_factory=list)

    def count(self, what: str) -> int:
        """Faults of one kind."""
        return sum(fault.what == what for fault in self.faults)


def compare_slots(job: str, demands: Iterable[SlotDemand]) -> SlotComparison:
    """Hold the rows of ``job`` against what ``demands`` say."""
    found = SlotComparison(job)
    for demand in demands:
        _compare(found, demand)
    return found


def demands_of(job: Job) -> list[SlotDemand]:
    """By the versions of the job, from the first on, up to where its slots are decided; what was pruned is left out."""
    cursor = JobCursor.objects.filter(job=job.name).first()
    if cursor is None:
        return []
    versions = job.versions.order_by("number").values_list("settings", "made_at")
    return demands_by(job.name, versions, cursor.at, kept_from(job.name))


def demands_by(
    job: str, versions: Iterable[tuple[Mapping[str, Any], datetime]], decided_s: int, kept_s: int
) -> list[SlotDemand]:
    """Likewise, of its versions in their order: what each says and when it was made. Raises ``BadInput`` for a schedule
    that cannot be read any more."""
    demands = []
    # A version that changes something else goes on with the schedule before it.
    held = [(said, next(same)[1].timestamp()) for said, same in groupby(versions, key=_when)]
    for place, (said, from_s) in enumerate(held):
        last = place == len(held) - 1
        until_s = decided_s if last else math.floor(held[place + 1][1]) - SLACK_S
        after_s = max(math.ceil(from_s) + SLACK_S, kept_s)
        if after_s < until_s:
            when = dict(zip(WHEN, said, strict=True))
            demands.append(SlotDemand(schedule_said(job, when), after_s, until_s))
    return demands


def _when(version: tuple[Mapping[str, Any], datetime]) -> tuple[str, ...]:
    return tuple(version[0][name] for name in WHEN)


def kept_from(job: str) -> int:
    """Before this, rows may have been removed: see :mod:`~hbus_console.jobs.retention`."""
    kept_s = int(database_time()) - settings.HBUS_RUN_DAYS * _DAY_S
    newest = JobRun.objects.aggregate(newest=Max("pk"))["newest"] or 0
    if newest > settings.HBUS_RUN_MAX:
        first = JobRun.objects.filter(job=job, pk__gt=newest - settings.HBUS_RUN_MAX).order_by("pk").first()
        kept_s = max(kept_s, int(database_time()) if first is None else first.slot)
    return kept_s


def _compare(found: SlotComparison, demand: SlotDemand) -> None:
    rows = _rows(found.job, demand)
    # One row stands for all that nobody decided before a change.
    told = [(slot, until_s) for slot, same in rows.items() for row in same if (until_s := told_until(row.reason))]
    told.append(_told_before(found.job, demand.after_s))
    demanded = list(demand.slots())
    found.demanded += len(demanded)
    for slot in demanded:
        same = rows.pop(slot, [])
        if not same and any(from_s < slot <= until_s for from_s, until_s in told):
            found.explained[RunState.SKIPPED.value, "told of by the row of an earlier slot"] += 1
        elif not same:
            _fault(found, slot, "missing", "it has no row")
        else:
            _judge_parts(found, same)
            _judge(found, min(same, key=lambda row: WORST_FIRST.index(RunState(row.state))), demand)
    for slot, same in rows.items():
        _fault(found, slot, "invented", "it has a row, and the schedule does not name it", same[0].pk)


def _told_before(job: str, after_s: int) -> tuple[int, int]:
    """From when to when the last row of before tells of slots that have none."""
    before = JobRun.objects.filter(job=job, kind=JobRun.Kind.SCHEDULE, slot__lte=after_s).order_by("-slot", "-pk")
    slot, reason = before.values_list("slot", "reason").first() or (0, "")
    return slot, told_until(reason)


def _judge_parts(found: SlotComparison, same: list[SlotRow]) -> None:
    """Each part has one row, and of shards there are all."""
    slot, parts = same[0].slot, {row.part for row in same}
    if len(same) > len(parts) or (WHOLE in parts and len(parts) > 1):
        _fault(found, slot, "doubled", f"it has {len(same)} rows", same[-1].pk)
    shard = shard_of(min(parts))
    if shard is not None and len(parts) < shard.of:
        _fault(found, slot, "missing", f"it has rows of {len(parts)} of {shard.of} shards", same[0].pk)


def _judge(found: SlotComparison, row: SlotRow, demand: SlotDemand) -> None:
    if row.state == RunState.DONE:
        found.done += 1
        found.done_rows.append(row)
    elif row.state in OPEN and not demand.is_over:
        found.open += 1
    elif row.state in OPEN or not row.reason:
        _fault(found, row.slot, "unexplained", f"it is {row.state}, and nobody says why", row.pk)
    else:
        found.explained[row.state, row.reason] += 1
        found.examples.setdefault((row.state, row.reason), row)


def _fault(found: SlotComparison, slot: int, what: str, says: str, run: int = 0) -> None:
    found.faults.append(SlotFault(found.job, slot, what, says, run))


def _rows(job: str, demand: SlotDemand) -> dict[int, list[SlotRow]]:
    rows: dict[int, list[SlotRow]] = {}
    scheduled = JobRun.objects.filter(job=job, kind=JobRun.Kind.SCHEDULE)
    within = scheduled.filter(slot__gt=demand.after_s, slot__lte=demand.until_s).order_by("slot", "pk")
    for values in within.values_list(*SlotRow._fields):
        row = SlotRow(*values)
        rows.setdefault(row.slot, []).append(row)
    return rows
