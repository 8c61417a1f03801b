"""What an audit of the bus says of jobs: whether each slot that a schedule demanded has one run, or a reason for none.

It looks by the database's clock, as whoever decides slots does. Rows are read job by job, outside any transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import Max, Min

from engine.core.clock import to_rfc3339
from engine.core.error_text import text_of
from engine.core.errors import BadInput
from engine.core.verdicts import FindingForm, Severity, verdict_of
from engine.cron.slots.steps import RunState
from engine.cron.subjects import JOB, job_subject, run_subject
from hbus_console.database import in_batches
from hbus_console.jobs.demanded import SlotComparison, SlotDemand, compare_slots, demands_by
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.known import schedule_said
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion
from hbus_console.registry.judging import (
    MOST_SAMPLES,
    AuditCheck,
    JudgedFinding,
    JudgedSample,
    JudgedSpan,
    JudgedSubject,
)

#: Slots that are judged of one job, and of all together, the newest of each. Eight days of one a minute are 11,520.
MOST_OF_JOB, MOST_SLOTS = 12_000, 1_000_000
#: What nobody decided for so long after it was due is told of, in seconds, also where nobody asked for so late an end.
PATIENCE_S = 600
#: Reasons of one job that are told apart.
MOST_REASONS = 20
_DAY_S = 86_400

_STATES = {
    RunState.SKIPPED.value: "skipped",
    RunState.ABANDONED.value: "abandoned",
    RunState.LOST.value: "lost",
    RunState.CANCELLED.value: "cancelled",
    RunState.FAILED.value: "failed",
}
_FORMS: Mapping[str, FindingForm] = {
    "missing": FindingForm(
        Severity.WRONG, "{count} slots have no run, and no reason", "1 slot has no run, and no reason"
    ),
    "doubled": FindingForm(Severity.WRONG, "{count} slots have more than one run", "1 slot has more than one run"),
    "invented": FindingForm(
        Severity.WRONG,
        "{count} instants have a planned run, and no schedule demanded it",
        "1 instant has a planned run, and no schedule demanded it",
    ),
    "unexplained": FindingForm(
        Severity.WRONG,
        "{count} slots did not come to an end that says why",
        "1 slot did not come to an end that says why",
    ),
    "skipped": FindingForm(Severity.EXPLAINED, "{count} slots were skipped", "1 slot was skipped"),
    "abandoned": FindingForm(
        Severity.EXPLAINED, "{count} slots were claimed and never begun", "1 slot was claimed and never begun"
    ),
    "lost": FindingForm(Severity.EXPLAINED, "{count} runs lost their lease", "1 run lost its lease"),
    "cancelled": FindingForm(Severity.EXPLAINED, "{count} runs were cancelled", "1 run was cancelled"),
    "failed": FindingForm(Severity.NOTICE, "{count} runs failed", "1 run failed"),
    "under_way": FindingForm(Severity.NOTICE, "{count} slots are under way", "1 slot is under way"),
    "undecided": FindingForm(
        Severity.NOTICE,
        "{count} slots are due, and nobody has decided them",
        "1 slot is due, and nobody has decided it",
    ),
    "unreadable": FindingForm(
        Severity.NOTICE, "{count} schedules cannot be read any more", "its schedule cannot be read any more"
    ),
    "left_out": FindingForm(
        Severity.NOTICE,
        "of {count} jobs the older slots were not judged, for there are too many",
        "the older slots were not judged, for there are too many",
    ),
}

_Version = tuple[Mapping[str, Any], datetime]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a job before its slots are looked at."""

    name: str
    decided_s: int
    kept_s: int
    versions: Sequence[_Version]


