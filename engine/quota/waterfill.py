"""Exact weighted max-min fairness in one pass: water that is poured over shares until it, or they, are full.

What is asked for beyond one's share changes nobody's share, so that nobody gains by claiming more than is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """What one of those who share asks for."""

    #: In the unit of what is shared, from 0.
    demand: float
    #: Of what is scarce it gets in proportion to this; above 0.
    weight: float = 1.0
    #: Gets so much, if it asks for it, before anybody gets more than the floor.
    floor: float = 0.0
    #: Greater ones are filled before smaller ones get anything beyond their floors.
    priority: int = 0


def waterfill(capacity: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """What each gets: its demand, or its weight times one level that is the same for all. O(n log n)."""
    shares = [0.0] * len(demands)
    remaining, weight_left = capacity, sum(weights)
    for index in sorted(range(len(demands)), key=lambda at: (demands[at] / weights[at], at)):
        level = max(0.0, remaining) / weight_left if weight_left > 0 else 0.0
        shares[index] = min(demands[index], level * weights[index])
        remaining -= shares[index]
        weight_left -= weights[index]
    return shares


def shares(capacity: float, claims: Sequence[Claim]) -> list[float]:
    """What each claim gets: first the floors, then by priority what is still asked for, by weight within each.

    Floors that exceed the capacity together are filled by weight like everything else.
    """
    given = waterfill(capacity, [min(c.demand, c.floor) for c in claims], [c.weight for c in claims])
    remaining = capacity - sum(given)
    for priority in sorted({c.priority for c in claims}, reverse=True):
        at = [index for index, claim in enumerate(claims) if claim.priority == priority]
        more = waterfill(remaining, [claims[i].demand - given[i] for i in at], [claims[i].weight for i in at])
        for index, share in zip(at, more, strict=True):
            given[index] += share
        remaining -= sum(more)
    return given
