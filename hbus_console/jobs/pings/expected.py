"""Which slot of a job a ping is waited for at: found by the time alone, whether a node has decided it or not."""

from __future__ import annotations

from itertools import takewhile
from math import ceil

from engine.core.errors import HbusError
from engine.cron.expression import Schedule
from engine.cron.slots.steps import RunState
from hbus_console.jobs import opening
from hbus_console.jobs.known import cron_job, schedule_of
from hbus_console.jobs.models import Job, JobCursor, JobRun
from hbus_console.wiring import store

#: A clock elsewhere may be ahead of ours: so long before its slot a ping is that slot's, but for no more than this
#: part of the time to the slot behind it. In seconds.
EARLY_S, EARLY_PART = 30.0, 0.1
#: Slots that nobody has decided yet, the newest: so many are looked at.
MOST_UNDECIDED = 50


def why_none(job: Job) -> str:
    """Why no ping is waited for at any slot of it, as the end of a sentence; empty where one may be."""
    try:
        return cron_job(job).held
    except HbusError as error:
        return f"its schedule cannot be read: {error.what}"


def waiting_run(job: Job, now_us: int, *, begins: bool, rid: str = "") -> JobRun | None:
    """The run of the slot that waits for a ping now, locked; made where no node has decided its slot yet.

    Of several it is the newest that has come: an older one was missed, or takes longer. A slot that is about to come is
    taken before that by what ``begins``, and else only where no other waits. What a log has bound to another ``rid``
    waits for that alone.
    """
    if why_none(job):
        return None
    looks = (_about_to_come, _come) if begins else (_come, _about_to_come)
    for look in looks:
        found = look(job, now_us)
        if found is not None and found.key in ("", rid):
            return found
    return None


def come_since(job: Job, now_us: int, since_us: int) -> JobRun | None:
    """The run of the newest slot after ``since_us`` that has come and waits for a ping without a ``rid``, locked."""
    found = None if why_none(job) else _come(job, now_us, since_us)
    return found if found is not None and not found.key else None


def missed_run(job: Job, now_us: int) -> JobRun | None:
    """The run of the last slot that has come, where no ping came for it in time and none was late until now."""
    now_s = now_us // 1_000_000
    cursor = JobCursor.objects.values_list("at", flat=True).get(job=job.name)
    for slot in _newest(schedule_of(job), cursor, now_s)[:1]:
        opening.insert_runs([opening.Decided(job.name, job.version, slot, "")], store.node_name(), now_us)
    rows = JobRun.objects.filter(job=job.name, kind=JobRun.Kind.SCHEDULE, slot__lte=now_s)
    last = rows.select_for_update().order_by("-slot").first()
    # One that is claimed still has only not been looked at since.
    missed = last is not None and last.state in (RunState.ABANDONED, RunState.CLAIMED) and not last.summary
    return last if missed else None


def _come(job: Job, now_us: int, after_us: int = 0) -> JobRun | None:
    now_s = now_us // 1_000_000
    since_s = max(ceil(now_us / 1_000_000 - job.grace_s), after_us // 1_000_000 + 1)
    rows = JobRun.objects.filter(job=job.name, kind=JobRun.Kind.SCHEDULE)
    waits = rows.filter(ended_us=None, state=RunState.CLAIMED, slot__gte=since_s, slot__lte=now_s)
    decided = waits.order_by("-slot").values_list("slot", flat=True).first()
    cursor = JobCursor.objects.values_list("at", flat=True).get(job=job.name)
    undecided = _newest(schedule_of(job), max(since_s - 1, cursor), now_s)
    known = set(rows.filter(slot__in=undecided).values_list("slot", flat=True)) if undecided else set()
    fresh = next((slot for slot in undecided if slot not in known), None)
    slot = max((each for each in (decided, fresh) if each is not None), default=None)
    return None if slot is None else _opened(job, slot, now_us)


def _about_to_come(job: Job, now_us: int) -> JobRun | None:
    schedule = schedule_of(job)
    slot = schedule.next_after(now_us // 1_000_000)
    following = None if slot is None else schedule.next_after(slot)
    if slot is None:
        return None
    early_s = EARLY_S if following is None else min(EARLY_S, (following - slot) * EARLY_PART)
    return _opened(job, slot, now_us) if slot - now_us / 1_000_000 <= early_s else None


def _newest(schedule: Schedule, after_s: int, now_s: int) -> list[int]:
    """The slots after ``after_s`` that have come, the newest first, at most :data:`MOST_UNDECIDED`."""
    reach_s = 60
    while True:
        begin_s = max(after_s, now_s - reach_s)
        found = [slot.at for slot in takewhile(lambda slot: slot.at <= now_s, schedule.slots(begin_s))]
        if found or begin_s == after_s:
            return found[::-1][:MOST_UNDECIDED]
        reach_s *= 8


def _opened(job: Job, slot: int, now_us: int) -> JobRun | None:
    """The run of a slot while it waits. The row is the judge: whoever made it, there is one."""
    opening.insert_runs([opening.Decided(job.name, job.version, slot, "")], store.node_name(), now_us)
    row = JobRun.objects.select_for_update().get(job=job.name, slot=slot, kind=JobRun.Kind.SCHEDULE)
    return row if row.state == RunState.CLAIMED else None
