"""Nodes, workers and what befalls them: a random history out of one seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.core.errors import OutcomeUnknown, Unavailable
from engine.cron.simulation import judging
from engine.cron.simulation.hosts import Ask, Cancel, Effect, Host, Process, Take
from engine.cron.simulation.models import ModelDatabase, ModelQueue, ModelStore
from engine.cron.simulation.policies import random_policy
from engine.cron.slots import running
from engine.cron.slots.job import AfterFailure, CronJob, JobPolicy
from engine.cron.slots.node import AHEAD_S
from engine.cron.slots.parts import node_of
from engine.cron.slots.running import Held
from engine.cron.slots.scheduling import HeldOffer, RunSweeper, schedule
from engine.cron.slots.steps import (
    Acquire,
    Begin,
    CancelledRuns,
    ClaimSlots,
    End,
    GiveUp,
    LeasesHeld,
    Monotonic,
    Offer,
    OpenRuns,
    Queued,
    ReadCursors,
    ReadOpen,
    ReadRun,
    Release,
    Renew,
    RunRow,
    RunState,
    Step,
    Steps,
    Wait,
    WorkingNodes,
    offer_of,
)
from engine.cron.slots.timetable import Timetable

BEGIN = 1_790_000_000
#: Seconds in which things go wrong, and those after that in which everything must come to its end.
TROUBLED_S, QUIET_S = 60.0, 200.0
#: Nobody goes on with anything old so long after the last has woken.
SETTLED_S = 12.0
#: How often a node looks through what is open, at least.
SWEEP_S = 3.0
#: The share of runs whose work fails, of jobs that are tried again then.
FAILING = 0.3
#: The share of calls whose answer is long under way.
SLOW = 0.01
#: A failure that no further attempt would change.
FOR_GOOD = "its work cannot be done"
STORE, DATABASE, QUEUE = "store", "database", "queue"


@dataclass(frozen=True, slots=True)
class Regular:
    """Slots every so many seconds, as long as things go wrong."""

    period: int

    def next_after(self, at: int) -> int | None:
        slot = (at // self.period + 1) * self.period
        return slot if slot <= BEGIN + TROUBLED_S else None


class World:
    """One history. Single-threaded; everything random comes from its seed."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self._slow = 0.0 if calm else SLOW
        self.rng = rng = random.Random(seed)  # noqa: S311 - it is to be replayed
        self.now = float(BEGIN)
        self.jobs = {name: CronJob(name, 1, Regular(rng.choice((3, 5, 10))), random_policy(rng)) for name in ("a", "b")}
        self.store, self.queue = ModelStore(), ModelQueue()
        self.database = ModelDatabase(self.jobs, BEGIN)
        self.database.limits = {"disk": rng.choice((1, 2))}
        self.down: dict[str, float] = {}
        self.told: list[str] = []
        self.nodes = [Host(f"node{number}") for number in range(rng.choice((2, 3)))]
        self.workers = [Host(f"worker{number}") for number in range(2)]
        self._queue: list[tuple[float, int, Process, Any]] = []
        self._number = 0
        self._acts: dict[type[Step], tuple[str, Callable[[Any, float], Any]]] = {
            ClaimSlots: (STORE, self.store.claim),
            Acquire: (STORE, self.store.acquire),
            Renew: (STORE, self.store.renew),
            Release: (STORE, self.store.release),
            LeasesHeld: (STORE, self.store.leases_held),
            ReadCursors: (DATABASE, self.database.read_cursors),
            OpenRuns: (DATABASE, self.database.open_runs),
            ReadRun: (DATABASE, self.database.read_run),
            Begin: (DATABASE, self.database.begin),
            End: (DATABASE, self.database.end),
            CancelledRuns: (DATABASE, self.database.cancelled),
            Cancel: (DATABASE, self._cancel),
            Ask: (DATABASE, self._ask),
            ReadOpen: (DATABASE, self.database.read_open),
            GiveUp: (DATABASE, self.database.give_up),
            Effect: (DATABASE, self.effect),
            WorkingNodes: (STORE, self._working),
            Offer: (QUEUE, self.queue.offer),
            Queued: (QUEUE, self.queue.queued),
            Take: (QUEUE, self._take),
        }
        for host in (*self.nodes, *self.workers):
            self._start(host)
        moments = sorted(BEGIN + rng.uniform(0, TROUBLED_S) for _ in range(0 if calm else rng.randint(1, 5)))
        self._faults = [(moment, rng.choice(_FAULTS)) for moment in moments]

    def play(self) -> None:
        """Live through it."""
        quiet_from, end = BEGIN + TROUBLED_S, BEGIN + TROUBLED_S + QUIET_S
        looked = 0.0
        while self._queue and self._queue[0][0] < end:
            if self.now > max(quiet_from, looked + 1.0):
                looked = self.now
                if self._is_settled():
                    break
            at, _, process, answer = heapq.heappop(self._queue)
            while self._faults and self._faults[0][0] <= at < quiet_from:
                self.now, fault = self._faults.pop(0)
                fault(self)
            self.now = max(at, self.now)
            self._go_on(process, answer)

    def _is_settled(self) -> bool:
        woken = max(host.paused_until for host in (*self.nodes, *self.workers))
        decided = all(job.slots.next_after(self.database.cursors[name].at) is None for name, job in self.jobs.items())
        return decided and self.now > woken + SETTLED_S and not self.database.open

    def effect(self, step: Effect, now: float) -> bool:
        row = self.database.runs[step.run]
        if row.state is not RunState.RUNNING or row.epoch != step.epoch:
            return False
        self.count_effect(step)
        return True

    def count_effect(self, step: Effect) -> None:
        row = self.database.runs[step.run]
        if row.state is not RunState.RUNNING or row.epoch != step.epoch:
            self.database.stale.append(f"{step.place} under epoch {step.epoch}")
        if node_of(row.part) not in ("", step.node):
            self.database.astray.append(f"{step.place} {row.part} on {step.node}")
        self.database.effects[step.run] = self.database.effects.get(step.run, 0) + 1

    def answers(self, kind: type[Step], act: Callable[[Any, float], Any]) -> None:
        """Steps of ``kind`` are answered by ``act`` from now on: where a mistake is planted."""
        self._acts[kind] = (self._acts[kind][0], act)

    def tell(self, what: str) -> None:
        self.told.append(f"{self.now - BEGIN:7.2f}  {what}")

    # Faults ---------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        host = self.rng.choice([*self.nodes, *self.workers])
        host.life += 1
        back = self.rng.choice((0.5, 5.0, 30.0))
        host.paused_until = self.now + back
        self.tell(f"{host.name} dies, and is back after {back} s")
        self._start(host)

    def pause(self) -> None:
        host = self.rng.choice([*self.nodes, *self.workers])
        host.paused_until = self.now + self.rng.choice((2.0, 12.0, 25.0))
        self.tell(f"{host.name} stands still for {host.paused_until - self.now:.0f} s")

    def skew(self) -> None:
        host = self.rng.choice(self.nodes)
        host.skew_s = self.rng.choice((-90.0, -7.0, 7.0, 90.0))
        self.tell(f"the clock of {host.name} is {host.skew_s:+.0f} s off")

    def forget(self) -> None:
        self.store.flush()
        self.tell("the store forgets everything")

    def fail_over(self) -> None:
        self._stop(STORE)
        self.store.flush()
        self.tell("the store that comes back is an empty one")

    def stop_store(self) -> None:
        self._stop(STORE)

    def stop_database(self) -> None:
        self._stop(DATABASE)

    def stop_queue(self) -> None:
        self._stop(QUEUE)

    def lose_queue(self) -> None:
        self.queue.waiting.clear()
        self.tell("the queue loses what it has")

    def cut(self) -> None:
        host, what = self.rng.choice([*self.nodes, *self.workers]), self.rng.choice((STORE, DATABASE, QUEUE))
        host.cut_off[what] = self.now + self.rng.choice((3.0, 15.0))
        self.tell(f"{host.name} cannot reach the {what} for {host.cut_off[what] - self.now:.0f} s")

    def _stop(self, what: str) -> None:
        self.down[what] = self.now + self.rng.choice((1.0, 8.0, 25.0))
        self.tell(f"the {what} is away for {self.down[what] - self.now:.0f} s")

    def cancel(self) -> None:
        # Now and then one that is over.
        if runs := sorted(self.database.open if self.rng.random() < 0.8 else self.database.runs):
            run = self.rng.choice(runs)
            self.tell(f"somebody has run {run} stopped")
            self._acts[Cancel][1](Cancel(run, "nobody needs it"), self.now)

    def trigger(self) -> None:
        job = self.rng.choice(list(self.jobs.values()))
        part = self.rng.choice(job.parts(tuple(host.name for host in self.workers)))
        row: RunRow = self._acts[Ask][1](Ask(job.name, part), self.now)
        self.tell(f"somebody triggers run {row.id}, of {job.name} {part}".rstrip())
        # Whoever asks for it may be gone before it is offered.
        if self.rng.random() < 0.8 and self.down.get(QUEUE, 0.0) <= self.now:
            self.queue.offer(offer_of([row]), self.now)

    # Hosts and processes --------------------------------------------------------------------------------------------

    def _start(self, host: Host) -> None:
        main = self._node(host) if host in self.nodes else self._worker(host)
        self._add(Process(host, host.life, main), None, self.rng.random())

    def _add(self, process: Process, answer: Any, delay: float) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + delay, self._number, process, answer))

    def _go_on(self, process: Process, answer: Any) -> None:
        host = process.host
        if process.life != host.life:
            return
        if host.paused_until > self.now:
            self._add(process, answer, host.paused_until - self.now)
            return
        try:
            raises = isinstance(answer, Exception)
            step = process.steps.throw(answer) if raises else process.steps.send(answer)
        except StopIteration:
            if process.ended is not None:
                process.ended()
            return
        if type(step) is Wait:
            self._add(process, None, max(0.0, step.until - self.now))
        elif type(step) is Monotonic:
            self._add(process, self.now, 0.0)
        else:
            self._add(process, self._answer(host, step), self._takes_s())

    def _takes_s(self) -> float:
        """How long a call takes; now and then its answer is long under way."""
        return self.rng.random() * (6.0 if self.rng.random() < self._slow else 0.05)

    def _answer(self, host: Host, step: Step) -> Any:
        place, act = self._acts[type(step)]
        if self.down.get(place, 0.0) > self.now or host.cut_off.get(place, 0.0) > self.now:
            # The request may have come through before the line broke.
            if self.now < BEGIN + TROUBLED_S and self.rng.random() < 0.1 and self.down.get(place, 0.0) <= self.now:
                act(step, self.now)
                return OutcomeUnknown("the answer was lost")
            return Unavailable(f"the {place} does not answer")
        return act(step, self.now)

    def _take(self, step: Take, now: float) -> int | None:
        only_on = self.queue.only_on
        # Now and then what was for another.
        lost = self.rng.random() < 2 * self._slow
        waiting = [run for run in self.queue.waiting if lost or only_on.get(run, step.node) == step.node]
        if not waiting:
            return None
        run = self.rng.choice(waiting)
        # Now and then a run is given twice.
        if self.rng.random() >= 0.05:
            self.queue.waiting.remove(run)
        return run

    def _working(self, step: WorkingNodes, now: float) -> tuple[str, ...]:
        """As they were seen some time ago."""
        return tuple(host.name for host in self.workers if host.paused_until <= now)

    def _node(self, host: Host) -> Steps[None]:
        sweeper, table, sweep_at = RunSweeper(), Timetable(), self.now + SWEEP_S
        later: list[HeldOffer] = []
        for job in self.jobs.values():
            table.put(job, BEGIN)
        while True:
            with suppress(Unavailable):
                now_s = self.now + host.skew_s
                due = table.due(now_s + AHEAD_S, len(self.jobs))
                later += (yield from schedule(table, due, host.name, now_s, AHEAD_S)).later
                later.sort(key=lambda each: each.at)
            with suppress(Unavailable):
                while later and later[0].at <= self.now:
                    yield later.pop(0).offer
            if self.now >= sweep_at:
                due_s = SWEEP_S
                with suppress(Unavailable):
                    due_s = yield from sweeper.sweep(self.jobs, self.now)
                sweep_at = self.now + min(SWEEP_S, due_s)
            yield Wait(min([self.now + 1.0, *(each.at for each in later)]))

    def _worker(self, host: Host) -> Steps[None]:
        while True:
            try:
                run: int | None = yield Take(host.name)
                owner = f"{host.name}:jobs:0:1#{self.rng.getrandbits(32):08x}"
                held = None if run is None else (yield from running.begin(run, owner, self._policy_of))
            except Unavailable:
                held = None
            if held is None:
                yield Wait(self.now + 0.5)
            else:
                yield from self._work(host, held)

    def _cancel(self, step: Cancel, now: float) -> bool:
        return self.database.request_cancel(step.run, step.why, now)

    def _ask(self, step: Ask, now: float) -> RunRow:
        return self.database.trigger(step.job, step.part, now)

    def _watch(self, held: Held) -> Steps[None]:
        cancelled: set[int] = set()
        while held.row.id not in cancelled:
            yield Wait(self.now + 1.0)
            with suppress(Unavailable):
                cancelled = yield CancelledRuns((held.row.id,))

    def _work(self, host: Host, held: Held) -> Steps[None]:
        lost: list[bool] = []
        cancelled: list[bool] = []
        keeper = Process(host, host.life, running.keep(held), partial(lost.append, True))
        watcher = Process(host, host.life, self._watch(held), partial(cancelled.append, True))
        self._add(keeper, None, 0.0)
        self._add(watcher, None, 0.0)
        doing_s = self.rng.choice((0.1, 0.5, 0.5, 7.0))
        failing = self._failure(held)
        done = False
        for part in range(2):
            yield Wait(self.now + doing_s / 2)
            if lost or cancelled:
                break
            if part == 0:
                with suppress(Unavailable):
                    done = yield Effect(
                        held.row.id, held.epoch, host.name, f"{held.row.job} at {held.row.slot - BEGIN}"
                    )
        whole = done and not cancelled and not failing
        state = RunState.LOST if lost else RunState.DONE if whole else RunState.FAILED
        with suppress(Unavailable):
            yield from running.end(held, state, failing or _WHY[state], again=failing != FOR_GOOD)
        keeper.life = watcher.life = -1

    def _failure(self, held: Held) -> str:
        """Why its work fails, if it does."""
        if held.policy.after_failure is AfterFailure.END or self.rng.random() > FAILING:
            return ""
        return self.rng.choice(("its work failed", FOR_GOOD))

    def _policy_of(self, job: str) -> JobPolicy:
        return self.jobs[job].policy


_FAULTS: list[Callable[[World], None]] = [
    World.kill,
    World.kill,
    World.pause,
    World.pause,
    World.skew,
    World.forget,
    World.fail_over,
    World.stop_store,
    World.stop_database,
    World.stop_queue,
    World.lose_queue,
    World.cut,
    World.cancel,
    World.cancel,
    World.trigger,
    World.trigger,
]


_WHY = {
    RunState.DONE: "",
    RunState.FAILED: "its effect was refused or not answered",
    RunState.LOST: "its lease was lost",
}


def judged(world: World) -> Iterator[str]:
    """What must never be, and is: each as a sentence."""
    return judging.judged(world.jobs, world.database, BEGIN)


def play(seed: int, world: type[World] = World) -> tuple[World, list[str]]:
    """Live through the history of ``seed``; what its judge has to say of it, which should be nothing."""
    lived = world(seed)
    lived.play()
    return lived, list(judged(lived))
