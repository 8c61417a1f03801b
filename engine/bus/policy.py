"""How a subscription handles its deliveries: concurrency, lease, attempts and backoff."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bus.partitions import MOST_PARTITIONS
from engine.core.errors import BadInput

#: Seconds before attempt 2, 3, 4 …; the last tier repeats.
DEFAULT_BACKOFF_S = (1.0, 5.0, 30.0, 120.0, 600.0)
#: The most handler threads of one consumer.
MOST_THREADS = 256
#: ``block``: they wait while it is tried again; once it is dead they go on. ``park``: they wait while it is tried
#: again; once its attempts are used up the key is set aside, messages and all, until an operator decides. ``pass``:
#: they go on at once, and it is tried again out of order.
FAILED_HEAD = ("block", "park", "pass")
SHORTEST_LEASE_S = 1.0
LONGEST_LEASE_S = 3_600.0
MOST_BREAKER_FAILURES = 10_000


@dataclass(frozen=True)
class RetryPolicy:
    """``max_attempts`` counts the first one; 1 means no retry of what failed. Each pause is drawn from half its tier to
    all of it.

    An attempt whose consumer vanished counts, whether it was made or not. With 1 the message gets a second then, for
    nobody knows whether it had its first: nothing else is tried more often than this.
    """

    max_attempts: int = 5
    backoff_s: tuple[float, ...] = DEFAULT_BACKOFF_S

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= 100:
            raise BadInput("max_attempts must be from 1 to 100.", remedy="5 is the default.", field="max_attempts")
        if not self.backoff_s or any(not 0 < tier <= 86_400 for tier in self.backoff_s):
            raise BadInput(
                "Each backoff tier must be more than 0 and at most 86400 seconds.",
                remedy="For example 1, 5, 30, 120.",
                field="backoff_s",
            )


@dataclass(frozen=True)
class BreakerPolicy:
    """When failures look like an outage, and for how long nothing is delivered then.

    It opens once ``failures`` different messages have failed within ``window_s``, each for the first time, and make up
    ``share`` of all that was handled since the first of them; 0 failures: never. It stays open for ``open_s``, twice as
    long each time the message tried afterwards fails, at most ``longest_open_s``; one that had failed before makes it
    no longer.
    """

    failures: int = 20
    share: float = 0.8
    window_s: float = 30.0
    open_s: float = 10.0
    longest_open_s: float = 300.0

    def __post_init__(self) -> None:
        if not 0 <= self.failures <= MOST_BREAKER_FAILURES:
            raise BadInput(
                f"breaker_failures must be from 0 to {MOST_BREAKER_FAILURES}.",
                remedy="20 is the default; 0 switches the breaker off.",
                field="breaker_failures",
            )
        if not 0.1 <= self.share <= 1:
            raise BadInput(
                "The share of failures must be from 0.1 to 1.", remedy="0.8 is the default.", field="breaker_share"
            )
        for field, value in (("breaker_window_s", self.window_s), ("breaker_open_s", self.open_s)):
            if not 1 <= value <= LONGEST_LEASE_S:
                raise BadInput(f"{field} must be from 1 to {LONGEST_LEASE_S:g} seconds.", field=field)
        if not self.open_s <= self.longest_open_s <= 86_400:
            raise BadInput(
                "breaker_longest_open_s must be at least breaker_open_s and at most 86400 seconds.",
                remedy="300 is the default.",
                field="breaker_longest_open_s",
            )


@dataclass(frozen=True)
class SubscriptionPolicy:
    """What a consumer needs to know about its subscription."""

    topic: str
    group: str
    retry: RetryPolicy = RetryPolicy()
    #: Handler threads.
    concurrency: int = 4
    #: How long a delivery is reserved before another consumer may have it; renewed at a third by heartbeat.
    lease_s: float = 30.0
    #: Effects and inbox row commit together.
    transactional: bool = False
    #: ``none`` or ``key``: one message of a key at a time, in order.
    ordering: str = "none"
    #: The topic's: how many consumers can share an ordered subscription.
    partitions: int = 1
    #: With ``ordering="key"``, what a message that fails does to those of its key behind it: one of ``FAILED_HEAD``.
    on_failed_head: str = "block"
    breaker: BreakerPolicy = BreakerPolicy()
    #: How long a handler may take before its message is given up (and tried again, or dead) and its thread replaced;
    #: 0: for ever, and the message is its own until it ends.
    max_handler_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MOST_THREADS:
            raise BadInput(
                f"concurrency must be from 1 to {MOST_THREADS}.", remedy="4 is the default.", field="concurrency"
            )
        if not SHORTEST_LEASE_S <= self.lease_s <= LONGEST_LEASE_S:
            raise BadInput(
                f"lease_s must be from {SHORTEST_LEASE_S:g} to {LONGEST_LEASE_S:g} seconds.",
                remedy="30 is the default; longer handlers need no longer lease, it is renewed.",
                field="lease_s",
            )
        if self.max_handler_s and not SHORTEST_LEASE_S <= self.max_handler_s <= 86_400:
            raise BadInput(
                "max_handler_s must be 0, or from 1 to 86400 seconds.", remedy="0 sets no limit.", field="max_handler_s"
            )
        if self.ordering not in ("none", "key"):
            raise BadInput(f"ordering {self.ordering!r} is not known.", remedy="Use none or key.", field="ordering")
        if not 1 <= self.partitions <= MOST_PARTITIONS or (self.partitions > 1 and self.ordering != "key"):
            raise BadInput(
                f"{self.partitions} partitions are not possible here.",
                remedy=f"Use 1 to {MOST_PARTITIONS} with ordering key, and 1 without order.",
                field="partitions",
            )
        if self.on_failed_head not in FAILED_HEAD:
            raise BadInput(
                f"on_failed_head {self.on_failed_head!r} is not known.",
                remedy="Use block, park or pass.",
                field="on_failed_head",
            )
