"""What is said in place of a chart of a topic's history that has nothing to draw, and beside one that has not all."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Sum

from hbus_console.pipelines.series import points
from hbus_console.pipelines.series_chart import resolution_of
from hbus_console.ui.formats import num
from hbus_console.ui.timerange import TimeRange


@dataclass(frozen=True, slots=True)
class HistoryTold:
    """What happened in the time of a page, as far as its charts cannot tell."""

    stored: int
    #: Stored so long before or after it happened that a clock must be wrong.
    skewed: int
    #: Spans in which anything was measured that may have been late.
    late_spans: int
    settled: int
    #: Of those, what is known to have been published.
    timed: int
    retried: int
    dead: int

    @property
    def not_measured(self) -> str:
        """Beside what was late; empty: all was measured."""
        if not self.skewed:
            return ""
        return f"{num(self.skewed)} {'is' if self.skewed == 1 else 'are'} too far off to be measured"

    @property
    def nothing_late(self) -> str:
        """Where no lateness is drawn: there was none, or none could be measured."""
        if self.late_spans:
            return (
                "Nothing that was measured was late in this time." if self.skewed else "Nothing was late in this time."
            )
        if self.skewed:
            return "How late it was could be measured of nothing in this time: its clocks are too far off."
        if self.stored:
            return "Nothing in this time can be late: it was stored when it was due, or is a copy."
        return "Nothing was stored in this time."

    @property
    def nothing_took(self) -> str:
        """Where no time to settle is drawn."""
        if self.timed:
            return "All was settled within a millisecond."
        if self.settled:
            return "Of nothing that was settled in this time it is known when it was published."
        return "Nothing was settled in this time."

    @property
    def nothing_failed(self) -> str:
        """Where no share of failures is drawn."""
        tried = self.settled + self.retried + self.dead
        return "No attempt failed in this time." if tried else "No attempt was made in this time."


def told_beside(topic: str, subscription: str, chosen: TimeRange, now_ms: int) -> HistoryTold:
    """Of the spans that the charts show. The caller has checked that whoever asks may see the topic."""
    resolution = resolution_of(chosen, now_ms)
    shown = points(topic, subscription, resolution, chosen.start_ms // 1000, chosen.end_ms // 1000)
    names = ("stored", "skewed", "settled", "timed", "retried", "dead")
    sums = shown.order_by().aggregate(late_spans=Count("late_p50_ms"), **{f"of_{name}": Sum(name) for name in names})
    return HistoryTold(late_spans=sums["late_spans"], **{name: int(sums[f"of_{name}"] or 0) for name in names})
