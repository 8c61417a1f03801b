"""What the overview says: five figures, and the topics by trouble. Each part is one or two indexed queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings
from django.db.models import Count

from engine.bus.transport import Lag
from hbus_console.accounts.permissions import Actor, visible_scopes
from hbus_console.accounts.scopes import scopes_q
from hbus_console.alerts import standing as alerts
from hbus_console.alerts.models import Alert
from hbus_console.deadletters.models import DeadLetter
from hbus_console.ledger import flow
from hbus_console.topics.models import Topic
from hbus_console.ui import formats, history
from hbus_console.ui.history import History
from hbus_console.ui.timerange import TimeRange

#: How many topics the overview lists; the topics page has them all.
MOST_TOPICS = 50
_STILL = flow.Rates()
#: For so long rates and lag are served again; what people decide, such as dead letters and alerts, never is.
FLOW_FRESH_MS = 1_900
#: Sets of scopes remembered at once.
_MOST_SIGHTS = 64


@dataclass(frozen=True)
class Figure:
    """One figure with its history. ``key`` is what live updates address."""

    key: str
    label: str
    value: str
    unit: str
    tone: str
    history: Sequence[float | None]
    note: str
    note_tone: str = ""
    url_name: str = ""


@dataclass(frozen=True)
class TopicRow:
    """A topic and how it stands. ``unsettled`` is ``None`` where the store cannot tell."""

    topic: Topic
    history: Sequence[float]
    per_second: float
    unsettled: int | None
    dead: int
    note: str

    @property
    def blocked(self) -> bool:
        """Whether nothing can be published to it, or is read from it."""
        return self.topic.team_id is None or self.topic.paused

    @property
    def carrier(self) -> str:
        """The transport that carries it."""
        return (self.topic.transport or settings.HBUS_TRANSPORT).replace("_stream", "")

    @property
    def trouble(self) -> tuple[int, int, int, int, float, str]:
        """Sorts the worst first."""
        return (
            -int(self.dead > 0),
            -int(self.blocked),
            -self.dead,
            -(self.unsettled or 0),
            -self.per_second,
            self.topic.name,
        )


@dataclass(frozen=True)
class Standing:
    """How things stand now: what live updates carry and what the first figures show."""

    now: flow.FlowNow
    lag: dict[tuple[str, str], flow.LagNow]
    dead: dict[str, int]
    #: Alerts that fire and wait for somebody, the most urgent first.
    alerts: Sequence[Alert] = ()

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


@dataclass(frozen=True)
class Overview:
    """The whole page but for what needs a person and the roles."""

    standing: Standing
    figures: list[Figure]
    rows: list[TopicRow]
    topics: int
    subscriptions: int


def standing(now_ms: int, scopes: tuple[str, ...]) -> Standing:
    """Rates, lag, waiting dead letters and alerts in ``scopes``: five queries, one more while something fires."""
    dead = (
        DeadLetter.objects.filter(scopes_q(scopes), state=DeadLetter.State.DEAD)
        .values_list("topic")
        .annotate(count=Count("id"))
        .order_by()
    )
    return Standing(*_flow(now_ms, scopes), dict(dead), alerts.waiting(scopes, now_ms))


_Flow = tuple[flow.FlowNow, dict[tuple[str, str], flow.LagNow]]
_recent: dict[tuple[str, ...], tuple[int, _Flow]] = {}


def _flow(now_ms: int, scopes: tuple[str, ...]) -> _Flow:
    """Rates and lag, at most :data:`FLOW_FRESH_MS` old: they are booked and sampled more slowly than that."""
    at_ms, known = _recent.get(scopes, (0, None))
    if known is not None and settings.HISTORY_FRESH_S and 0 <= now_ms - at_ms < FLOW_FRESH_MS:
        return known
    found = flow.rates(now_ms, scopes), flow.latest_lag(scopes)
    if len(_recent) >= _MOST_SIGHTS:
        _recent.clear()
    _recent[scopes] = (now_ms, found)
    return found


def build(who: Actor, chosen: TimeRange, now_ms: int) -> Overview:
    """The overview of what ``who`` may see over ``chosen``."""
    scopes = visible_scopes(who)
    stand = standing(now_ms, scopes)
    topics = list(
        Topic.objects.filter(scopes_q(scopes, "name")).select_related("team").annotate(readers=Count("subscriptions"))
    )
    past = history.of(scopes, chosen)
    rows = [
        TopicRow(
            topic=topic,
            history=past.topics.get(topic.name, ()),
            per_second=stand.now.topics.get(topic.name, _STILL).published,
            unsettled=stand.unsettled_of(topic.name),
            dead=stand.dead.get(topic.name, 0),
            note=_note(topic),
        )
        for topic in topics
    ]
    rows.sort(key=lambda row: row.trouble)
    return Overview(
        standing=stand,
        figures=_figures(stand, past, now_ms),
        rows=rows[:MOST_TOPICS],
        topics=len(topics),
        subscriptions=sum(topic.readers for topic in topics),
    )


def _figures(stand: Standing, past: History, now_ms: int) -> list[Figure]:
    series, whole = past.series, past.whole
    dead = sum(stand.dead.values())
    total = stand.now.total
    first = series.first_attempt
    first_attempt = "nothing settled yet" if first is None else f"{share(first)} at first attempt"
    return [
        Figure(
            key="published",
            label="Published",
            value=formats.rate(total.published),
            unit="/s",
            tone="accent",
            history=series.published[:whole],
            note=_peak(series),
            url_name="ledger:search",
        ),
        Figure(
            key="settled",
            label="Settled",
            value=formats.rate(total.settled),
            unit="/s",
            tone="ok",
            history=series.settled[:whole],
            note=first_attempt,
            url_name="topics:subscriptions",
        ),
        Figure(
            key="unsettled",
            label="Unsettled",
            value=formats.num(stand.unsettled),
            unit="",
            tone="warn" if stand.unsettled else "muted",
            history=past.waiting.unsettled[:whole],
            note=oldest(stand.oldest_ms, now_ms),
            url_name="topics:subscriptions",
        ),
        Figure(
            key="dead",
            label="Dead letters",
            value=formats.num(dead),
            unit="",
            tone="bad" if dead else "muted",
            history=series.dead[:whole],
            note=dead_note(stand.dead),
            url_name="deadletters:list",
        ),
        Figure(
            key="handling",
            label="Handling time",
            value=handling(total.handler_us)[0],
            unit=handling(total.handler_us)[1],
            tone="muted",
            history=series.handler_ms[:whole],
            note=_slowest(series),
        ),
    ]


def parts(lag: Lag | flow.LagNow) -> str:
    """What the unsettled messages of a subscription do: "2 waiting, 1 parked". Always whole, so kept short."""
    known = {"waiting": lag.waiting, "in flight": lag.in_flight, "retrying": lag.retrying, "parked": lag.parked}
    said = [f"{formats.num(number)} {word}" for word, number in known.items() if number or number is None]
    return ", ".join(said) or "nothing waits"


def oldest(oldest_ms: int | None, now_ms: int) -> str:
    """``oldest 1.4 s``."""
    return "nothing waits" if oldest_ms is None else f"oldest {formats.duration(max(0, now_ms - oldest_ms) * 1000)}"


def share(part: float) -> str:
    """A share from 0 to 1 in percent, never rounded up to a perfect one: 0.99997 is 99.99 %, not 100 %."""
    percent = int(part * 10_000) / 100
    return f"{percent:.2f}".rstrip("0").rstrip(".") + " %"


def handling(handler_us: int | None) -> tuple[str, str]:
    """Mean handler time as value and unit."""
    value, _, unit = formats.duration(handler_us).partition(" ")
    return value, unit


def _peak(series: flow.Series) -> str:
    best, at_ms = series.peak("published")
    return f"peak {formats.rate(best)} at {formats.clock(at_ms)[:5]}" if at_ms else "nothing in this time"


def _slowest(series: flow.Series) -> str:
    known = [(value, second) for value, second in zip(series.handler_ms, series.t, strict=True) if value is not None]
    if not known:
        return "no attempt in this time"
    worst, second = max(known)
    return f"slowest {formats.duration(worst * 1000)} at {formats.clock(second * 1000)[:5]}"


def dead_note(dead: dict[str, int]) -> str:
    """Where the dead letters are."""
    if not dead:
        return "none waits for a decision"
    topic, count = max(dead.items(), key=lambda item: item[1])
    return f"all on {topic}" if len(dead) == 1 else f"{formats.num(count)} on {topic}"


def _note(topic: Topic) -> str:
    if topic.team_id is None:
        return "publishes are refused"
    if topic.paused:
        return "paused"
    if not getattr(topic, "readers", 1):
        return "nobody subscribes"
    return "ordered by key" if topic.ordering == Topic.Ordering.KEY else ""
