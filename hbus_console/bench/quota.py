"""`manage.py bench quota`: limiters and their control plane beside their peers, in one run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from engine.quota import LocalLimiter, QuotaNode
from engine.quota.distributed import DistributedLimiter
from engine.quota.node import AT_ONCE
from hbus_console.bench import quota_calls
from hbus_console.bench.loops import alone
from hbus_console.bench.processes import Child
from hbus_console.bench.quota_plane import CHAIN, LIMIT, MeasuredPlane, p99
from hbus_console.bench.rig import Measurement, conditions_of
from hbus_console.bench.rows import Row, compare
from hbus_console.supervisor.standalone import StandaloneStore

AREA = quota_calls.AREA
#: What one check may cost a request, in microseconds.
GOAL_REQUEST_US = 5.0
#: Those who share one bucket.
CLAIMANTS = 8
#: Wants of one run, one after the other; and requests of one round.
ROUND_TRIPS, REQUESTS = 300, 2_000
#: How long a limiter is asked before it is measured: its node asks for as much as is spent.
WARM_S = 0.1


class QuotaRig:
    """One run: its store, its limiters, and its size. Close it."""

    def __init__(self, store: StandaloneStore, *, calls: int, tenants: int, samples: int) -> None:
        self.store = store
        self.calls = calls
        self.tenants = tenants
        self.samples = samples
        self.plane = MeasuredPlane(store.url)
        self.local = LocalLimiter(LIMIT, LIMIT)
        self.conditions = f"{samples} runs, {conditions_of(store.url)}, load {os.getloadavg()[0]:.1f} at the start"
        self._node: QuotaNode | None = None

    def permits(self) -> DistributedLimiter:
        """A limiter that the store feeds, warm."""
        if self._node is None:
            self._node = self.plane.node()
        limiter = self._node.limiter("service", "resource", "tenant")
        ends_at = time.monotonic() + WARM_S
        while time.monotonic() < ends_at:
            alone(limiter.allow, 1_000)
        return limiter

    def close(self) -> None:
        """End what was started."""
        if self._node is not None:
            self._node.stop()
        self.plane.close()
        self.store.kill()


@contextmanager
def measured(*, calls: int, tenants: int, samples: int) -> Iterator[QuotaRig]:
    """A rig with a store of its own, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="hbus-bench-") as name:
        store = StandaloneStore(Path(name) / "store").start()
        rig = QuotaRig(store, calls=calls, tenants=tenants, samples=samples)
        try:
            yield rig
        finally:
            rig.close()


def measurements(rig: QuotaRig) -> Iterator[Measurement]:
    """Every row of the area, in the order of the table."""
    yield from quota_calls.measurements(
        permits=rig.permits, local=rig.local, calls=rig.calls, samples=rig.samples, conditions=rig.conditions
    )
    refill = "refill: one Want to the store and its Alloc"
    yield Measurement(refill, partial(_refill, rig, refill))
    one = f"Wants a second of {CLAIMANTS} claimants of one bucket"
    yield Measurement(one, partial(_wants, rig, one, lambda: rig.plane.of_one_bucket(rig.tenants, CLAIMANTS)))
    many = f"Wants a second of {rig.tenants:,} tenants"
    yield Measurement(many, partial(_wants, rig, many, lambda: rig.plane.of_tenants(rig.tenants)))
    held = f"Wants a second of {rig.tenants:,} tenants held to {len(CHAIN)} rules each"
    yield Measurement(held, partial(_wants, rig, held, lambda: rig.plane.of_chains(rig.tenants)))
    request = "the quota middleware in a Django request"
    yield Measurement(request, partial(_request, rig, request))


def _refill(rig: QuotaRig, what: str) -> Row:
    """Ours beside the least that any round trip takes."""
    wants: list[float] = []
    pings: list[float] = []
    rig.plane.round_trips(10)
    for _ in range(rig.samples):
        mine, theirs = rig.plane.round_trips(ROUND_TRIPS)
        wants += mine
        pings += theirs
    mine_ms, theirs_ms = median(wants), median(pings)
    return Row(
        AREA,
        what,
        "ms",
        mine_ms,
        "redis-py, PING over the same connection",
        theirs_ms,
        mine_ms / theirs_ms,
        None,
        None,
        rig.samples,
        f"{rig.conditions}; {len(wants):,} in turn; the peer's p99 is {p99(pings):.2f} ms",
        mine_ms,
        p99(wants),
    )


def _wants(rig: QuotaRig, what: str, ours: Callable[[], float]) -> Row:
    # Buckets are made by who asks first.
    ours()
    server_us: list[float] = []

    def wants() -> float:
        before = rig.plane.server_s()
        found = ours()
        server_us.append((rig.plane.server_s() - before) * 1e6 / rig.tenants)
        return found

    row = compare(
        AREA,
        what,
        "/s",
        ours=wants,
        peer="redis-py, INCR",
        theirs=lambda: rig.plane.increments(rig.tenants),
        samples=rig.samples,
        conditions=f"{rig.conditions}; wall, {rig.tenants:,} a run, in pipelines of {AT_ONCE} by one client",
    )
    return replace(row, conditions=f"{row.conditions}; the store's CPU is {median(server_us):.0f} µs a Want")


def _request(rig: QuotaRig, what: str) -> Row:
    rounds = rig.samples * quota_calls.ROUNDS
    child = Child("hbus_console.bench.quota_request", {"url": rig.store.url, "requests": REQUESTS, "rounds": rounds})
    child.go()
    found = child.result()
    without, checked = median(found["without"]), median(found["checked"])
    # Of each pair, for both have the same neighbours.
    costs = [pair[1] - pair[0] for pair in zip(found["without"], found["checked"], strict=True)]
    cost = median(costs)
    return Row(
        AREA,
        what,
        "µs",
        cost,
        "the goal alone",
        None,
        None,
        GOAL_REQUEST_US,
        cost < GOAL_REQUEST_US,
        rounds,
        f"{rig.conditions}; thread CPU of get_response with one middleware that does nothing, "
        f"{without:.1f} µs, and with that of quotas, {checked:.1f} µs: admitted, counted, and both headers written; "
        f"{REQUESTS:,} a round",
    )
