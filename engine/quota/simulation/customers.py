"""Those who ask: at random moments, evenly or in bursts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from engine.quota.simulation.judging import Judge
from engine.quota.simulation.plans import Plan
from engine.quota.simulation.process import Host
from engine.quota.simulation.timeline import Timeline

#: No more wait at the same time, so that the simulator need not remember where each was.
MOST_WAITING = 3


@dataclass(slots=True)
class Tally:
    """Of one tenant in one phase: tokens, not calls."""

    asked: int = 0
    admitted: int = 0


class Customers:
    """Ask at all hosts, at rates that change with the phases of a history."""

    def __init__(self, plan: Plan, hosts: list[Host], timeline: Timeline, judge: Judge, rng: random.Random) -> None:
        self._plan = plan
        self._hosts = hosts
        self._timeline = timeline
        self._judge = judge
        self._rng = rng
        self._phase = 0
        self._waiting = 0
        self.tallies: dict[str, Tally] = {}
        self.counts: Counter[str] = Counter()

    def begin(self, rates: dict[str, float], *, bursty: bool, fast: float, several: float) -> dict[str, Tally]:
        """From now on each tenant asks for so many tokens a second, all hosts together; what comes of it."""
        self._phase += 1
        self.tallies = {tenant: Tally() for tenant in rates}
        for tenant, rate in rates.items():
            parts = [self._rng.uniform(0.3, 1.0) for _ in self._hosts]
            for host, part in zip(self._hosts, parts, strict=True):
                act = _Asking(self, self._phase, host, tenant, rate * part / sum(parts), bursty, fast, several).act
                self._timeline.add(self._timeline.now + self._rng.random() / max(rate, 0.1), act)
        return self.tallies

    def next_in(self, asking: _Asking) -> float | None:
        """Seconds until it asks again."""
        if asking.phase != self._phase or asking.rate <= 0:
            return None
        rng = self._rng
        if not asking.bursty:
            return rng.uniform(0.7, 1.3) / asking.rate
        # All of three seconds comes in one.
        inside = (self._timeline.now % 3.0) < 1.0
        return rng.uniform(0.2, 1.8) / (3 * asking.rate) if inside else 3.0 - self._timeline.now % 3.0 + rng.random() / 5

    def ask(self, asking: _Asking) -> None:
        process, tally = asking.host.process, self.tallies[asking.tenant]
        n = self._rng.randint(2, 3) if self._rng.random() < asking.several else 1
        tally.asked += n
        if process is None or not process.ready:
            return
        limiter = process.node.limiter("api", "search", asking.tenant)
        if self._waiting < MOST_WAITING and self._rng.random() < asking.fast:
            self._waiting += 1
            ok = limiter.allow(n)
            self._waiting -= 1
            late_s = process.late_s
        else:
            ok, late_s = limiter.reserve(n, 0).ok, 0.0
        if process.dead:
            return
        if ok:
            tally.admitted += n
            self._judge.admits(limiter.door, n, late_s)


@dataclass(slots=True)
class _Asking:
    of: Customers
    phase: int
    host: Host
    tenant: str
    rate: float
    bursty: bool
    fast: float
    several: float

    def act(self) -> None:
        pause_s = self.of.next_in(self)
        if pause_s is not None:
            self.of._timeline.add(self.of._timeline.now + pause_s, self.act)
            self.of.ask(self)


def unused() -> Callable[[], None]:
    return lambda: None
