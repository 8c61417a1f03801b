"""Where in time a span is complete: a row for each topic, a cell for each stretch, darker where more happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.report import TopicAudit
from hbus_console.ui.formats import instant, num

#: Cells of a row, and steps of how busy one is.
MOST_CELLS, SHADES = 96, 5
_DAY_MS = 86_400_000
#: Topics that are drawn; the others are told by their number.
MOST_ROWS = 24


@dataclass(frozen=True, slots=True)
class Cell:
    #: ``h1`` to ``h5`` by how much happened, ``found`` where messages are missing or without outcome, ``open`` where it
    #: cannot be judged yet, empty for nothing at all.
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    topic: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Heat:
    rows: Sequence[HeatRow]
    #: Where each cell begins, and how long it is, milliseconds.
    from_ms: int
    step_ms: int
    cells: int

    @property
    def ticks(self) -> list[str]:
        """Up to five moments under the cells, from the first to the last."""
        marks = dict.fromkeys(round(self.cells * part / 4) for part in range(5))
        named = [_named(self.from_ms + mark * self.step_ms, self.cells * self.step_ms) for mark in marks]
        return list(dict.fromkeys(named))

    @property
    def has_unjudged(self) -> bool:
        """Whether any of it is not judged yet."""
        return any(cell.tone == "open" for row in self.rows for cell in row.cells)


def heat_of(topics: Sequence[TopicAudit], until_ms: int | None = None) -> Heat | None:
    """Of these, in their order, up to what was asked for, if anything was; ``None`` where no window has a message, and
    the archive none that is not judged yet."""
    windows = [(topic, topic.windows) for topic in topics]
    starts = [window.from_ms for _, of_it in windows for window in of_it]
    ends = [window.from_ms + topic.window_ms for topic, of_it in windows for window in of_it]
    waiting = {topic.topic: span for topic in topics if (span := _unjudged(topic, until_ms)) is not None}
    starts += [span[0] for span in waiting.values()]
    ends += [span[1] for span in waiting.values()]
    if not starts:
        return None
    longest = max(topic.window_ms for topic in topics)
    first = min(starts) // longest * longest
    step = longest * max(1, -(-(max(ends) - first) // (longest * MOST_CELLS)))
    count = max(1, -(-(max(ends) - first) // step))
    rows = [HeatRow(topic.topic, _cells(topic, waiting.get(topic.topic), first, step, count)) for topic in topics]
    return Heat(rows, first, step, count)


def _unjudged(topic: TopicAudit, until_ms: int | None) -> tuple[int, int] | None:
    """From when to before when the archive has messages that the audit could not judge yet."""
    if topic.verdict is not AuditVerdict.OPEN:
        return None
    first = max(topic.from_ms, topic.held_from_ms) if not topic.is_judged else topic.to_ms
    last = topic.held_until_ms + 1 if until_ms is None else min(topic.held_until_ms + 1, until_ms)
    return (first, last) if first < last else None


def _named(at_ms: int, span_ms: int) -> str:
    """As exactly as the span asks for."""
    at = instant(at_ms)
    assert at is not None
    if span_ms <= _DAY_MS:
        return f"{at:%H:%M}"
    return f"{at.day} {at:%b %H:%M}" if span_ms <= 3 * _DAY_MS else f"{at.day} {at:%b}"


@dataclass(slots=True)
class _HeatStretch:
    messages: int = 0
    wanting: int = 0
    unjudged: bool = False


def _cells(topic: TopicAudit, waiting: tuple[int, int] | None, first: int, step: int, count: int) -> list[Cell]:
    found = [_HeatStretch() for _ in range(count)]
    if waiting is not None:
        for stretch in found[(waiting[0] - first) // step : (waiting[1] - 1 - first) // step + 1]:
            stretch.unjudged = True
    for window in topic.windows:
        stretch = found[(window.from_ms - first) // step]
        published = window.published.messages if window.published else window.archived.messages
        stretch.messages += max(published, window.archived.messages)
        missing = round((1 - window.complete) * published) if window.complete is not None else 0
        stretch.wanting += missing + sum(each.open for each in window.subscriptions.values())
        stretch.unjudged |= not window.closed
    busiest = max((each.messages for each in found), default=0) or 1
    return [_cell(each, first + place * step, busiest) for place, each in enumerate(found)]


def _cell(stretch: _HeatStretch, from_ms: int, busiest: int) -> Cell:
    when = f"from {_named(from_ms, 2 * _DAY_MS)}: {num(stretch.messages)} message{'s' if stretch.messages != 1 else ''}"
    if stretch.wanting:
        return Cell("found", f"{when}, {num(stretch.wanting)} missing or without an outcome")
    if stretch.unjudged and stretch.messages:
        return Cell("open", f"{when}, not judged yet")
    if stretch.unjudged:
        return Cell("open", f"from {_named(from_ms, 2 * _DAY_MS)}: not judged yet")
    if not stretch.messages:
        return Cell("", f"from {_named(from_ms, 2 * _DAY_MS)}: nothing")
    return Cell(f"h{max(1, -(-SHADES * stretch.messages // busiest))}", f"{when}, complete")
