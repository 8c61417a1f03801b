"""What a demand asks for, resource by resource, and which of them gives way first."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from engine.bus.partitions import MOST_PARTITIONS
from engine.core.errors import BadInput
from hbus_console.bench.growth.costs import Costs

DAY_S = 86_400
GIB = 1024**3


@dataclass(frozen=True)
class Demand:
    """What is asked for. Raises ``BadInput`` for what cannot be."""

    per_day: float = 1e9
    #: The busiest second beside the mean one.
    peak: float = 4.0
    #: Subscriptions that get each message, on average.
    groups: float = 2.0
    #: What a handler takes: wall time, of which so much on the processor.
    handler_ms: float = 5.0
    handler_cpu_ms: float = 0.5
    #: How long topics keep messages.
    retention_h: float = 24.0
    #: How busy anything may be at the peak, so that it can catch up after an outage.
    busy: float = 0.6
    #: Share of the messages that the busiest topic has.
    busiest: float = 0.2
    #: Handler threads of one process.
    threads: int = 16
    #: Memory of one store, and what the ledger's database may grow by in a day.
    store_gib: float = 64.0
    ledger_gib: float = 1024.0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("per_day", 1, 1e15),
            ("peak", 1, 1000),
            ("groups", 0, 1000),
            ("handler_cpu_ms", 0, self.handler_ms),
            ("retention_h", 0, 24 * 365),
            ("busy", 0.01, 1),
            ("busiest", 0, 1),
            ("threads", 1, 256),
            ("store_gib", 0.1, 1e6),
            ("ledger_gib", 0.1, 1e9),
        ):
            if not least <= getattr(self, name) <= most:
                raise BadInput(f"{name} is {getattr(self, name):g}.", remedy=f"{least:g} to {most:g}.", field=name)

    @property
    def mean(self) -> float:
        """Messages a second over the day."""
        return self.per_day / DAY_S

    @property
    def most(self) -> float:
        """Messages a second at the peak."""
        return self.mean * self.peak


@dataclass(frozen=True)
class Need:
    """One resource: how much of it, exactly, and how that was worked out."""

    what: str
    units: float
    unit: str
    why: str

    @property
    def whole(self) -> int:
        return ceil(self.units - 1e-9)


@dataclass(frozen=True)
class Bend:
    """Where the design of today has an end: so many units at most, which carry so many messages a day."""

    what: str
    most: int
    per_day: float
    answer: str


def store_us(costs: Costs, groups: float) -> float:
    """The store's time for one message and all its deliveries."""
    return costs.store_publish_us + groups * costs.store_consume_us


def needs(costs: Costs, demand: Demand) -> list[Need]:
    """What ``demand`` asks for at its peak (what is kept: over its day)."""
    most, busy, groups = demand.most, demand.busy, demand.groups
    delivery_us = costs.consume_us + demand.handler_cpu_ms * 1000
    stores = most * store_us(costs, groups) / 1e6 / busy
    threads = most * groups * (demand.handler_ms / 1000) / busy
    cores = most * groups * delivery_us / 1e6 / busy
    kept = demand.per_day / 24 * demand.retention_h * costs.stored_b
    logged = costs.logged_publish_b + groups * costs.logged_consume_b
    # What is booked may wait out the peak; its facts lie in the store meanwhile.
    booked = demand.mean * costs.booked_us * (1 + groups) / 2 / 1e6 / busy
    return [
        Need(
            "cores that publish", most * costs.publish_us / 1e6 / busy, "cores", f"{costs.publish_us:.1f} µs a message"
        ),
        Need(
            "stores",
            stores,
            "stores",
            f"{costs.store_publish_us:.1f} µs a publish and {costs.store_consume_us:.1f} a delivery of one thread each",
        ),
        Need(
            "memory of the stores", kept / GIB, "GiB", f"{costs.stored_b:.0f} B a message for {demand.retention_h:g} h"
        ),
        Need("append-only files", most * logged / 1e6, "MB/s", f"{logged:.0f} B a message at the peak"),
        Need("cores that consume", cores, "cores", f"{delivery_us:,.0f} µs a delivery, the handler's own included"),
        Need("handler threads", threads, "threads", f"{demand.handler_ms:g} ms each (Little's law)"),
        Need(
            "consumer processes",
            max(cores, threads / demand.threads),
            "processes",
            f"a core or {demand.threads} threads each, whichever is spent first",
        ),
        Need(
            "cores that book", booked, "cores", f"{costs.booked_us:.0f} µs a message with one delivery, over the mean"
        ),
        Need(
            "ledger",
            demand.per_day * costs.booked_b * (1 + groups) / 2 / GIB,
            "GiB a day",
            f"{costs.booked_b:.0f} B a message with one delivery",
        ),
    ]


def bends(costs: Costs, demand: Demand) -> list[Bend]:
    """Every end of today's design, the nearest first. Messages a day at the demand's own shape."""
    groups, busy = demand.groups, demand.busy
    at_peak = busy * DAY_S / demand.peak
    per_message = store_us(costs, groups)
    delivery_us = costs.consume_us + demand.handler_cpu_ms * 1000
    processes = 1e6 / max(delivery_us, demand.handler_ms * 1000 / demand.threads)
    found = [
        Bend(
            "the one store of an installation",
            1,
            1e6 / per_message * at_peak,
            "A URL for each topic, as each names its transport already; the installation's own store keeps evidence "
            "and locks.",
        ),
        Bend(
            f"the memory of that store, {demand.store_gib:g} GiB",
            1,
            demand.store_gib * GIB * busy / costs.stored_b / (max(demand.retention_h, 1e-9) / 24),
            "Hours instead of days in the stream, with the archive behind it; then more stores.",
        ),
        Bend(
            "the store of the busiest topic",
            1,
            1e6 / per_message * at_peak / max(demand.busiest, 1e-9),
            "The hash tag goes from the topic to the partition, so that a cluster spreads them; a batch over several "
            "partitions is then several appends.",
        ),
        Bend(
            "partitions of the busiest topic, one owner each",
            MOST_PARTITIONS,
            MOST_PARTITIONS * processes * at_peak / max(demand.busiest, 1e-9),
            "More of them: a key never needs more than one.",
        ),
        Bend(
            "the one keeper that books facts",
            1,
            1e6 / (costs.booked_us * (1 + groups) / 2) * busy * DAY_S,
            "A fact stream and a booker for each share of the topics.",
        ),
        Bend(
            f"the ledger's database, {demand.ledger_gib:g} GiB for a day",
            1,
            demand.ledger_gib * GIB / (costs.booked_b * (1 + groups) / 2),
            "The ledger keeps hours and what went wrong; the whole goes to the archive in columns.",
        ),
    ]
    return sorted(found, key=lambda bend: bend.per_day)
