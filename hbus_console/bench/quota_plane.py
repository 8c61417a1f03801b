"""The control plane in the store: how long one Want takes, and how many it answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import quantiles

import redis

from engine.core.clock import SystemClock
from engine.core.ids import new_id
from engine.quota import Book, QuotaNode, Rule
from engine.quota.node import AT_ONCE
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, Want

PREFIX = "bench"
#: Nobody is refused.
LIMIT = 1e9
RULE = Rule(id="rule", limit=LIMIT, burst=LIMIT)
#: As an installation has them: some that each tenant has buckets of by itself, and some that all take from together.
CHAIN = tuple(Rule(id=f"rule{number}", service="held", limit=LIMIT, burst=LIMIT) for number in range(6))
SHARED = CHAIN[3:]
#: What each Want asks for, and how many tokens a second its callers do.
ASKED, DEMAND = 100, 1_000.0


class MeasuredPlane:
    """A control plane with its rules, and those who want something of it. Close it."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.plane = RedisControlPlane(self.client, PREFIX)
        self.plane.keep_rules(*Book(version=1, rules=(RULE, *CHAIN)).kept())

    def close(self) -> None:
        self.client.close()

    def node(self) -> QuotaNode:
        """A node that asks it, started. Stop it."""
        node = QuotaNode("bench", self.plane)
        node.start()
        return node

    def server_s(self) -> float:
        """Processor seconds of the store so far."""
        used = self.client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    def round_trips(self, count: int) -> tuple[list[float], list[float]]:
        """Milliseconds of one Want after the other, each beside a PING over the same connection."""
        wants, pings = [], []
        for want in [_want("bench", "tenant") for _ in range(count)]:
            began = time.perf_counter()
            self.plane.want([want])
            answered = time.perf_counter()
            self.client.ping()
            wants.append((answered - began) * 1000)
            pings.append((time.perf_counter() - answered) * 1000)
        return wants, pings

    def of_one_bucket(self, count: int, claimants: int) -> float:
        """Wants a second of as many nodes for one tenant."""
        return self._rate([_want(f"node{number % claimants}", "tenant") for number in range(count)])

    def of_tenants(self, tenants: int) -> float:
        """Wants a second of one node, each of another tenant."""
        return self._rate([_want("bench", f"tenant{number}") for number in range(tenants)])

    def of_chains(self, tenants: int) -> float:
        """Likewise, each held to all of :data:`CHAIN`."""
        return self._rate([_want("bench", f"held{number}", CHAIN) for number in range(tenants)])

    def increments(self, count: int) -> float:
        """The peer's: INCR a second, in as long pipelines."""
        began = time.perf_counter()
        for start in range(0, count, AT_ONCE):
            with self.client.pipeline(transaction=False) as pipeline:
                for number in range(start, min(start + AT_ONCE, count)):
                    pipeline.incr(f"{PREFIX}:count{number}")
                pipeline.execute()
        return count / (time.perf_counter() - began)

    def _rate(self, wants: Sequence[Want]) -> float:
        """As a node carries them."""
        began = time.perf_counter()
        for start in range(0, len(wants), AT_ONCE):
            self.plane.want(wants[start : start + AT_ONCE])
        return len(wants) / (time.perf_counter() - began)


def p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98]


def _want(node: str, tenant: str, rules: Sequence[Rule] = (RULE,)) -> Want:
    chain = tuple(BucketLink(rule.id, "" if rule in SHARED else tenant) for rule in rules)
    return Want(new_id(SystemClock().now_ms()), node, f"service/resource/{tenant}", tenant, chain, ASKED, DEMAND)
