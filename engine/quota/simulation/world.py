"""A random history out of one seed: what goes wrong, and then whether everything comes right again."""

from __future__ import annotations

import random

from engine.quota.book import Book
from engine.quota.simulation import faults
from engine.quota.simulation.clocks import NodeClock, PlaneClock
from engine.quota.simulation.customers import Customers, Tally
from engine.quota.simulation.doors import SKEW
from engine.quota.simulation.judging import Judge
from engine.quota.simulation.plane import ModelPlane
from engine.quota.simulation.plans import random_plan
from engine.quota.simulation.process import Machine, NodeProcess
from engine.quota.simulation.timeline import Timeline
from engine.quota.simulation.wire import Network, Wire

#: Seconds in which things go wrong; after that what is left of it ends within so many, and what was spent alone is
#: repaid.
TROUBLED_S, SETTLES_S = 9.0, 6.0
#: How long everything that is asked below the limit must be had, and how long the limit must be reached; longer where
#: so many tokens take longer.
BELOW_S, ABOVE_S, ABOVE_TOKENS = 2.0, 2.5, 15.0


class QuotaWorld:
    """One history. Single-threaded; everything random comes from its seed, but for ids."""

    #: Where mistakes are planted.
    planes: type[ModelPlane] = ModelPlane
    processes: type[NodeProcess] = NodeProcess
    clocks: type[NodeClock] = NodeClock

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311 - it is to be replayed
        self.plan = random_plan(rng)
        self.timeline = Timeline()
        self.judge = Judge(self.timeline)
        self.plane_clock = PlaneClock(self.timeline)
        self.plane = self.planes(self.plane_clock, self.judge)
        self.told: list[str] = []
        self.version = 0
        self.times = 1.0
        self.books: dict[int, Book] = {}
        self.publish(1.0)
        takes_s = rng.choice((0.0, 0.0, 0.002, 0.01))
        self.hosts = [
            Machine(
                f"n{number}",
                self.clocks(self.timeline, 1.0 + rng.choice((-SKEW, 0.0, SKEW)) / 2, rng.uniform(0, 1e6)),
                Network(takes_s=takes_s),
            )
            for number in range(self.plan.nodes)
        ]
        self.customers = Customers(self.plan, self.hosts, self.timeline, self.judge, rng)
        for host in self.hosts:
            self.start(host)
        if not calm:
            for _ in range(rng.randint(1, 6)):
                fault = rng.choice(faults.FAULTS)
                self.timeline.add(rng.uniform(0.0, TROUBLED_S), lambda fault=fault: fault(self))  # type: ignore[misc]

    @property
    def now(self) -> float:
        return self.timeline.now

    def tell(self, what: str) -> None:
        self.told.append(f"{self.now:7.3f}  {what}")

    def start(self, host: Machine) -> None:
        wire = Wire(self.plane, host.network, self.timeline, self.rng, self.plan.liars)
        host.process = self.processes(host, wire, self.timeline, self.judge, self.rng)

    def publish(self, times: float) -> None:
        """A newer version of the rules, with limits so many times those of the plan."""
        self.version += 1
        self.times = times
        book = self.books[self.version] = self.plan.book(self.version, times)
        self.judge.publishes(book)
        self.plane.keep_rules(*book.kept())

    def play(self) -> None:
        """Live through it."""
        rng, plan = self.rng, self.plan
        rates = {tenant: plan.limit * rng.choice((0.2, 0.7, 1.5, 3.0)) for tenant in plan.tenants}
        self.customers.begin(rates, bursty=rng.random() < 0.3, fast=plan.fast, several=plan.several)
        self.timeline.run(TROUBLED_S)
        self._heal()
        limit = plan.limit * self.times
        below = {tenant: 0.6 * limit / len(plan.tenants) for tenant in plan.tenants}
        patience = dict.fromkeys(plan.tenants, 2.0 + plan.nodes * len(plan.tenants) / limit)
        self.customers.begin({tenant: rate / 3 for tenant, rate in below.items()})
        # What was spent alone is repaid out of what is not asked for.
        self.timeline.run(self.now + SETTLES_S + self.judge.alone / (0.7 * limit))
        tallies = self.customers.begin(below, patience=patience)
        self.timeline.run(self.now + BELOW_S)
        self._look(tallies, "below the limit")
        self.judge.owes(door for process in self._living() for door in process.node.doors.values())
        honest = plan.tenants[0]
        # Who asks for less than its share beside one who asks for everything.
        above = dict.fromkeys(plan.tenants, 2.0 * limit) | ({honest: 0.3 * limit} if plan.tenants[1:] else {})
        self.customers.begin(above, patience={honest: patience[honest]} if plan.tenants[1:] else {})
        self.timeline.run(self.now + 1.0)
        tallies = self.customers.begin(above, patience={honest: patience[honest]} if plan.tenants[1:] else {})
        above_s = max(ABOVE_S, ABOVE_TOKENS / limit)
        self.timeline.run(self.now + above_s)
        if not self._is_tight():
            self._look(tallies, "of its share, beside one who asks for everything")
        admitted = sum(tally.admitted for tally in tallies.values())
        if admitted < (0.5 if self._is_tight() else 0.9) * limit * above_s - 2:
            self.judge.found.append(f"{admitted} tokens were admitted of {limit * above_s} that there were")

    def _living(self) -> list[NodeProcess]:
        return [host.process for host in self.hosts if host.process is not None and not host.process.dead]

    def _look(self, tallies: dict[str, Tally], when: str) -> None:
        for tenant, tally in tallies.items():
            if tally.missed > (0.3 if self._is_tight() else 0.1) * tally.asked:
                self.judge.found.append(f"{tenant} was refused {tally.missed} of {tally.asked} tokens {when}")

    def _heal(self) -> None:
        takes_s = self.hosts[0].network.takes_s
        for host in self.hosts:
            # In place: whoever is under way sees it.
            network = host.network
            network.cut_until = network.questions_lost_until = network.answers_lost_until = network.slow_until = 0.0
            network.late_until = 0.0
            network.takes_s = takes_s
        for process in self._living():
            for door in process.node.doors.values():
                door.alone_before = door.alone_ever
        # What is published is there, whatever was forgotten.
        self.publish(self.times)
        self.tell("nothing goes wrong any more")

    def _is_tight(self) -> bool:
        """Whether a bucket loses what comes in between one who asks and the next, or not each limiter gets a token a
        second: those who ask at once and do not wait cannot have all of it.
        """
        rules = self.books[self.version].rules
        limiters = self.plan.nodes * len(self.plan.tenants)
        return any(rule.burst < 2 + 0.2 * rule.limit or rule.limit < limiters for rule in rules)


def play(seed: int, world: type[QuotaWorld] = QuotaWorld) -> tuple[QuotaWorld, list[str]]:
    """Live through the history of ``seed``; what its judge has to say of it, which should be nothing."""
    lived = world(seed)
    lived.play()
    return lived, lived.judge.found
