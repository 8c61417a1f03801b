"""How things stand now: rates and lag, and the words for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings

from engine.bus.transport import Lag
from hbus_console.traffic import flow
from hbus_console.traffic.flow import LagNow
from hbus_console.ui import formats
from hbus_console.ui.concern import Look

#: For so long rates and lag are served again: they are booked and sampled more slowly than that.
FLOW_FRESH_MS = 1_900
#: Sets of scopes remembered at once.
_MOST_SIGHTS = 64


@dataclass(frozen=True)
class Standing:
    """How things flow and what waits."""

    now: flow.FlowNow
    lag: dict[tuple[str, str], flow.LagNow]

    @property
    def unsettled(self) -> int:
        return sum(lag.unsettled or 0 for lag in self.lag.values())

    @property
    def oldest_ms(self) -> int | None:
        """When the longest-waiting message was published; ``None`` when nothing waits."""
        return min((lag.oldest_ms for lag in self.lag.values() if lag.oldest_ms), default=None)

    def unsettled_of(self, topic: str) -> int | None:
        """What all subscriptions of ``topic`` have not settled; ``None`` when none could be read."""
        found = self._by_topic.get(topic, [])
        known = [value for value in found if value is not None]
        return sum(known) if known or not found else None

    @cached_property
    def _by_topic(self) -> dict[str, list[int | None]]:
        found: dict[str, list[int | None]] = {}
        for (name, _), lag in self.lag.items():
            found.setdefault(name, []).append(lag.unsettled)
        return found


_recent: dict[tuple[str, ...], tuple[int, Standing]] = {}


def standing(now_ms: int, scopes: tuple[str, ...]) -> Standing:
    """Rates and lag in ``scopes``, at most :data:`FLOW_FRESH_MS` old: three queries, or none."""
    at_ms, known = _recent.get(scopes, (0, None))
    if known is not None and settings.HISTORY_FRESH_S and 0 <= now_ms - at_ms < FLOW_FRESH_MS:
        return known
    found = Standing(flow.rates(now_ms, scopes), flow.latest_lag(scopes))
    if len(_recent) >= _MOST_SIGHTS:
        _recent.clear()
    _recent[scopes] = (now_ms, found)
    return found


def parts(lag: Lag | flow.LagNow) -> str:
    """What the unsettled messages of a subscription do: "2 waiting, 1 parked". Always whole, so kept short."""
    known = {"waiting": lag.waiting, "in flight": lag.in_flight, "retrying": lag.retrying, "parked": lag.parked}
    said = [f"{formats.num(number)} {word}" for word, number in known.items() if number or number is None]
    return ", ".join(said) or "nothing waits"


def oldest(oldest_ms: int | None, now_ms: int) -> str:
    """``oldest 1.4 s``."""
    return "nothing waits" if oldest_ms is None else f"oldest {formats.duration(max(0, now_ms - oldest_ms) * 1000)}"


def share(part: float) -> str:
    """A share from 0 to 1 in percent, never rounded up: 0.99997 is 99.99 %, not 100 %; 0.00001 is 0.01 %, not 0 %."""
    return f"{_percent(part, math.floor)} %"


def failing(part: float | None) -> tuple[str, str]:
    """A share of failures from 0 to 1 as value and unit, never rounded down; all, too, only where all failed."""
    return (formats.num(None), "") if part is None else (_percent(part, math.ceil), "%")


def _percent(part: float, rounded: Callable[[float], int]) -> str:
    hundredths = rounded(round(part * 10_000, 6))
    if 0 < part < 1:
        hundredths = min(max(hundredths, 1), 9_999)
    return f"{hundredths / 100:.2f}".rstrip("0").rstrip(".")


def handling(handler_us: int | None) -> tuple[str, str]:
    """Mean handler time as value and unit."""
    value, _, unit = formats.duration(handler_us).partition(" ")
    return value, unit


def stand(look: Look) -> Standing:
    """How things flow and what waits."""
    return standing(look.now_ms, look.scopes)


def lag(look: Look) -> Sequence[LagNow]:
    """Where the subscriptions stand."""
    return list(look.once(stand).lag.values())
