"""Random histories of the slot protocol: nothing that must never be, and each planted mistake is found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.core.errors import Unavailable
from engine.cron.simulation import models
from engine.cron.simulation.hosts import Effect
from engine.cron.simulation.world import BEGIN, World, judged, play
from engine.cron.slots import planning, scheduling
from engine.cron.slots.job import AfterFailure, CronJob, JobPolicy, Overlap
from engine.cron.slots.parts import node_of
from engine.cron.slots.steps import (
    Acquire,
    Begin,
    Beginning,
    ClaimSlots,
    Cursor,
    End,
    Ending,
    GiveUp,
    Opened,
    OpenRuns,
    ReadOpen,
    ReadRun,
    RunRow,
    RunState,
    SlotClaims,
    Steps,
)
from tests.form import size

#: ``make chaos`` plays the whole number.
SEEDS = size(20_000, short=800)
#: Within so many a planted mistake must be found.
MOST_SEEDS = 1_000


def with_policy(job: CronJob, **changes: Any) -> CronJob:
    return replace(job, policy=replace(job.policy, **changes))


@pytest.mark.chaos
def test_no_history_does_a_slot_twice_or_leaves_one_unexplained() -> None:
    began, states, faults = time.perf_counter(), Counter[str](), 0
    for seed in range(SEEDS):
        world, found = play(seed)
        assert found == [], "\n".join([f"seed {seed}", *world.told])
        states.update(row.state.value for row in world.database.runs.values())
        faults += len(world.told)
    took_s = time.perf_counter() - began
    print(f"\n{SEEDS:,} histories, {faults:,} faults, {states.total():,} slots in {took_s:.0f} s: {dict(states)}")
    # Otherwise nothing was tried.
    assert min(states[state.value] for state in RunState if state not in (RunState.CLAIMED, RunState.RUNNING)) > 5


def test_a_seed_is_one_history() -> None:
    for seed in range(20):
        one, other = World(seed), World(seed)
        one.play()
        other.play()
        assert (one.database.runs, one.told, one.now) == (other.database.runs, other.told, other.now)


def test_without_faults_each_slot_is_done_in_time() -> None:
    for seed in range(30):
        world = World(seed, calm=True)
        # As many runs as two workers can do.
        plain: dict[str, Any] = {"tags": (), "shards": 1, "on_nodes": False}
        plain |= {"overlap": Overlap.RUN, "most_at_once": 0, "after_failure": AfterFailure.END}
        world.jobs = {name: with_policy(job, **plain) for name, job in world.jobs.items()}
        world.play()
        assert list(judged(world)) == []
        assert world.told == []
        assert {row.state for row in world.database.runs.values()} == {RunState.DONE}
        assert all(row.epoch == row.attempt == 1 for row in world.database.runs.values())


class NoEpoch(World):
    """What a run does is done, whoever has the run by now."""

    def effect(self, step: Effect, now: float) -> bool:
        self.count_effect(step)
        return True


class TrustedMarker(World):
    """The marker in the store is the judge, and the rows are what it let through."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def open_runs(step: OpenRuns, now: float) -> Opened:
            made = []
            for cursor, decisions in ((opening.cursor, opening.decisions) for opening in step.openings):
                database.cursors[cursor.job] = cursor._replace(at=decisions[-1].slot)
                made += [database.insert(cursor.job, each, now) for each in decisions]
            return Opened(rows=tuple(row for row in made if row is not None))

        self.answers(OpenRuns, open_runs)


class NodesOwnClock(World):
    """The store believes the node that a slot has come."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        store = self.store

        def claim(step: ClaimSlots, now: float) -> SlotClaims:
            return store.claim(step, max(now, *(slot.at for slot in step.slots)))

        self.answers(ClaimSlots, claim)


class Unconditional(World):
    """A worker begins what it was given."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def begin(step: Begin, now: float) -> Beginning:
            database.change(database.runs[step.run], now, state=RunState.RUNNING, epoch=step.epoch)
            return Beginning.BEGUN

        self.answers(Begin, begin)


class CursorFirst(World):
    """Two commits: the cursor, then the rows."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def open_runs(step: OpenRuns, now: float) -> Opened | Unavailable:
            for cursor, decisions in ((opening.cursor, opening.decisions) for opening in step.openings):
                if database.cursors[cursor.job] == cursor and self.rng.random() < 0.02:
                    database.cursors[cursor.job] = cursor._replace(at=decisions[-1].slot)
                    return Unavailable("killed in between")
            return database.open_runs(step, now)

        self.answers(OpenRuns, open_runs)


class EachAttemptIsTheFirst(World):
    """A run that is lost is begun anew, whatever the job says, and nobody counts."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def give_up(step: GiveUp, now: float) -> bool:
            if step.state is RunState.LOST and database.runs[step.seen.id] == step.seen:
                database.change(step.seen, now, state=RunState.CLAIMED)
                return False
            return database.give_up(step, now)

        self.answers(GiveUp, give_up)


