"""What a consumer says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bus.consuming.hung import Hung


@dataclass(frozen=True)
class ConsumerStatus:
    """How a consumer stands now."""

    name: str
    topic: str
    group: str
    #: starting | running | paused | draining | stopped | store lost | out of connections | breaker open | hung |
    #: failing | waiting for ownership; ``hung``: none of its handlers returns; ``failing``: see ``dead_threads``
    state: str
    #: Handlers running now.
    in_flight: int
    #: Leased and not begun, those behind another of their key included.
    queued: int
    #: Decided and not yet taken by the store.
    unsettled: int
    #: Settled for good since the start: acknowledged, expired or dead.
    handled: int
    #: Attempts that failed since the start.
    failed: int
    #: Handled per second between the last two looks that were at least a second apart.
    rate: float
    #: Seconds since the reading loop last moved: the sign of life. It moves at least every few seconds.
    loop_age_s: float
    #: Of an ordered group, what this consumer owns: partition to epoch.
    partitions: dict[int, int]
    last_error: str
    #: How long the oldest running handler has been at it.
    oldest_running_s: float
    #: Threads that are gone and should not be, or that break again and again; normally empty.
    dead_threads: tuple[str, ...] = ()
    #: Handlers that do not return.
    hung: tuple[Hung, ...] = ()
    #: Handler threads wanted now.
    concurrency: int = 0
    #: off | closed | open | probing
    breaker: str = "off"
    #: When ``last_error`` happened and when things went well again after it, epoch milliseconds; 0: not (yet).
    last_error_ms: int = 0
    recovered_ms: int = 0


@dataclass(frozen=True)
class Left:
    """What a drain left undone; all of it will be delivered again."""

    #: Handlers still running when the time was up.
    running: int = 0
    #: Decisions the store had not taken.
    unsettled: int = 0
    #: Handed back unhandled, as it should be.
    released: int = 0

    @property
    def clean(self) -> bool:
        """Whether every handler ended and every decision was taken."""
        return not self.running and not self.unsettled
