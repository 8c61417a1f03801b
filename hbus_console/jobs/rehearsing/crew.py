"""Who plays: nodes that decide slots, and workers that do runs. Each may be killed, and comes back as another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from threading import Event
from typing import Any

from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.cron.slots import running
from engine.cron.slots.driving import Act, perform
from engine.cron.slots.job import CronJob, JobPolicy
from engine.cron.slots.keeping import LeaseKeeper
from engine.cron.slots.node import Changed, CronNode
from engine.cron.slots.running import Held
from engine.cron.slots.steps import RunState, Step
from hbus_console.jobs.rehearsing import work
from hbus_console.jobs.rehearsing.mishaps import Death, Killed, Mishaps
from hbus_console.jobs.rehearsing.work import DoneWork

#: After how long a node that was killed is started again, in seconds of the play.
BACK_S = 1_800.0
_LOST = RunState.LOST, "its lease was lost while it ran"

#: Hears what a person should know of.
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """What everybody in a play shares."""

    jobs: Sequence[CronJob]
    #: Up to which the slots are decided before it begins.
    at: int
    clock: Clock
    act: Act
    mishaps: Mishaps
    say: Say

    @property
    def now_s(self) -> float:
        return self.clock.now_ms() / 1000


class RehearsedNode:
    """One node, and after it was killed the next of its name, which remembers nothing."""

    def __init__(self, name: str, scene: Scene) -> None:
        self.name = name
        self._scene = scene
        self._node = self._started()
        #: From when on it lives.
        self._from_s = scene.now_s

    @property
    def lives(self) -> bool:
        return self._scene.now_s >= self._from_s

    def tick(self) -> None:
        """All that is due, unless it is killed over it.

        Raises ``Unavailable`` when slots cannot be decided: the play would go on without them for ever.
        """
        if not self.lives:
            return
        try:
            while self._node.tick() == 0.0:
                pass
        except Killed:
            self._node = self._started()
            self._from_s = self._scene.now_s + BACK_S
        if self._node.trouble:
            raise Unavailable(self._node.trouble)
        for job, why in self._node.failing.items():
            raise Unavailable(f"The slots of {job!r} cannot be decided: {why}")

    def sweep(self) -> None:
        """Look through the open runs. Raises ``Unavailable`` when that cannot be done."""
        self._node.sweep()
        if self._node.sweep_trouble:
            raise Unavailable(self._node.sweep_trouble)

    def _started(self) -> CronNode:
        scene = self._scene
        changes = iter([[Changed(job.name, job, scene.at) for job in scene.jobs]])
        return CronNode(self.name, self._act, lambda: next(changes, []), lambda: scene.now_s, scene.clock)

    def _act(self, step: Step) -> Any:
        answer = self._scene.act(step)
        mishap = self._scene.mishaps.node_dies(self._scene.now_s, step, answer)
        if mishap is not None:
            self._scene.say(f"{self.name} {mishap.death.value} {mishap.job}")
            raise Killed
        return answer


@dataclass(slots=True)
class _Task:
    held: Held
    done: DoneWork
    ends_s: float
    lost: Event
    kept: int


class RehearsedWorkers:
    """As many processes as are needed, each with one run at a time, taken from the queue; they keep its lease."""

    def __init__(self, name: str, scene: Scene, offered: deque[int]) -> None:
        self._name = name
        self._scene = scene
        self._policies = {job.name: job.policy for job in scene.jobs}
        self._offered = offered
        self._tasks: list[_Task] = []
        self._numbers = count(1)
        self._keeper = LeaseKeeper(scene.act, scene.clock)

    def renew(self) -> float:
        """What is due of the leases; in how many seconds to come again."""
        return self._keeper.tick() if self._tasks else inf

    @property
    def runs(self) -> set[int]:
        """What is being done."""
        return {task.held.row.id for task in self._tasks}

    def next_s(self) -> float:
        """In how many seconds some work is over."""
        return min((task.ends_s - self._scene.now_s for task in self._tasks), default=inf)

    def work(self) -> None:
        """End what is over, and begin what is offered."""
        for task in [task for task in self._tasks if task.ends_s <= self._scene.now_s]:
            self._tasks.remove(task)
            self._end(task)
        while self._offered:
            self._begin(self._offered.popleft())

    def _begin(self, run: int) -> None:
        owner = f"{self._name}:jobs:0:{next(self._numbers)}"
        held = perform(running.begin(run, owner, self._policy), self._scene.act, self._scene.clock)
        if held is None:
            return
        lost = Event()
        kept = self._keeper.keep(held, lost.set, lambda: None)
        mishap = self._scene.mishaps.worker_dies(self._scene.now_s, held.row.job)
        done = work.do(held, self._scene.clock, dies=mishap is not None)
        self._tasks.append(_Task(held, done, self._scene.now_s + done.after_s, lost, kept))

    def _end(self, task: _Task) -> None:
        held, ended = task.held, task.done.ended
        self._keeper.let_go(task.kept)
        if ended is None:
            self._scene.say(f"{held.owner} {Death.AT_WORK.value} {held.row.job}")
            return
        state, reason = _LOST if task.lost.is_set() else (ended.state, ended.reason)
        perform(running.end(held, state, reason, again=ended.again), self._scene.act, self._scene.clock)

    def _policy(self, job: str) -> JobPolicy:
        return self._policies[job]


def rotating(nodes: Sequence[RehearsedNode]) -> Iterator[list[RehearsedNode]]:
    """Those that live, each time with another in front."""
    for turn in count():
        first = turn % len(nodes)
        yield [node for node in (*nodes[first:], *nodes[:first]) if node.lives]