def judge_slots(span: JudgedSpan) -> Iterator[JudgedSubject]:
    """Of every job that has slots decided. Raises what ``span.go_on`` does."""
    now_s = int(database_time())
    names = list(Job.objects.order_by("name").values_list("pk", "name"))
    kept = _kept(now_s)
    left, to_come = MOST_SLOTS, len(names)
    for some in in_batches(names):
        for known in _known(dict(some), kept):
            span.go_on()
            # What one job has no need of is there for those after it.
            found = _Judging(known, span, now_s).judged(max(1, min(MOST_OF_JOB, left // to_come)))
            to_come -= 1
            if found is not None:
                left = max(0, left - found.judged)
                yield found


class _KeptRuns:
    """Since when the runs of each job are whole, in seconds since the epoch."""

    def __init__(self, oldest_s: int, first: Mapping[str, int] | None, now_s: int) -> None:
        self._oldest_s = oldest_s
        self._first = first
        self._now_s = now_s

    def of(self, job: str) -> int:
        return self._oldest_s if self._first is None else max(self._oldest_s, self._first.get(job, self._now_s))


def _kept(now_s: int) -> _KeptRuns:
    """As :func:`~hbus_console.jobs.demanded.kept_from`, of all jobs in two questions."""
    oldest_s = now_s - settings.HBUS_RUN_DAYS * _DAY_S
    newest = JobRun.objects.aggregate(newest=Max("pk"))["newest"] or 0
    if newest <= settings.HBUS_RUN_MAX:
        return _KeptRuns(oldest_s, None, now_s)
    rows = JobRun.objects.filter(pk__gt=newest - settings.HBUS_RUN_MAX).order_by()
    firsts = [first for _, first in rows.values_list("job").annotate(first=Min("pk"))]
    found: dict[str, int] = {}
    for some in in_batches(firsts):
        found |= dict(JobRun.objects.filter(pk__in=some).values_list("job", "slot"))
    return _KeptRuns(oldest_s, found, now_s)


def _known(jobs: Mapping[int, str], kept: _KeptRuns) -> Iterator[_Known]:
    # How far they are decided first: what is decided meanwhile is not looked for.
    decided = dict(JobCursor.objects.filter(job__in=jobs.values()).values_list("job", "at"))
    versions: dict[int, list[_Version]] = {}
    rows = JobVersion.objects.filter(job__in=jobs).order_by("number")
    for job, said, made_at in rows.values_list("job_id", "settings", "made_at"):
        versions.setdefault(job, []).append((said, made_at))
    for pk, name in jobs.items():
        if name in decided and pk in versions:
            yield _Known(name, decided[name], kept.of(name), versions[pk])


class _Judging:
    """Of one job."""

    def __init__(self, job: _Known, span: JudgedSpan, now_s: int) -> None:
        self._job = job
        self._now_s = now_s
        #: The first second of the span, and the last one that is over.
        self._from_s = 0 if span.from_ms is None else -(-span.from_ms // 1000)
        self._asked = span.to_ms is not None
        self._until_s = now_s if span.to_ms is None else min(now_s, -(-span.to_ms // 1000) - 1)
        self._findings: list[JudgedFinding] = []

    def judged(self, most: int) -> JudgedSubject | None:
        """With so many slots; ``None``: it has nothing in the span."""
        try:
            demands = self._demands()
            undecided = self._undecided(most)
        except BadInput as error:
            return self._unreadable(text_of(error))
        if not demands and not undecided:
            return None
        judged, left_out_s = _newest(demands, most)
        found = compare_slots(self._job.name, judged)
        self._tell(found)
        if undecided:
            samples = [self._sample("it is due", slot) for slot in undecided[:MOST_SAMPLES]]
            self._findings.append(CHECK.finding("undecided", len(undecided), samples=samples))
        if left_out_s:
            self._findings.append(CHECK.finding("left_out", 1, f"before {to_rfc3339(left_out_s * 1000)}"))
        first_s = judged[0].after_s + 1 if judged else undecided[0]
        last_s = judged[-1].until_s if judged else undecided[0] - 1
        is_open = bool(undecided) or (self._asked and found.open > 0)
        return self._judgement(first_s * 1000, (last_s + 1) * 1000, found.demanded, is_open=is_open)

    def _demands(self) -> list[SlotDemand]:
        job = self._job
        found = demands_by(job.name, job.versions, job.decided_s, job.kept_s)
        cut = (
            replace(each, after_s=max(each.after_s, self._from_s - 1), until_s=min(each.until_s, self._until_s))
            for each in found
        )
        return [each for each in cut if each.after_s < each.until_s]

    def _undecided(self, most: int) -> list[int]:
        """Slots of the span that are due, and not decided."""
        until_s = self._until_s if self._asked else self._now_s - PATIENCE_S
        after_s = max(self._job.decided_s, self._from_s - 1)
        schedule = schedule_said(self._job.name, self._job.versions[-1][0])
        return list(islice(SlotDemand(schedule, after_s, until_s).slots(), most)) if after_s < until_s else []

    def _tell(self, found: SlotComparison) -> None:
        for kind in ("missing", "doubled", "invented", "unexplained"):
            faults = [fault for fault in found.faults if fault.what == kind]
            if faults:
                samples = [self._sample(fault.says, fault.slot, fault.run) for fault in faults[:MOST_SAMPLES]]
                self._findings.append(CHECK.finding(kind, len(faults), samples=samples))
        told = found.explained.most_common()
        for (state, reason), count in told[:MOST_REASONS]:
            row = found.examples.get((state, reason))
            samples = [self._sample(f"it is {state}", row.slot, row.pk)] if row is not None else []
            self._findings.append(CHECK.finding(_STATES[state], count, reason, samples))
        for state, kind in _STATES.items():
            further = [count for (its, _), count in told[MOST_REASONS:] if its == state]
            if further:
                self._findings.append(CHECK.finding(kind, sum(further), f"{len(further):,} further reasons"))
        if found.open:
            self._findings.append(CHECK.finding("under_way", found.open))

    def _sample(self, says: str, slot: int, run: int = 0) -> JudgedSample:
        name = self._job.name
        return JudgedSample(says, slot * 1000, run_subject(name, run) if run else job_subject(name))

    def _unreadable(self, why: str) -> JudgedSubject:
        self._findings.append(CHECK.finding("unreadable", 1, why))
        at_ms = self._now_s * 1000
        return self._judgement(at_ms, at_ms, 0, is_open=True)

    def _judgement(self, from_ms: int, to_ms: int, judged: int, *, is_open: bool) -> JudgedSubject:
        verdict = verdict_of((each.severity for each in self._findings), is_open=is_open)
        order = {severity: place for place, severity in enumerate(Severity)}
        findings = sorted(self._findings, key=lambda each: order[each.severity])
        name = self._job.name
        return JudgedSubject(job_subject(name), name, verdict, from_ms, to_ms, judged, findings)


def _newest(demands: Sequence[SlotDemand], most: int) -> tuple[list[SlotDemand], int]:
    """The newest slots of them, so many at most, and before when some are left out, in seconds; 0: none is."""
    found: list[SlotDemand] = []
    for demand in reversed(demands):
        if most <= 0:
            return found, found[0].after_s + 1
        some = _newest_of(demand, most)
        found.insert(0, some)
        if some.after_s > demand.after_s:
            return found, some.after_s + 1
        most -= len(some.known or ())
    return found, 0


def _newest_of(demand: SlotDemand, most: int) -> SlotDemand:
    after_s, until_s = demand.after_s, demand.until_s
    while True:
        slots = list(islice(SlotDemand(demand.schedule, after_s, until_s).slots(), most + 1))
        if len(slots) <= most:
            return replace(demand, after_s=after_s, known=slots)
        # So many lie in a stretch of this length, or did there: a little less of it at the end has no more, mostly.
        after_s = until_s - max(1, (slots[most - 1] - after_s) * 9 // 10)


CHECK = AuditCheck(
    name="slots",
    title="Slots",
    subject_kind=JOB,
    one="job",
    many="jobs",
    clean="each of {count} slots of {subjects} has one run, or a reason for none",
    nothing="no slot of the span could be judged",
    forms=_FORMS,
    judge=judge_slots,
)
