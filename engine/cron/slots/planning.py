"""Which slots are to be decided now, and how: a pure function of the job, its cursor and the time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from engine.cron.exclusions import walk
from engine.cron.slots.job import CatchUp, CronJob
from engine.cron.slots.parts import WHOLE

#: Slots that are decided in one go.
MOST_AT_ONCE = 500
#: Why a slot that is for every node does not run.
NO_NODE = "no node that does jobs was alive"


class Decision(NamedTuple):
    """What becomes of one slot: it runs, or it is skipped for a reason that its row keeps."""

    slot: int
    #: Empty: it runs.
    skipped: str = ""
    #: How long after its slot it is to begin, in seconds.
    wait_s: int = 0
    #: Which part of it, see :mod:`~engine.cron.slots.parts`.
    part: str = WHOLE


def due_after(job: CronJob, cursor: int, now_s: float) -> list[int]:
    """The slots after ``cursor`` that have come, oldest first, at most :data:`MOST_AT_ONCE`.

    They follow from the cursor alone: every node finds the same.
    """
    found: list[int] = []
    slot = job.slots.next_after(cursor)
    while slot is not None and slot <= now_s and len(found) < MOST_AT_ONCE:
        found.append(slot)
        slot = job.slots.next_after(slot)
    return found


def decide(job: CronJob, slots: list[int], now_s: float) -> list[Decision]:
    """How each of ``slots``, which have all come, is decided at ``now_s``. Its order is kept."""
    if job.held:
        return [Decision(slot, job.held) for slot in slots]
    policy = job.policy
    if job.exclusions is None and not policy.jitter_s and now_s - slots[0] <= policy.grace_s:
        return [Decision(slot) for slot in slots]
    left_out = {slot: f"left out: {why}" for slot in slots if (why := job.excluded(slot))}
    late = [slot for slot in slots if now_s - slot > policy.grace_s and slot not in left_out]
    caught_up = set(_caught_up(job, [slot for slot in late if now_s - slot <= policy.catch_up_window_s], now_s))
    left_out |= {slot: _why(job, slot, now_s) for slot in late if slot not in caught_up}
    return [
        Decision(slot, left_out[slot]) if slot in left_out else Decision(slot, "", job.wait_s(slot)) for slot in slots
    ]


def divided(job: CronJob, decisions: list[Decision], nodes: tuple[str, ...]) -> list[Decision]:
    """A decision for each part of what is to run, where ``nodes`` have workers. Their order is kept."""
    named = job.parts(nodes)
    if named == (WHOLE,):
        return decisions
    found: list[Decision] = []
    for decision in decisions:
        if decision.skipped:
            found.append(decision)
        elif not named:
            found.append(decision._replace(skipped=NO_NODE))
        else:
            found += [decision._replace(part=part) for part in named]
    return found


def _caught_up(job: CronJob, late: list[int], now_s: float) -> list[int]:
    """Which of ``late`` run. They may be the oldest of many: what was missed behind them counts as well."""
    if not late or job.policy.catch_up is CatchUp.NONE:
        return []
    if job.policy.catch_up is CatchUp.ALL:
        most, come = job.policy.catch_up_most, _kept(job, late[-1], now_s)
        newer = sum(1 for _ in islice(takewhile(lambda slot: now_s - slot > job.policy.grace_s, come), most))
        return late[-(most - newer) :] if newer < most else []
    # The newest of what came and was missed, and it is not among these while one behind them has come too.
    return [] if next(_kept(job, late[-1], now_s), None) else late[-1:]


def _kept(job: CronJob, after: int, now_s: float) -> Iterator[int]:
    """The slots after ``after`` that have come, and are not left out."""
    return walk(job.slots.next_after, int, job.exclusions, after, until=now_s)


def _why(job: CronJob, slot: int, now_s: float) -> str:
    policy = job.policy
    by = f"missed: nobody scheduled it for {now_s - slot:,.0f} s"
    if now_s - slot > policy.catch_up_window_s:
        return f"{by}, longer than its window of {policy.catch_up_window_s:,.0f} s"
    if policy.catch_up is CatchUp.NONE:
        return f"{by}, and the job catches up with none"
    if policy.catch_up is CatchUp.LAST:
        return f"{by}, and of all that has come since the job runs the last alone"
    return f"{by}, and the job catches up with {policy.catch_up_most} at most"
