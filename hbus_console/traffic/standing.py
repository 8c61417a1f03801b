"""How things stand now: rates and lag, and the words for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from django.conf import settings

from engine.bus.transport import Lag
from hbus_console.access.scopes import scopes_q
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic import flow
from hbus_console.traffic.flow import LagNow
from hbus_console.ui import formats
from hbus_console.ui.concern import Look

#: For so long rates and lag are served again: they are booked and sampled more slowly than that.
FLOW_FRESH_MS = 1_900
#: Sets of scopes remembered at once.
_MOST_SIGHTS = 64


@dataclass(frozen=True)
class Backlog:
    """What some subscriptions have not settled, as far as it is known: never 0 where nobody could tell."""

    #: So many at least.
    known: int = 0
    #: Subscriptions of which the store cannot tell how many wait, or of which nobody has heard.
    unknown: int = 0
    #: When the longest-waiting one that is known was published.
    oldest_ms: int | None = None
    #: Since when those that are unknown are, where that is because nobody has asked the store since.
    since_ms: int | None = None

    @classmethod
    def of(cls, lags: Iterable[Lag | flow.LagNow | None]) -> Backlog:
        """Of all of ``lags``; ``None`` stands for a subscription of which nobody has heard."""
        lags = list(lags)
        heard = [lag for lag in lags if lag is not None]
        old = [lag.at_ms for lag in heard if isinstance(lag, flow.LagNow) and lag.old]
        unknown = sum(lag is None or lag.waiting is None for lag in lags)
        return cls(
            sum((lag.waiting or 0) + lag.in_flight + lag.retrying + lag.parked for lag in heard),
            unknown,
            min((lag.oldest_ms for lag in heard if lag.oldest_ms), default=None),
            min(old) if old and len(old) == unknown else None,
        )

    @property
    def told(self) -> str:
        """``1,204``; ``≥ 1,204`` where more may wait; an en dash where nothing is known."""
        if not self.unknown:
            return formats.num(self.known)
        return f"≥ {formats.num(self.known)}" if self.known else formats.NOTHING

    @property
    def tone(self) -> str:
        return "warn" if self.known or self.unknown else "muted"

    def since(self, now_ms: int) -> str:
        """``oldest 1.4 s``, or why there is none."""
        if not self.unknown:
            return oldest(self.oldest_ms, now_ms)
        if self.oldest_ms is not None:
            return f"{oldest(self.oldest_ms, now_ms)} or more"
        return self.unasked or NOT_KNOWN

    @property
    def unasked(self) -> str:
        """``not known since 14:02:11``, where all that is unknown is so because nobody has asked the store since."""
        return freshness.not_known(self.since_ms) if self.since_ms else ""


#: Stands where "nothing waits" would, while the store cannot tell.
NOT_KNOWN = "what waits is not known"


@dataclass(frozen=True)
class Standing:
    """How things flow and what waits."""

    now: flow.FlowNow
    lag: dict[tuple[str, str], flow.LagNow]
    #: Subscriptions that nobody could read lately: a store of theirs is away, or they are of this moment.
    unread: Set[tuple[str, str]] = frozenset()
    #: Of when the facts are that the rates are made of, and the dead letters.
    booked: Freshness = field(default_factory=Freshness)
    dead: Freshness = field(default_factory=Freshness)

    @cached_property
    def backlog(self) -> Backlog:
        return Backlog.of([*self.lag.values(), *(None for _ in self.unread)])

    def backlog_of(self, topic: str) -> Backlog:
        """Of all subscriptions of ``topic``."""
        return Backlog.of(self._by_topic.get(topic, ()))

    @cached_property
    def _by_topic(self) -> dict[str, list[flow.LagNow | None]]:
        found: dict[str, list[flow.LagNow | None]] = {}
        for (name, _), lag in self.lag.items():
            found.setdefault(name, []).append(lag)
        for name, _ in self.unread:
            found.setdefault(name, []).append(None)
        return found


_recent: dict[tuple[str, ...], tuple[int, Standing]] = {}


def standing(now_ms: int, scopes: tuple[str, ...]) -> Standing:
    """Rates and lag in ``scopes``, at most :data:`FLOW_FRESH_MS` old: five queries, or none."""
    at_ms, known = _recent.get(scopes, (0, None))
    if known is not None and settings.HISTORY_FRESH_S and 0 <= now_ms - at_ms < FLOW_FRESH_MS:
        return known
    rows = Subscription.objects.filter(scopes_q(scopes, "topic__name")).values_list("topic__name", "group")
    made, sampled = frozenset(rows), flow.latest_lag(scopes, now_ms)
    # What is not sampled any more because it is gone is not unknown.
    lag = {key: line for key, line in sampled.items() if not line.old or key in made}
    of = freshness.read(now_ms)
    booked = of[freshness.FACTS]
    found = Standing(flow.rates(now_ms, scopes, booked), lag, made - lag.keys(), booked, of[freshness.DEAD_LETTERS])
    if len(_recent) >= _MOST_SIGHTS:
        _recent.clear()
    _recent[scopes] = (now_ms, found)
    return found


def parts(lag: Lag | flow.LagNow) -> str:
    """What the unsettled messages of a subscription do: "2 waiting, 1 parked". Always whole, so kept short."""
    if isinstance(lag, flow.LagNow) and lag.old:
        return freshness.not_known(lag.at_ms)
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
