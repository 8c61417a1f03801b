"""A day second by second: what comes, what is accepted, handled and booked, and what an outage leaves behind.

A fluid model: numbers of messages, not messages. First in, first out, so the age of the oldest follows from two sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, pi

from hbus_console.bench.growth.costs import Costs
from hbus_console.bench.growth.plan import DAY_S, Demand, store_us

HOUR_S = 3600
#: The curve of a day swings by so much around its mean, highest at so many hours.
SWING, NOON_H = 0.5, 14
#: The burst that reaches the peak.
BURST_AT_S, BURST_S = 20 * HOUR_S, 900


@dataclass(frozen=True)
class Outage:
    """For ``seconds`` only a ``share`` is there of ``what``: ``stores``, ``consumers`` or ``bookers``."""

    what: str
    at_s: int
    seconds: int
    share: float = 0.0


@dataclass(frozen=True)
class Park:
    """What stands there: messages a second that each can take."""

    #: Microseconds of store time in a second.
    store_us: float
    deliveries: float
    booked: float


@dataclass(frozen=True)
class Queue:
    """How one queue fared: its most, the age of its oldest at the worst, and when it was last not empty of arrears."""

    most: float
    oldest_s: int
    clear_s: int


@dataclass(frozen=True)
class Day:
    """``refused`` waits at the publishers, ``waiting`` in the topics (deliveries), ``unbooked`` in the fact streams."""

    published: float
    delivered: float
    refused: Queue
    waiting: Queue
    unbooked: Queue


def arrivals(demand: Demand) -> Iterator[float]:
    """Messages in each second: a swing around the mean and one burst to the peak; together ``per_day``."""
    shape = [1 + SWING * cos(2 * pi * (second - NOON_H * HOUR_S) / DAY_S) for second in range(DAY_S)]
    for second in range(BURST_AT_S, BURST_AT_S + BURST_S):
        shape[second] = max(shape[second], demand.peak)
    scale = demand.per_day / sum(shape)
    return (scale * each for each in shape)


def park(costs: Costs, demand: Demand) -> Park:
    """As much of everything as :func:`plan.needs` asks for."""
    return Park(
        store_us=demand.most * store_us(costs, demand.groups) / demand.busy,
        deliveries=demand.most * demand.groups / demand.busy,
        booked=demand.mean / demand.busy,
    )


def live(costs: Costs, demand: Demand, there: Park, outages: Sequence[Outage] = ()) -> Day:
    """Run the day. What is published has the store first; what is left of it delivers."""
    refused, waiting, unbooked = _Arrears(), _Arrears(), _Arrears()
    per_delivery = max(costs.store_consume_us, 1e-9)
    for second, coming in enumerate(arrivals(demand)):
        share = {outage.what: outage.share for outage in outages if 0 <= second - outage.at_s < outage.seconds}
        budget = there.store_us * share.get("stores", 1.0)
        refused.add(coming)
        accepted = refused.take(budget / costs.store_publish_us, second)
        waiting.add(accepted * demand.groups)
        left = max(0.0, budget - accepted * costs.store_publish_us)
        most = min(there.deliveries * share.get("consumers", 1.0), left / per_delivery)
        waiting.take(most, second)
        unbooked.add(accepted)
        unbooked.take(there.booked * share.get("bookers", 1.0), second)
    return Day(refused.taken, waiting.taken, refused.told(), waiting.told(), unbooked.told())


class _Arrears:
    """A queue's two sums: what has come by each second, and what has been taken."""

    def __init__(self) -> None:
        self.taken = 0.0
        self._come = 0.0
        self._come_by: list[float] = []
        self._reached = 0
        self._most, self._oldest_s, self._clear_s = 0.0, 0, 0

    def add(self, number: float) -> None:
        self._come += number
        self._come_by.append(self._come)

    def take(self, most: float, second: int) -> float:
        number = min(most, self._come - self.taken)
        self.taken += number
        left = self._come - self.taken
        self._most = max(self._most, left)
        # Rounding leaves crumbs of a message; less than one is none.
        while self._reached <= second and self._come_by[self._reached] <= self.taken + 1:
            self._reached += 1
        age = second - self._reached + 1 if left >= 1 else 0
        self._oldest_s = max(self._oldest_s, age)
        if age > 1:
            self._clear_s = second + 1
        return number

    def told(self) -> Queue:
        return Queue(self._most, self._oldest_s, self._clear_s)
