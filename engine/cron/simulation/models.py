"""What store, database and queue do with each step, without any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.cron.slots.job import CronJob, JobPolicy
from engine.cron.slots.node import AHEAD_S
from engine.cron.slots.overlap import MOST_TAGGED, REPLACED, STOPPED, OverlapVerdict, judged_overlap, not_begun
from engine.cron.slots.parts import may_do, node_of
from engine.cron.slots.planning import Decision
from engine.cron.slots.steps import (
    Acquire,
    Begin,
    Beginning,
    CancelledRuns,
    ClaimSlots,
    Cursor,
    End,
    Ending,
    GiveUp,
    LeasesHeld,
    Offer,
    Opened,
    OpenRuns,
    Queued,
    ReadCursors,
    ReadOpen,
    ReadRun,
    Release,
    Renew,
    RunRow,
    RunState,
    SlotClaims,
    SlotKey,
)


@dataclass(frozen=True, slots=True)
class Lock:
    owner: str
    epoch: int
    until: float


class ModelStore:
    """Keys that expire by the store's own clock; may forget everything."""

    def __init__(self) -> None:
        #: The node, and until when others leave it the slot.
        self.markers: dict[SlotKey, tuple[str, float]] = {}
        self.locks: dict[int, Lock] = {}
        self.epochs: dict[int, int] = {}

    def flush(self) -> None:
        self.markers.clear()
        self.locks.clear()
        self.epochs.clear()

    def claim(self, step: ClaimSlots, now: float) -> SlotClaims:
        until = now + step.ahead_s
        won = frozenset(slot for slot in step.slots if slot.at <= until and self._is_free(slot, step.node, now))
        self.markers.update(dict.fromkeys(won, (step.node, now + step.ttl_s)))
        return SlotClaims(won, now)

    def _is_free(self, slot: SlotKey, node: str, now: float) -> bool:
        holder, until = self.markers.get(slot, (node, 0.0))
        return holder == node or until <= now

    def acquire(self, step: Acquire, now: float) -> int:
        if self._held(step.run, now) is not None:
            return 0
        epoch = max(self.epochs.get(step.run, 0), step.floor) + 1
        self.epochs[step.run] = epoch
        self.locks[step.run] = Lock(step.owner, epoch, now + step.ttl_s)
        return epoch

    def renew(self, step: Renew, now: float) -> bool:
        lock = self._held(step.run, now)
        if lock is None or (lock.owner, lock.epoch) != (step.owner, step.epoch):
            return False
        self.locks[step.run] = replace(lock, until=now + step.ttl_s)
        return True

    def release(self, step: Release, now: float) -> None:
        lock = self._held(step.run, now)
        if lock is not None and (lock.owner, lock.epoch) == (step.owner, step.epoch):
            del self.locks[step.run]

    def leases_held(self, step: LeasesHeld, now: float) -> set[int]:
        return {run for run in step.runs if self._held(run, now) is not None}

    def _held(self, run: int, now: float) -> Lock | None:
        lock = self.locks.get(run)
        return lock if lock is not None and lock.until > now else None


@dataclass(frozen=True, slots=True)
class StopRequest:
    """``epoch``: that under which the run was running then."""

    epoch: int
    why: str


