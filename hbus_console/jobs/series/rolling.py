"""Rolls runs up into series.

A run counts in the span of its slot. A minute in which a run changed is counted anew from all its runs and put in place
of what was known of it, and its hour and its day are changed by the difference, all in one transaction: whoever rolls
up twice, or is killed, leaves what one that did it once would have.

A run that goes is counted first, and stays as long as another run of its minute is open, see
:mod:`hbus_console.jobs.retention`: so a minute that changes has all its runs. Where one is gone all the same, for there
are fewer that are over than were known, what was known of the minute stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter

from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.resolution import Resolution
from hbus_console.database import BATCH, in_batches
from hbus_console.evidence.inserting import Insert
from hbus_console.evidence.router import LEDGER
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.series.rows import JobSeriesPoint, JobsRolledUp
from hbus_console.jobs.series.tally import COLUMNS, JobTally

#: Changes that are taken in one transaction.
CHANGES = 5_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0
#: Changes of the last so many microseconds are looked at again: who wrote them may commit after others did that wrote
#: later.
SETTLE_US = 120_000_000
#: The job, and when its span begins, in seconds since the epoch.
Span = tuple[str, int]
#: After all rows that changed in one moment.
_LAST = 2**63 - 1
_MINUTE_S = Resolution.MINUTE.seconds
#: Of a run, what its series need.
_COLUMNS = (
    "job",
    "slot",
    "kind",
    "state",
    "attempt",
    "not_before_us",
    "decided_us",
    "begun_us",
    "first_late_us",
    "ended_us",
    "changed_us",
)
_POINTS = Insert(
    JobSeriesPoint._meta.db_table,
    ("job", "resolution", "at", *COLUMNS),
    "ON CONFLICT (job, resolution, at) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS),
)


def span_of(run: JobRun) -> Span:
    """The minute that a run counts in."""
    return run.job, run.slot // _MINUTE_S * _MINUTE_S


class JobSeriesRollUp:
    """A duty."""

    name = "job-series"
    interval_s = 60.0

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Roll up what changed since the last one, for at most about :data:`TICK_S` seconds; the next tick goes on."""
        started, after = self._clock.monotonic(), (reached_us(), _LAST)
        while (last := self._step(*after)) is not None:
            if self._clock.monotonic() - started > TICK_S:
                return
            after = last

    def _step(self, changed_us: int, pk: int) -> tuple[int, int] | None:
        """Roll up some changes after that one; which was the last, or ``None``: there are no more."""
        changed = list(
            JobRun.objects.filter(changed_us__gte=changed_us)
            .exclude(changed_us=changed_us, pk__lte=pk)
            .order_by("changed_us", "pk")
            .only("job", "slot", "changed_us")[:CHANGES]
        )
        if not changed:
            return None
        now_ms, last, more = self._clock.now_ms(), changed[-1], len(changed) == CHANGES
        # Others may have changed in the same moment as the last.
        upto_us = min(last.changed_us - more, now_ms * 1_000 - SETTLE_US)
        with transaction.atomic(using=LEDGER):
            mark = _locked()
            points = _count({span_of(run) for run in changed}, mark)
            if points or upto_us > mark.changed_us:
                mark.changed_us, mark.at_ms = max(upto_us, mark.changed_us), now_ms
                mark.whole |= not more
                mark.save()
        return (last.changed_us, last.pk) if more else None


def reached_us() -> int:
    """Up to which change, by the database's clock in microseconds, all is rolled up; 0: nothing is."""
    return JobsRolledUp.objects.values_list("changed_us", flat=True).first() or 0


def roll_up_runs(runs: Iterable[JobRun]) -> None:
    """Roll up the minutes of these, if what became of them may not be rolled up so far: for they are about to go."""
    upto_us = reached_us()
    spans = {span_of(run) for run in runs if run.changed_us > upto_us}
    if spans:
        with transaction.atomic(using=LEDGER):
            _count(spans, _locked())


def job_series() -> JobSeriesRollUp:
    """The duty of the keeper."""
    return JobSeriesRollUp()


def _locked() -> JobsRolledUp:
    JobsRolledUp.objects.get_or_create(pk=1)
    # Two that roll up do so one after the other, and the later one reads what there is then.
    return JobsRolledUp.objects.select_for_update().get(pk=1)


def _count(spans: Collection[Span], mark: JobsRolledUp) -> int:
    """Have what is known of these minutes be what became of their runs; how many points changed."""
    counted_us = mark.changed_us if mark.whole else 0
    known, made = _known(Resolution.MINUTE, spans), {span: JobTally() for span in spans}
    # Of a minute whose point went for its age: its runs of before then are in its hour and its day.
    gone: dict[Span, JobTally] = {}
    for run in _runs_of(spans):
        if (tally := made.get(span := span_of(run))) is not None:
            tally.add(run)
            if span not in known and run.decided_us <= counted_us:
                gone.setdefault(span, JobTally()).add(run)
    before = {span: known.get(span) or gone.get(span) or JobTally() for span in spans}
    changed = [
        (span, before[span], now) for span, now in made.items() if now.over >= before[span].over and now != before[span]
    ]
    _write(Resolution.MINUTE, {span: now for span, _, now in changed})
    points = len(changed)
    for resolution in (Resolution.HOUR, Resolution.DAY):
        step = resolution.seconds
        wider = {span: (span[0], span[1] // step * step) for span, *_ in changed}
        sums = _known(resolution, set(wider.values()))
        for span, was, now in changed:
            sums.setdefault(wider[span], JobTally()).change(was, now)
        _write(resolution, sums)
        points += len(sums)
    return points


def _runs_of(spans: Collection[Span]) -> Iterator[JobRun]:
    """All of these minutes, and perhaps others. A statement for each stretch: of several in one a database may read
    all that there is of a job instead."""
    for start, end, jobs in _stretches(spans):
        rows = JobRun.objects.only(*_COLUMNS).filter(slot__gte=start, slot__lt=end)
        if len(jobs) <= BATCH:
            rows = rows.filter(job__in=jobs)
        yield from rows.order_by().iterator(chunk_size=2_000)


def _stretches(spans: Collection[Span]) -> list[tuple[int, int, set[str]]]:
    """From when to when minutes last that follow each other, and of which jobs they are."""
    found: list[tuple[int, int, set[str]]] = []
    for job, minute in sorted(spans, key=itemgetter(1)):
        if found and minute <= found[-1][1]:
            start, _, jobs = found[-1]
            jobs.add(job)
            found[-1] = start, minute + _MINUTE_S, jobs
        else:
            found.append((minute, minute + _MINUTE_S, {job}))
    return found


def _known(resolution: Resolution, spans: Collection[Span]) -> dict[Span, JobTally]:
    """What was written of these, where something was."""
    found: dict[Span, JobTally] = {}
    if not spans:
        return found
    times = [at for _, at in spans]
    for jobs in in_batches(sorted({job for job, _ in spans})):
        points = JobSeriesPoint.objects.filter(
            job__in=jobs, resolution=resolution.value, at__gte=min(times), at__lte=max(times)
        )
        for job, at, *values in points.values_list("job", "at", *COLUMNS).iterator(chunk_size=2_000):
            if (job, at) in spans:
                found[job, at] = JobTally.of(dict(zip(COLUMNS, values, strict=True)))
    return found


def _write(resolution: Resolution, tallies: dict[Span, JobTally]) -> None:
    _POINTS.run([(job, resolution.value, at, *tally.values()) for (job, at), tally in tallies.items()])