class OpenLock(World):
    """Who cannot get the lease begins all the same, under the epoch of whoever has it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        store, database = self.store, self.database
        self.answers(ReadRun, lambda step, now: self._as_claimed(database.runs[step.run]))
        self.answers(Acquire, lambda step, now: store.acquire(step, now) or max(1, step.floor))

        def begin(step: Begin, now: float) -> Beginning:
            runs = database.runs[step.run].state is RunState.RUNNING
            return Beginning.BEGUN if runs else database.begin(step, now)

        self.answers(Begin, begin)

    @staticmethod
    def _as_claimed(row: RunRow) -> RunRow:
        return replace(row, state=RunState.CLAIMED) if row.state is RunState.RUNNING else row


class AnyNodeDoes(World):
    """Whoever was given a run may begin it, also what is for another node."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def begin(step: Begin, now: float) -> Beginning:
            node = node_of(database.runs[step.run].part)
            return database.begin(replace(step, owner=f"{node}:jobs:0:1#x") if node else step, now)

        self.answers(Begin, begin)


class NoTags(World):
    """Runs of other jobs are nobody's business."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def begin(step: Begin, now: float) -> Beginning:
            return database.begin(replace(step, policy=replace(step.policy, tags=())), now)

        self.answers(Begin, begin)


class NobodyLooks(World):
    """A run begins whether or not another of its job runs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database
        self.answers(Begin, lambda step, now: database.begin(replace(step, policy=JobPolicy()), now))


class WhoAsksBeginsAtOnce(World):
    """A run that somebody triggered waits for no other, whatever the job says."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def begin(step: Begin, now: float) -> Beginning:
            policy = replace(step.policy, binds_manual=False) if database.runs[step.run].manual else step.policy
            return database.begin(replace(step, policy=policy), now)

        self.answers(Begin, begin)


class Impatient(World):
    """A further attempt begins as soon as anybody offers it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def begin(step: Begin, now: float) -> Beginning:
            database.runs[step.run] = replace(database.runs[step.run], not_before_s=0.0)
            return database.begin(step, now)

        self.answers(Begin, begin)


class Punctual(World):
    """Each run is to begin at its slot, also that of a job whose runs spread."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def open_runs(step: OpenRuns, now: float) -> Opened:
            openings = (
                replace(each, decisions=tuple(decision._replace(wait_s=0) for decision in each.decisions))
                for each in step.openings
            )
            return database.open_runs(replace(step, openings=tuple(openings)), now)

        self.answers(OpenRuns, open_runs)


class CountsLossesAlone(World):
    """A failure takes none of the attempts."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def end(step: End, now: float) -> Ending:
            ending, row = database.end(step, now), database.runs[step.run]
            if ending.state is RunState.CLAIMED and step.state is RunState.FAILED:
                database.change(row, now, attempt=row.attempt - 1)
            return ending

        self.answers(End, end)


class StoppedAndTriedAgain(World):
    """What was asked to stop, and failed by that, is tried again like any failure."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def end(step: End, now: float) -> Ending:
            asked = database.stops.pop(step.run, None)
            ending = database.end(step, now)
            if asked is not None:
                database.stops[step.run] = asked
            return ending

        self.answers(End, end)


class WaitingIsNotOpen(World):
    """Who looks through what is open does not see what waits for another run."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        database = self.database

        def read_open(step: ReadOpen, now: float) -> tuple[list[RunRow], float]:
            rows, now_s = database.read_open(step, now)
            return [row for row in rows if not row.waits], now_s

        self.answers(ReadOpen, read_open)


def slots_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Due is what came since the last tick."""

    def due_after(job: CronJob, cursor: int, now_s: float) -> list[int]:
        slot = job.slots.next_after(int(max(cursor, now_s - 2)))
        return [slot] if slot is not None and slot <= now_s else []

    monkeypatch.setattr(planning, "due_after", due_after)


def nobody_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    def sweep(self: scheduling.RunSweeper, jobs: Mapping[str, CronJob], by_store_s: float) -> Steps[float]:
        return 1.0
        yield

    monkeypatch.setattr(scheduling.RunSweeper, "sweep", sweep)


@pytest.mark.parametrize(
    "mistaken",
    [
        NoEpoch,
        TrustedMarker,
        NodesOwnClock,
        Unconditional,
        CursorFirst,
        EachAttemptIsTheFirst,
        OpenLock,
        NobodyLooks,
        WhoAsksBeginsAtOnce,
        AnyNodeDoes,
        NoTags,
        Impatient,
        Punctual,
        CountsLossesAlone,
        StoppedAndTriedAgain,
        WaitingIsNotOpen,
    ],
)
def test_a_mistake_of_the_places_is_found(mistaken: type[World]) -> None:
    assert any(play(seed, mistaken)[1] for seed in range(MOST_SEEDS))


def further_attempts_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that began once, and is not tried again, is told as if it had never run."""
    monkeypatch.setattr(models, "not_begun", lambda run, state, why: (state, why))


@pytest.mark.parametrize("plant", [slots_from_now, nobody_sweeps, further_attempts_are_skipped])
def test_a_mistake_of_the_protocol_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(play(seed)[1] for seed in range(MOST_SEEDS))


def test_a_cursor_of_another_version_is_left_alone() -> None:
    world = World(1, calm=True)
    world.database.cursors["a"] = Cursor("a", 2, BEGIN)
    world.play()
    assert {row.job for row in world.database.runs.values()} == {"b"}
