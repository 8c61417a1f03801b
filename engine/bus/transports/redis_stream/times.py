"""Which clock leases and due times are read from: the server's, unless one is injected."""

from __future__ import annotations

from engine.core.clock import Clock, SystemClock


class StoreTime:
    """Gives scripts their ``now`` argument: empty for the server's own clock, which all consumers share."""

    def __init__(self, clock: Clock | None) -> None:
        # The machine's clock is no better than the store's, and differs from node to node.
        self._clock = None if isinstance(clock, SystemClock) else clock

    @property
    def injected(self) -> bool:
        """Whether time moves only when somebody moves it."""
        return self._clock is not None

    def now(self) -> int | str:
        return "" if self._clock is None else self._clock.now_ms()
