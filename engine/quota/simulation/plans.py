"""What a history is about: rules, machines, and who asks for how much."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engine.quota.book import Book, Rule, Whose
from engine.quota.terms import OnLoss

#: Few tokens a second: what goes wrong does so with any number, and each costs the simulator time.
LIMITS = (1.0, 2.0, 2.0, 3.0, 3.0, 5.0, 5.0, 12.0)
FALLBACKS = (0.0, 0.1, 0.5, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: int
    tenants: tuple[str, ...]
    #: Those that say they need more than they do.
    liars: frozenset[str]
    rules: tuple[Rule, ...]
    #: The share of those who ask for more than one token, and of those who ask by the fast way.
    several: float
    fast: float

    @property
    def limit(self) -> float:
        """Of the narrowest rule."""
        return min(rule.limit for rule in self.rules)

    def book(self, version: int, times: float = 1.0) -> Book:
        """The rules in some version, with limits so many times as great."""
        return Book(version=version, rules=tuple(_times(rule, times) for rule in self.rules), nodes=self.nodes)


def random_plan(rng: random.Random) -> Plan:
    limit = rng.choice(LIMITS)
    burst = rng.choice((1.0, limit, limit, 3 * limit))
    on_loss = OnLoss.CLOSED if rng.random() < 0.1 else OnLoss.FALLBACK
    fallback = rng.choice(FALLBACKS)
    shared = Rule(id="all", limit=limit, burst=burst, fallback=fallback, on_loss=on_loss, whose=Whose.TOGETHER)
    tenants = ("a",) if rng.random() < 0.7 else ("a", "b")
    rules: tuple[Rule, ...] = (shared,)
    if rng.random() < 0.25:
        own = Rule(id="own", limit=limit, burst=rng.choice((1.0, limit)), fallback=fallback, on_loss=on_loss)
        rules = (own, shared)
    liars = frozenset({"b"}) if "b" in tenants and rng.random() < 0.7 else frozenset[str]()
    return Plan(
        rng.choice((1, 2, 2, 2, 3, 3, 4)),
        tenants,
        liars,
        rules,
        rng.choice((0.0, 0.0, 0.2)),
        rng.choice((0.0, 0.3, 0.9)),
    )


def _times(rule: Rule, times: float) -> Rule:
    return Rule(
        id=rule.id,
        limit=rule.limit * times,
        burst=max(1.0, rule.burst * times),
        fallback=rule.fallback,
        on_loss=rule.on_loss,
        whose=rule.whose,
    )
