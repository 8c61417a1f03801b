"""A node's part: claim what has come, decide it in the database, offer what is to run, and look after what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import NamedTuple

from engine.cron.slots.job import AfterLoss, CronJob, JobPolicy, Overlap
from engine.cron.slots.overlap import not_begun
from engine.cron.slots.parts import node_of
from engine.cron.slots.planning import decide, divided
from engine.cron.slots.steps import (
    ClaimSlots,
    Cursor,
    GiveUp,
    LeasesHeld,
    Monotonic,
    Offer,
    Opened,
    Opening,
    OpenRuns,
    Queued,
    ReadCursors,
    ReadOpen,
    RunRow,
    RunState,
    SlotClaims,
    SlotKey,
    Steps,
    WorkingNodes,
    offer_of,
)
from engine.cron.slots.timetable import Timetable
from engine.cron.slots.watching import overdue

#: How long a node has to decide a slot that it claimed before another may try, in seconds.
CLAIM_S = 5.0
#: About how many decisions are written together. After an outage of days there may be hundreds of each of many jobs.
MOST_DECIDED = 10_000
#: How long a run that could begin may wait for a worker before it is offered once more.
OFFER_AGAIN_S = 10.0
#: How often a run stands in the queue, on the average, before none is offered again: once for whoever offered it first,
#: and once more.
AT_MOST = 2
#: How many runs are offered in one call.
MOST_OFFERED = 500


class HeldOffer(NamedTuple):
    """An offer that is to be made once its slot has come, and not before."""

    #: When that is, by the monotonic clock of this process.
    at: float
    offer: Offer


class Scheduled(NamedTuple):
    """What was done of the jobs that were due, and what is left to be done."""

    #: How many runs were opened.
    opened: int = 0
    #: The first to come first.
    later: tuple[HeldOffer, ...] = ()


def schedule(table: Timetable, due: list[str], node: str, now_s: float, ahead_s: float = 0.0) -> Steps[Scheduled]:
    """Decide what has come of the jobs ``due`` in ``table``, and what comes within ``ahead_s``.

    ``now_s``: the node's own clock, which may be wrong. Raises ``Unavailable`` when store, database or queue do not
    answer: what is not decided, or not offered, is found again.
    """
    if doubted := table.doubted(due):
        cursors: list[Cursor] = yield ReadCursors(doubted)
        table.learn(doubted, cursors)
    waiting = _come(table, due, now_s + ahead_s)
    if not waiting:
        return Scheduled()
    # The first stands for all that follow it: who decides it moves the cursor, and the others start behind that.
    claims: SlotClaims = yield ClaimSlots(tuple(waiting), node, CLAIM_S, ahead_s)
    claimed_at: float = yield Monotonic()
    # Not what this node's own clock says: it may be ahead.
    until_s = claims.now_s + ahead_s
    table.look_again(waiting.keys() - claims.won, now_s + ahead_s, until_s)
    nodes: tuple[str, ...] = ()
    if any(job.policy.on_nodes for slot, (job, _) in waiting.items() if slot in claims.won):
        nodes = yield WorkingNodes()
    won = [
        (job, come)
        for slot, (job, slots) in waiting.items()
        if slot in claims.won and (come := [each for each in slots if each <= until_s])
    ]
    openings = tuple(_openings(table, won, claims.now_s, nodes))
    if not openings:
        return Scheduled()
    # Until it is answered that they were moved.
    table.doubt(opening.cursor.job for opening in openings)
    opened: Opened = yield OpenRuns(openings, node)
    table.learn([cursor.job for cursor in opened.cursors], opened.cursors)
    # What is not offered here is found by :class:`RunSweeper`.
    ours = {job.name for job, _ in waiting.values() if not job.policy.elsewhere}
    offered = [row for row in opened.rows if row.job in ours and row.not_before_s <= row.changed_s]
    if at_once := [row for row in offered if row.slot <= claims.now_s]:
        yield offer_of(at_once)
    # The store's clock was no further than it told when it had answered.
    to_come = (row for row in offered if row.slot > claims.now_s)
    return Scheduled(len(opened.rows), tuple(_later(to_come, claimed_at - claims.now_s)))


def _come(table: Timetable, due: Sequence[str], until_s: float) -> dict[SlotKey, tuple[CronJob, list[int]]]:
    """The jobs with their slots, by the first of these, as far as they are decided together."""
    found: dict[SlotKey, tuple[CronJob, list[int]]] = {}
    slots_found = 0
    for name in due:
        for job, slots in table.come(name, until_s):
            found[SlotKey(name, job.version, slots[0])] = job, slots
            slots_found += len(slots)
        if slots_found >= MOST_DECIDED:
            break
    return found


def _openings(
    table: Timetable, won: Iterable[tuple[CronJob, list[int]]], now_s: float, nodes: tuple[str, ...]
) -> Iterator[Opening]:
    """What is decided of them, as far as it fits into one transaction. What does not stays due, and this node's."""
    room = MOST_DECIDED
    for job, slots in won:
        if room <= 0:
            return
        fitting = slots[: max(1, room // max(1, len(job.parts(nodes))))]
        decisions = tuple(divided(job, decide(job, fitting, now_s), nodes))
        room -= len(decisions)
        yield Opening(table.cursor(job.name), decisions)


def _later(rows: Iterable[RunRow], offset_s: float) -> Iterator[HeldOffer]:
    for slot, some in groupby(sorted(rows, key=_age), key=lambda row: row.slot):
        yield HeldOffer(slot + offset_s, offer_of(some))


class RunSweeper:
    """Finds runs that nobody began, and those whose worker is gone. Its memory may be lost at any time.

    A lease that is missing counts only when it is missing twice, a whole lease apart: one that is being renewed is
    there in between.
    """

    def __init__(self) -> None:
        #: When the lease of a run, under an epoch, was first seen missing: the database's clock.
        self._missing: dict[tuple[int, int], float] = {}
        #: Since when a run, at an attempt, could have begun, and after how long a wait it is to be offered (again).
        self._ready: dict[tuple[int, int, float], _Ready] = {}

    def sweep(self, jobs: Mapping[str, CronJob], by_store_s: float) -> Steps[float]:
        """One look at everything open; in how many seconds the first further attempt is due. Raises ``Unavailable``.

        ``by_store_s``: the store's clock, before which no slot has come, whatever the database's says.
        """
        answer: tuple[list[RunRow], float] = yield ReadOpen()
        rows, now_s = answer
        rows = yield from _end_overdue(rows, jobs, now_s)
        claimed = [row for row in rows if row.state is RunState.CLAIMED]
        running = [row for row in rows if row.state is RunState.RUNNING]
        waiting: list[RunRow] = []
        for row in claimed:
            window_s = _policy(jobs, row.job).catch_up_window_s
            if now_s - _due_s(row) <= window_s:
                waiting.append(row)
                continue
            why = "it waited longer for another run of the job than" if row.waits else "no worker began it within"
            yield GiveUp(row, *not_begun(row, RunState.ABANDONED, f"{why} {window_s:,.0f} s"))
        come = [row for row in _with_room(waiting, running, jobs) if not _is_ahead(row, by_store_s)]
        if again := self._to_offer(come, jobs, now_s):
            yield from self._offer(again, waiting, now_s)
        held: set[int] = (yield LeasesHeld(tuple(row.id for row in running))) if running else set()
        missing = {(row.id, row.epoch): row for row in running if row.id not in held}
        self._missing = {key: self._missing.get(key, now_s) for key in missing}
        for key, since in list(self._missing.items()):
            policy = _policy(jobs, missing[key].job)
            if now_s - since > policy.lease_s:
                yield from _end_lost(missing[key], policy, waiting)
        return min((due_s for row in waiting if (due_s := _due_s(row) - now_s) > 0), default=inf)

    def _to_offer(self, waiting: Sequence[RunRow], jobs: Mapping[str, CronJob], now_s: float) -> list[RunRow]:
        """Those that have waited twice as long as when they were offered last: the workers may be busy."""
        known, self._ready = self._ready, {}
        found = []
        for row in waiting:
            # Whoever was told to come later begins to wait anew.
            key = (row.id, row.attempt, row.not_before_s)
            # A further attempt, and one that begins later than its slot, is offered by nobody else.
            by_us = row.attempt > 1 or row.not_before_s > row.changed_s
            # Within the time in which it is to be begun, unless that is shorter than two sweeps are apart.
            again_s = min(OFFER_AGAIN_S, _policy(jobs, row.job).catch_up_window_s / 2)
            first_s = 0.0 if by_us and not row.waits else again_s
            # One that waited for another run was not to be offered until that had ended.
            ready = self._ready[key] = known.get(key) or _Ready(now_s if row.waits else _due_s(row), first_s)
            if now_s - ready.since >= ready.offer_s:
                found.append(row)
        return found

    def _offer(self, again: Sequence[RunRow], waiting: Sequence[RunRow], now_s: float) -> Steps[None]:
        """As many of ``again`` as fit into queues in which each that waits stands twice, the oldest first.

        Nobody knows which of them stand there, and so it may be more than once: all nodes offer them, and so did those
        before this one. Where there are workers, they take what is too much as well, and the rest is offered then.
        """
        nodes = sorted({node_of(row.part) for row in again} - {""})
        queued: Mapping[str, int] = yield Queued(tuple(nodes))
        stand, waits = Counter(queued), Counter(node_of(row.part) for row in waiting)
        fitting = []
        for row in again:
            node = node_of(row.part)
            if stand[node] < AT_MOST * waits[node]:
                stand[node] += 1
                fitting.append(row)
        for start in range(0, len(fitting), MOST_OFFERED):
            some = fitting[start : start + MOST_OFFERED]
            yield offer_of(some)
            # Not before: a queue that does not answer has not been told.
            for row in some:
                ready = self._ready[row.id, row.attempt, row.not_before_s]
                ready.offer_s = max(OFFER_AGAIN_S, 2 * (now_s - ready.since))


@dataclass(slots=True)
class _Ready:
    since: float
    offer_s: float


def _due_s(row: RunRow) -> float:
    """From when on it could have been begun, as far as it did not wait for another."""
    return max(row.changed_s, row.not_before_s)


def _is_ahead(row: RunRow, by_store_s: float) -> bool:
    """Whether it was decided before its slot came, which it has not yet."""
    return row.slot > max(row.changed_s, by_store_s)


def _with_room(waiting: Sequence[RunRow], running: Sequence[RunRow], jobs: Mapping[str, CronJob]) -> list[RunRow]:
    """Of those that wait for another run as many of each job, the oldest, as may begin; and all that wait for none."""
    taken = Counter(_series(row, jobs) for row in running if not row.manual or _policy(jobs, row.job).binds_manual)
    found = []
    for row in sorted(waiting, key=_age):
        policy = _policy(jobs, row.job)
        # Where room is on each node, whoever asks for the run finds it.
        limit = 0 if policy.per_node else policy.limit
        if row.waits and limit:
            taken[_series(row, jobs)] += 1
            if taken[_series(row, jobs)] > limit:
                continue
        found.append(row)
    return found


def _series(row: RunRow, jobs: Mapping[str, CronJob]) -> tuple[str, str]:
    """What is alike in runs that meet."""
    return row.job, "" if _policy(jobs, row.job).overlap is Overlap.RUN else row.part


def _age(row: RunRow) -> tuple[int, int]:
    return row.slot, row.id


def _policy(jobs: Mapping[str, CronJob], name: str) -> JobPolicy:
    """Of a job that is gone, or cannot be read, the usual one: what is open of it must come to an end."""
    job = jobs.get(name)
    return JobPolicy() if job is None else job.policy


def _end_overdue(rows: Sequence[RunRow], jobs: Mapping[str, CronJob], now_s: float) -> Steps[list[RunRow]]:
    """End what is done elsewhere and was not told of in time; the rows that are for workers."""
    ours = []
    for row in rows:
        job = jobs.get(row.job)
        if job is None or not job.policy.elsewhere:
            ours.append(row)
        elif late := overdue(row, job.policy, now_s, job.held):
            yield GiveUp(row, late.state, late.reason)
    return ours


def _end_lost(row: RunRow, policy: JobPolicy, waiting: Sequence[RunRow]) -> Steps[None]:
    again = policy.after_loss is AfterLoss.RETRY and row.attempt < policy.attempts
    given_up: bool = yield GiveUp(row, RunState.LOST, "its worker did not renew its lease", again)
    if not given_up:
        return
    same = [each for each in waiting if each.waits and each.job == row.job and policy.meet(row.part, each.part)]
    if same:
        yield offer_of([min(same, key=_age)])
