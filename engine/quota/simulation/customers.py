"""Those who ask: at random moments, evenly or in bursts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from engine.quota.simulation.judging import Judge
from engine.quota.simulation.plans import Plan
from engine.quota.simulation.process import Machine
from engine.quota.simulation.timeline import Timeline

#: Who is patient and was refused asks again after so long, in seconds.
AGAIN_S = 0.13
#: No more wait at the same time, so that the simulator need not remember where each was.
MOST_WAITING = 3


@dataclass(slots=True)
class Tally:
    """Of one tenant in one phase: tokens, not calls."""

    asked: int = 0
    admitted: int = 0
    #: Of those who are patient: what was not had in time.
    missed: int = 0


class Customers:
    """Ask at all hosts, at rates that change with the phases of a history."""

    def __init__(self, plan: Plan, hosts: list[Machine], timeline: Timeline, judge: Judge, rng: random.Random) -> None:
        self._plan = plan
        self._hosts = hosts
        self._timeline = timeline
        self._judge = judge
        self._rng = rng
        self._phase = 0
        self._waiting = 0
        self.tallies: dict[str, Tally] = {}

    def begin(
        self,
        rates: dict[str, float],
        *,
        bursty: bool = False,
        fast: float = 1.0,
        several: float = 0.0,
        patience: Mapping[str, float] = {},
    ) -> dict[str, Tally]:
        """From now on each tenant asks for so many tokens a second, all hosts together; what comes of it.

        Who is refused goes away, but for those with patience: for so many seconds they try again.
        """
        self._phase += 1
        self.tallies = {tenant: Tally() for tenant in rates}
        for tenant, rate in rates.items():
            parts = [self._rng.uniform(0.3, 1.0) for _ in self._hosts]
            for host, part in zip(self._hosts, parts, strict=True):
                act = _Asking(
                    self,
                    self._phase,
                    host,
                    tenant,
                    rate * part / sum(parts),
                    bursty,
                    fast,
                    several,
                    patience.get(tenant, 0.0),
                    self.tallies[tenant],
                ).act
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
        return (
            rng.uniform(0.2, 1.8) / (3 * asking.rate) if inside else 3.0 - self._timeline.now % 3.0 + rng.random() / 5
        )

    def ask(self, asking: _Asking) -> None:
        n = self._rng.randint(2, 3) if self._rng.random() < asking.several else 1
        asking.tally.asked += n
        self._try(asking, n, self._timeline.now + asking.patience_s)

    def _try(self, asking: _Asking, n: int, until: float) -> None:
        if self._is_admitted(asking, n):
            asking.tally.admitted += n
        elif asking.patience_s and self._timeline.now + AGAIN_S < until:
            self._timeline.add(self._timeline.now + AGAIN_S, lambda: self._try(asking, n, until))
        elif asking.patience_s:
            asking.tally.missed += n

    def _is_admitted(self, asking: _Asking, n: int) -> bool:
        process = asking.host.process
        if process is None or not process.ready:
            return False
        limiter = process.node.limiter("api", "search", asking.tenant)
        if self._waiting < MOST_WAITING and self._rng.random() < asking.fast:
            self._waiting += 1
            began = self._timeline.now
            ok = limiter.allow(n)
            self._waiting -= 1
            # Who waits is let in at some moment of that; who does not wait reads no clock: the node's thread does.
            late_s = max(process.late_s, self._timeline.now - began)
        else:
            ok, late_s = limiter.reserve(n, 0).ok, 0.0
        if ok and not process.dead:
            self._judge.admits(limiter.door, n, late_s)
        return ok and not process.dead


@dataclass(slots=True)
class _Asking:
    of: Customers
    phase: int
    host: Machine
    tenant: str
    rate: float
    bursty: bool
    fast: float
    several: float
    patience_s: float
    tally: Tally

    def act(self) -> None:
        pause_s = self.of.next_in(self)
        if pause_s is not None:
            self.of._timeline.add(self.of._timeline.now + pause_s, self.act)
            self.of.ask(self)