class ModelDatabase:
    """Rows that are never forgotten; each step is one transaction."""

    def __init__(self, jobs: Mapping[str, CronJob], begin: int) -> None:
        self.jobs = jobs
        #: How many runs of a tag may run at the same time.
        self.limits: dict[str, int] = {}
        self.cursors = {name: Cursor(name, job.version, begin) for name, job in jobs.items()}
        self.runs: dict[int, RunRow] = {}
        self.reasons: dict[int, str] = {}
        #: The runs that are claimed or running.
        self.open: dict[int, RunRow] = {}
        self.by_slot: dict[tuple[str, int], list[int]] = {}
        #: Runs that were asked to stop.
        self.stops: dict[int, StopRequest] = {}
        #: Every row as it was written when its state changed.
        self.history: list[RunRow] = []
        #: How often the effect of a run was done.
        self.effects: dict[int, int] = {}
        #: Effects that were done by who had lost the run.
        self.stale: list[str] = []
        #: Effects that were done on a node that they were not for.
        self.astray: list[str] = []
        #: Slots that were opened sooner before they came than they may be, by true time.
        self.early: list[str] = []

    def read_cursors(self, step: ReadCursors, now: float) -> list[Cursor]:
        return [self.cursors[job] for job in step.jobs if job in self.cursors]

    def open_runs(self, step: OpenRuns, now: float) -> Opened:
        cursors: list[Cursor] = []
        rows: list[RunRow] = []
        for opening in step.openings:
            job = opening.cursor.job
            if self.cursors.get(job) == opening.cursor:
                self.cursors[job] = opening.cursor._replace(at=opening.decisions[-1].slot)
                cursors.append(self.cursors[job])
                new = [each for each in opening.decisions if not self._is_there(job, each)]
                rows += [row for each in new if (row := self.insert(job, each, now))]
        return Opened(tuple(cursors), tuple(rows))

    def read_run(self, step: ReadRun, now: float) -> RunRow | None:
        return self.runs.get(step.run)

    def begin(self, step: Begin, now: float) -> Beginning:
        row = self.runs[step.run]
        if step.policy.elsewhere or row.state is not RunState.CLAIMED or step.epoch <= row.epoch:
            return Beginning.REFUSED
        if not may_do(step.owner, row.part):
            return Beginning.REFUSED
        if now < row.not_before_s:
            return Beginning.WAITS
        is_free = row.manual and not step.policy.binds_manual
        verdict = judged_overlap(row, [] if is_free else self._beside(row, step.policy), step.policy)
        if verdict.beginning is Beginning.BEGUN and not is_free and self.full_tags(step.policy):
            verdict = OverlapVerdict(Beginning.WAITS)
        for other in verdict.cancelled:
            self._stop(self.runs[other], STOPPED)
        for each in verdict.replaced:
            self._end(each, *not_begun(each, RunState.SKIPPED, REPLACED), now)
        if verdict.beginning is Beginning.BEGUN:
            self.change(row, now, state=RunState.RUNNING, epoch=step.epoch, waits=False)
        elif verdict.ends:
            self._end(row, *not_begun(row, RunState.SKIPPED, verdict.ends), now)
        elif verdict.beginning is Beginning.WAITS:
            self._keep(replace(row, waits=True))
        return verdict.beginning

    def end(self, step: End, now: float) -> Ending:
        row = self.runs[step.run]
        if row.epoch != step.epoch:
            return Ending()
        if row.state is RunState.RUNNING:
            row = self._by_end(row, step, now)
        is_again = (row.state, row.last_end) == (RunState.CLAIMED, step.state)
        cancelled = (row.state, step.state) == (RunState.CANCELLED, RunState.FAILED)
        if not (is_again or cancelled or row.state is step.state):
            return Ending()
        itself = (row.id,) if is_again and not row.not_before_s else ()
        waited = self._next(row, step.policy) if step.policy.limit else ()
        tagged = (run for run in self._next_of_tags(step.policy) if run not in waited)
        offered = (*waited, *tagged, *itself)
        return Ending(row.state, offered, {run: node for run in offered if (node := node_of(self.runs[run].part))})

    def cancelled(self, step: CancelledRuns, now: float) -> set[int]:
        return {run for run in step.runs if run in self.stops}

    def request_cancel(self, run: int, why: str, now: float) -> bool:
        row = self.runs[run]
        if row.state is RunState.RUNNING:
            self._stop(row, why)
        elif row.state is RunState.CLAIMED:
            self._end(row, RunState.CANCELLED, why, now)
        return row.state in (RunState.RUNNING, RunState.CLAIMED)

    def read_open(self, step: ReadOpen, now: float) -> tuple[list[RunRow], float]:
        return list(self.open.values()), now

    def give_up(self, step: GiveUp, now: float) -> bool:
        row, seen = self.runs[step.seen.id], step.seen
        if (row.state, row.epoch, row.attempt) != (seen.state, seen.epoch, seen.attempt):
            return False
        if step.again and row.id not in self.stops:
            self._try_again(row, step.state, 0.0, now)
            self.reasons[row.id] = step.reason
        else:
            self._end(row, step.state, step.reason, now)
        return True

    def insert(self, job: str, decision: Decision, now: float) -> RunRow | None:
        """A row, which is given back where it is to run."""
        slot, skipped = decision.slot, decision.skipped
        if slot > now + AHEAD_S:
            self.early.append(f"{job} at {slot}")
        state = RunState.SKIPPED if skipped else RunState.CLAIMED
        not_before_s = float(slot + decision.wait_s) if decision.wait_s else 0.0
        row = RunRow(len(self.runs) + 1, job, slot, state, 0, 1, now, not_before_s=not_before_s, part=decision.part)
        self._keep(row)
        self.history.append(row)
        self.reasons[row.id] = skipped
        self.by_slot.setdefault((job, slot), []).append(row.id)
        return None if skipped else row

    def trigger(self, job: str, part: str, now: float) -> RunRow:
        """A row of a run that somebody asks for, beside those of slots."""
        row = RunRow(len(self.runs) + 1, job, int(now), RunState.CLAIMED, 0, 1, now, manual=True, made_s=now, part=part)
        self._keep(row)
        self.history.append(row)
        self.reasons[row.id] = ""
        return row

    def change(self, row: RunRow, now: float, **changes: object) -> None:
        """Write a row whose fields change."""
        changed = replace(row, changed_s=now, **changes)  # type: ignore[arg-type]
        self._keep(changed)
        self.history.append(changed)

    def _end(self, row: RunRow, state: RunState, reason: str, now: float) -> None:
        self.change(row, now, state=state, waits=False)
        self.reasons[row.id] = reason

    def _try_again(self, row: RunRow, last_end: RunState, not_before_s: float, now: float) -> None:
        claimed = {"state": RunState.CLAIMED, "attempt": row.attempt + 1, "last_end": last_end}
        self.change(row, now, **claimed, not_before_s=not_before_s)

    def _by_end(self, row: RunRow, step: End, now: float) -> RunRow:
        asked, again_s = self.stops.get(row.id), step.again_s(row.attempt)
        if asked is not None and step.state is RunState.FAILED:
            self._end(row, RunState.CANCELLED, asked.why, now)
        elif again_s is None or asked is not None:
            self._end(row, step.state, step.reason, now)
        else:
            self._try_again(row, step.state, now + again_s if again_s else 0.0, now)
            self.reasons[row.id] = step.reason
        return self.runs[row.id]

    def _stop(self, row: RunRow, why: str) -> None:
        self.stops.setdefault(row.id, StopRequest(row.epoch, why))

    def _beside(self, row: RunRow, policy: JobPolicy) -> list[RunRow]:
        others = (other for other in self.open.values() if other.job == row.job and other.id != row.id)
        bound = (other for other in others if policy.binds_manual or not other.manual)
        return [other for other in bound if other.waits or other.state is RunState.RUNNING]

    def _next(self, ended: RunRow, policy: JobPolicy) -> tuple[int, ...]:
        same = (row for row in self.open.values() if row.job == ended.job and policy.meet(ended.part, row.part))
        waiting = [row for row in same if row.waits]
        return (min(waiting, key=lambda row: (row.slot, row.id)).id,) if waiting else ()

    def full_tags(self, policy: JobPolicy) -> list[str]:
        """Those of its tags that no further run may begin under."""
        running = [self.jobs[row.job].policy.tags for row in self.open.values() if row.state is RunState.RUNNING]
        limited = [tag for tag in policy.tags if tag in self.limits]
        return [tag for tag in limited if sum(tag in tags for tags in running) >= self.limits[tag]]

    def _next_of_tags(self, policy: JobPolicy) -> tuple[int, ...]:
        limited = {tag for tag in policy.tags if tag in self.limits}
        waiting = [row for row in self.open.values() if row.waits and limited & {*self.jobs[row.job].policy.tags}]
        oldest: dict[str, int] = {}
        for row in sorted(waiting, key=lambda row: (row.slot, row.id)):
            oldest.setdefault(row.job, row.id)
        return tuple(oldest.values())[:MOST_TAGGED]

    def _is_there(self, job: str, decision: Decision) -> bool:
        return any(self.runs[run].part == decision.part for run in self.by_slot.get((job, decision.slot), ()))

    def _keep(self, row: RunRow) -> None:
        self.runs[row.id] = row
        if row.state in (RunState.CLAIMED, RunState.RUNNING):
            self.open[row.id] = row
        else:
            self.open.pop(row.id, None)


class ModelQueue:
    """Gives a run to anybody, any time later, now and then twice; may lose what it has."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        #: Of what one node alone may do, which.
        self.only_on: dict[int, str] = {}

    def offer(self, step: Offer, now: float) -> None:
        self.waiting.extend(step.runs)
        self.only_on.update(step.only_on)

    def queued(self, step: Queued, now: float) -> Counter[str]:
        return Counter(self.only_on.get(run, "") for run in self.waiting)
