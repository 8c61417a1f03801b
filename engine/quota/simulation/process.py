"""A process: a real node with its limiters, watched at its doors, on a host that may end it at any time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from engine.quota.distributed import DistributedLimiter
from engine.quota.node import QuotaNode
from engine.quota.protocol import Alloc, Want
from engine.quota.simulation.clocks import NodeClock
from engine.quota.simulation.doors import Door
from engine.quota.simulation.judging import Judge
from engine.quota.simulation.timeline import Timeline
from engine.quota.simulation.wire import Network, Wire
from engine.quota.terms import Name, Terms

#: How long a thread takes to wake, in seconds.
WAKES_S = 0.0005
#: Who has so many turns in a row without time passing goes round in circles.
MOST_TURNS = 50


class WatchedLimiter(DistributedLimiter):
    """The judge sees what it does without the control plane."""

    def watch(self, judge: Judge) -> Door:
        self._judge = judge
        self.door = Door(f"{self.name} on {self._host.node}", self._terms.chain, self._host.life)
        return self.door

    def _go_over_to(self, terms: Terms) -> None:
        before = self._terms.version
        super()._go_over_to(terms)
        self._judge.holds(self.door.name, before, self._terms.version)

    def _stand_in(self, n: int, now: float) -> bool:
        may = super()._stand_in(n, now)
        self._judge.stands_in(self.door, n if may else 0, self._terms.version)
        return may


class WatchedNode(QuotaNode):
    """Tells when one of its limiters calls, instead of waking a thread."""

    #: What kind of limiters it makes; a mistake may be planted in its place.
    limiters: type[WatchedLimiter] = WatchedLimiter

    def watch(self, judge: Judge, called: Callable[[], None]) -> None:
        self._judge, self._when_called = judge, called
        self.doors: dict[str, Door] = {}

    def limiter(self, service: str, resource: str, tenant: str, *, shadow: bool = False) -> WatchedLimiter:
        limiter = super().limiter(service, resource, tenant, shadow=shadow)
        assert isinstance(limiter, WatchedLimiter)
        return limiter

    def _made(self, name: Name) -> WatchedLimiter:
        limiter = self.limiters(name, super()._made(name).terms, self, self._clock, self._rng)
        self.doors[str(name)] = limiter.watch(self._judge)
        return limiter

    def call(self, limiter: object) -> None:
        super().call(limiter)  # type: ignore[arg-type]
        self._when_called()


@dataclass(slots=True, eq=False)
class Machine:
    """A machine: its clocks and its connection stay, whatever runs on it."""

    name: str
    clock: NodeClock
    network: Network
    process: NodeProcess | None = None


class NodeProcess:
    """Runs a node's thread as acts of the timeline; at most one turn at a time, as it is one thread."""

    #: A mistake may be planted in its place.
    nodes: type[WatchedNode] = WatchedNode

    def __init__(self, host: Machine, wire: Wire, timeline: Timeline, judge: Judge, rng: random.Random) -> None:
        self.dead = False
        self.node = self.nodes(host.name, wire, clock=host.clock, rng=rng)
        self.node.watch(judge, self._called)
        self._rate = host.clock.rate
        self._timeline = timeline
        self._judge = judge
        self._turning = False
        self._is_called = False
        self._planned_at = 0.0
        self._plan = 0
        self._version = 0
        self._in_a_row = 0
        #: When its thread last began to look at permits that end: the turn before that one may have held it up already.
        self._looked, self._began, self._ended = timeline.now, timeline.now, 0.0
        self._asked: dict[str, Want] = {}
        wire.ear = self
        self._turn_at(timeline.now)

    @property
    def ready(self) -> bool:
        """Whether somebody may ask: it lives, and knows rules."""
        return not self.dead and self.node.version > 0

    @property
    def late_s(self) -> float:
        """How long its thread has been held up by now: by a turn, and by the one that this one followed at once."""
        return self._timeline.now - self._looked if self._turning else 0.0

    def kill(self) -> None:
        self.dead = True
        self._judge.dies(self.node.doors.values())

    def asks(self, want: Want) -> None:
        self._asked[want.id] = want
        self._judge.asks(self.node.doors[want.limiter], want)

    def is_told(self, alloc: Alloc) -> None:
        want = self._asked.pop(alloc.id)
        self._judge.is_told(self.node.doors[want.limiter], want, alloc)

    def _called(self) -> None:
        self._is_called = True
        if not self._turning and self._planned_at > self._timeline.now + WAKES_S:
            self._turn_at(self._timeline.now + WAKES_S)

    def _turn_at(self, at: float) -> None:
        self._plan += 1
        self._planned_at = at
        plan = self._plan
        self._timeline.add(at, lambda: self._turn(plan))

    def _turn(self, plan: int) -> None:
        if self.dead or plan != self._plan:
            return
        began = self._timeline.now
        self._looked = self._began if began <= self._ended + 2 * WAKES_S else began
        self._turning, self._is_called, self._began = True, False, began
        pause_s = self.node.turn() / self._rate
        self._turning, self._ended = False, self._timeline.now
        if self.dead:
            return
        self._judge.holds(self.node.node, self._version, self.node.version)
        self._version = self.node.version
        self._in_a_row = self._in_a_row + 1 if pause_s < WAKES_S and self._timeline.now <= began + WAKES_S else 0
        if self._in_a_row > MOST_TURNS:
            self._judge.found.append(f"{self.node.node} turns round and round")
            self.dead = True
        self._turn_at(self._timeline.now + max(WAKES_S, 0.0 if self._is_called else pause_s))
