"""What alert rules may watch of jobs: that one fails, does not run, runs late, or runs for too long.

Of a job elsewhere a slot that no ping came for is one that did not run: it is told of until a ping comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import models
from django.db.models import F, Min
from django.db.models.functions import Greatest

from engine.core.errors import HbusError
from engine.cron.slots.steps import RunState
from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.jobs.known import coming
from hbus_console.jobs.models import ENDED, Job, JobCursor, JobRun
from hbus_console.jobs.recent import newest_runs
from hbus_console.jobs.targets import JOBS

#: So many of a job's last runs are looked at for failures in a row.
MOST_IN_A_ROW = 20
#: What was committed late bears a time before the last look, in milliseconds.
LOOK_BACK_MS = 60_000
_FAILURES = (RunState.FAILED, RunState.LOST, RunState.ABANDONED)


def _failures(case: Case) -> float | None:
    return float(case.round.once(_in_a_row).get(case.target.key[0], 0))


def _in_a_row(now: Round) -> Mapping[str, int]:
    return now.kept(FailuresInARow).read(now.now_ms)


@dataclass
class FailuresInARow:
    """How many of the last runs of each job ended without success, up to one that was done; skipped ones do not count.

    Looks at all that ever failed once, and then at what changed since. Not for several threads.
    """

    _known: dict[str, int] = field(default_factory=dict)
    _looked_ms: int = 0

    def read(self, now_ms: int) -> Mapping[str, int]:
        # Each job once, but not by the database: SQLite would walk the index of jobs over all runs there are.
        ended = JobRun.objects.filter(ENDED)
        if self._looked_ms:
            since_us = (self._looked_ms - LOOK_BACK_MS) * 1_000
            ended = ended.filter(changed_us__gte=since_us).order_by("-changed_us")
        else:
            ended = ended.filter(state__in=_FAILURES).order_by()
        jobs = sorted(set(ended.values_list("job", flat=True).iterator()))
        elsewhere = set(Job.objects.elsewhere().filter(name__in=jobs).values_list("name", flat=True))
        found = newest_runs(jobs, 2 * MOST_IN_A_ROW).items()
        self._known |= {
            job: _count([run for run in runs if not (job in elsewhere and _missed(run))]) for job, runs in found
        }
        self._looked_ms = now_ms
        return self._known


def _count(runs: list[JobRun]) -> int:
    count = 0
    for run in runs:
        if run.state in _FAILURES:
            count += 1
        elif run.state == RunState.DONE:
            break
    return min(count, MOST_IN_A_ROW)


def _silence(case: Case) -> float | None:
    """Seconds since the first slot that nobody decided, or was heard of; below every threshold where there is none."""
    now_s, job = case.round.now_ms / 1000, case.target.key[0]
    grace_s = case.round.once(_graces).get(job, 0)
    # What runs elsewhere is claimed until a ping comes; what a worker is to do is late, which is told for itself.
    looks = (*([_waiting] if job in case.round.once(_graces) else []), _undecided, _unheard)
    since = [
        at + grace_s for look in looks if (at := case.round.once(look).get(job)) is not None and at + grace_s <= now_s
    ]
    return now_s - min(since) if since else -1.0


def _late(case: Case) -> float | None:
    """Seconds since the first run was to begin that no worker has; below every threshold where there is none."""
    job = case.target.key[0]
    since_s = None if job in case.round.once(_graces) else case.round.once(_waiting).get(job)
    return -1.0 if since_s is None else max(-1.0, case.round.now_ms / 1000 - since_s)


def _missed(run: JobRun) -> bool:
    """Whether it is a slot that nobody was heard of."""
    return run.state == RunState.ABANDONED and run.begun_us is None


def _graces(now: Round) -> Mapping[str, int]:
    """How long after its slot a ping of each job elsewhere may come."""
    return dict(Job.objects.elsewhere().order_by().values_list("name", "grace_s"))


def _unheard(now: Round) -> Mapping[str, int]:
    """Of each job elsewhere that was not heard of since, the first of its last slots that no ping came for."""
    found: dict[str, int] = {}
    for job, runs in newest_runs(list(now.once(_graces)), MOST_IN_A_ROW).items():
        for run in runs:
            if _missed(run):
                found[job] = run.slot
            elif run.begun_us is not None or run.state in (RunState.DONE, RunState.FAILED):
                break
    return found


def _waiting(now: Round) -> Mapping[str, int]:
    """Of each job, since when a run that is due has waited for a worker, and for nothing else."""
    rows = JobRun.objects.filter(ended_us=None, state=RunState.CLAIMED, waits=False)
    due = rows.filter(not_before_us__lte=now.now_ms * 1_000)
    # What is tried again has waited since its last attempt ended, or since the pause after that.
    slot_us = models.ExpressionWrapper(F("slot") * 1_000_000, models.BigIntegerField())
    begins_us = models.Case(models.When(attempt=1, then=slot_us), default=F("changed_us"))
    since_us = Min(Greatest(begins_us, F("not_before_us")))
    return {job: at_us // 1_000_000 for job, at_us in due.order_by().values_list("job").annotate(since_us=since_us)}


def _undecided(now: Round) -> Mapping[str, int]:
    """The first slot of each job that has no row yet; it may lie ahead."""
    return now.kept(FirstSlots).read()


@dataclass
class FirstSlots:
    """The first undecided slot of each job, reckoned anew when its cursor has moved. Not for several threads."""

    _known: dict[str, tuple[int, int, int | None]] = field(default_factory=dict)

    def read(self) -> dict[str, int]:
        """By job; without those that never run again, or whose schedule cannot be read."""
        cursors = {job: (version, at) for job, version, at in JobCursor.objects.values_list("job", "version", "at")}
        stale = [job for job, place in cursors.items() if self._known.get(job, ())[:2] != place]
        for start in range(0, len(stale), 500):
            for row in Job.objects.filter(name__in=stale[start : start + 500]):
                self._known[row.name] = (*cursors[row.name], _first(row, cursors[row.name][1]))
        self._known = {job: self._known[job] for job in cursors if job in self._known}
        return {job: first for job, (_, _, first) in self._known.items() if first is not None}


def _first(row: Job, at: int) -> int | None:
    try:
        return next((slot.at for slot in coming(row, at)), None)
    except HbusError:
        return None


def _running(case: Case) -> float | None:
    began_us = case.round.once(_begun).get(case.target.key[0])
    return -1.0 if began_us is None else max(0.0, case.round.now_ms / 1000 - began_us / 1_000_000)


def _begun(now: Round) -> Mapping[str, int]:
    """When the longest of the runs began that go on, by job."""
    rows = JobRun.objects.filter(ended_us=None, state=RunState.RUNNING)
    return dict(rows.order_by().values_list("job").annotate(Min("begun_us")))


KINDS = (
    AlertKind(
        name="job_failures",
        title="Failed runs in a row",
        unit="runs",
        unit_of_one="run",
        says="has failed",
        help="How many of a job's last runs ended without success, up to one that was done. Skipped ones do not"
        " count, nor do slots of a job elsewhere that no ping came for.",
        targets=JOBS,
        measure=_failures,
        place=90,
        defaults=(
            DefaultRule(
                "A job fails",
                1,
                "Look at the log of its last run, mend what it says, and run it again.",
                clear_s=0,
            ),
        ),
    ),
    AlertKind(
        name="job_silent",
        title="A job does not run",
        unit="seconds",
        says="has a slot that nobody has decided for",
        help="How long the first slot of a job has waited that no node has decided."
        " Of a job elsewhere: since when a ping should have come, after its grace.",
        targets=JOBS,
        measure=_silence,
        while_paused=False,
        usual=120,
        absent="nothing waits",
        place=91,
        defaults=(
            DefaultRule(
                "A job does not run",
                120,
                "Does a cron node live? The cluster page says so. Of a job elsewhere: does its host live, and does it"
                " still ping its address?",
            ),
        ),
    ),
    AlertKind(
        name="job_late",
        title="A job runs late",
        unit="seconds",
        says="has a run that no worker has begun for",
        help="How long a run of a job has waited for a worker, from when it was to begin, and for nothing else.",
        targets=JOBS,
        measure=_late,
        usual=120,
        absent="no run waits",
        place=91,
        defaults=(
            DefaultRule(
                "A job runs late",
                120,
                "Are all workers busy? The page of jobs says how many runs wait, and Nodes and leases what runs. Stop"
                " what hangs, or start more workers. Does a jobs worker live at all? The cluster page says so.",
            ),
        ),
    ),
    AlertKind(
        name="job_long",
        title="A run takes long",
        unit="seconds",
        says="has been running for",
        help="How long the longest run of a job has been going on.",
        targets=JOBS,
        measure=_running,
        usual=3_600,
        absent="nothing runs",
        place=92,
    ),
)
