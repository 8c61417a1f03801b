"""Runs as pictures, drawn on the server: the last ones of a job as a strip, and a day of several jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from engine.cron.slots.steps import RunState
from hbus_console.jobs.feature import FEATURE
from hbus_console.jobs.models import JobRun
from hbus_console.registry.pages import page
from hbus_console.ui import formats

#: Of a run that is said to run: its worker is dead or cut off, and nobody has found it lost yet.
OVER, OVER_TONE = "lease over", "bad"
#: Of a run that is decided or asked for, and that nobody has begun: rows and the API call it claimed.
WAITS = "waits"
#: Bars of a strip.
STRIP = 28
_BAR, _GAP, _HEIGHT, _LEAST = 4, 1, 18, 3
#: The width of a day in the units of its picture, and the least width of a run.
_DAY, _THIN = 1_440, 3
DAY_S = 86_400
#: Slots that are nearer to each other than this share of the picture's span leave no gap between them.
TOUCHING = 2 * _THIN / _DAY


def tone_of_run(state: str) -> str:
    """The colour of a run's state."""
    return FEATURE.tones.get(state, "neutral")


def strip(runs: Sequence[JobRun], now_us: int, over: Collection[int] = ()) -> SafeString:
    """The last runs, the oldest on the left; as high as they were long. ``over``: those whose leases are."""
    shown = list(reversed(runs[:STRIP]))
    longest = max((run.took_us(now_us) or 0 for run in shown), default=0) or 1
    said = formats.counted(len(shown), "run") if shown else "no run yet"
    # Links for who points; who uses keys finds the same runs on the job's page, and need not pass hundreds of bars.
    bars = format_html_join(
        "",
        '<a href="{}" tabindex="-1"><title>{}</title><rect class="{}" x="{}" y="{}" width="{}" height="{}"/></a>',
        (_bar(run, place, longest, now_us, run.pk in over) for place, run in enumerate(shown, STRIP - len(shown))),
    )
    width = STRIP * (_BAR + _GAP)
    return format_html(
        '<svg class="run-strip" width="{}" height="{}" role="group" aria-label="the last {}">{}</svg>',
        width,
        _HEIGHT,
        said,
        bars,
    )


def _bar(run: JobRun, place: int, longest: int, now_us: int, over: bool) -> tuple[object, ...]:
    took = run.took_us(now_us)
    height = _LEAST + round((_HEIGHT - _LEAST) * (took or 0) / longest)
    state = WAITS if run.state == RunState.CLAIMED else run.state
    said = f"{formats.clock(run.slot * 1000)} {state}{f', {OVER}' if over else ''}"
    if took is not None:
        said += f", {formats.duration(took)}"
    link = page("jobs:run", run.job, str(run.pk))
    return (
        link,
        said,
        OVER_TONE if over else tone_of_run(run.state),
        place * (_BAR + _GAP),
        _HEIGHT - height,
        _BAR,
        height,
    )


@dataclass(frozen=True)
class DayLine:
    """One job's day."""

    job: str
    runs: Sequence[JobRun]
    #: Slots to come, in seconds.
    coming: Sequence[int]
    #: How much time the line shows, in seconds.
    span_s: int = DAY_S
    #: Before this instant there were more runs than are drawn; 0: there were not.
    cut_s: int = 0
    #: Runs whose leases are over.
    over: Collection[int] = ()
    #: What the picture says to who does not see it; empty: how many runs and slots are drawn.
    said: str = ""
    #: Of the slots to come those after which others come that are not named, so often that they touch, up to the next.
    often: Collection[int] = frozenset()


class _Scale(NamedTuple):
    """Where an instant stands in the picture."""

    begin_s: int
    span_s: int

    def x(self, at_s: int) -> int:
        return min(_DAY, max(0, round((at_s - self.begin_s) * _DAY / self.span_s)))


def day(line: DayLine, begin_s: int, now_us: int, marks: Iterable[float] = ()) -> SafeString:
    """The line of a job: what ran, what was skipped, what comes, and where now is, if it is in it.

    ``marks`` are times that an axis names, as parts of the span.
    """
    scale = _Scale(begin_s, line.span_s)
    drawn = [*_merged(line, scale, now_us), *_apart(line, scale)]
    now_s = now_us // 1_000_000
    now = scale.x(now_s)
    bars = format_html_join(
        "", '<rect class="{}" x="{}" y="3" width="{}" height="12" rx="1.5"/>', ((t, x, w) for t, x, w in drawn)
    )
    across = ((round(share * _DAY),) * 2 for share in marks)
    times = format_html_join("", '<line class="tick" x1="{}" x2="{}" y1="0" y2="18"/>', across)
    if line.cut_s:
        drawn.insert(0, ("more", 0, scale.x(line.cut_s)))
    said = line.said or f"{formats.counted(len(line.runs), 'run')}, {formats.num(len(line.coming))} to come"
    return format_html(
        '<svg class="run-day" viewBox="0 0 {} 18" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<line class="base" x1="0" x2="{}" y1="9" y2="9"/>{}{}{}</svg>',
        _DAY,
        said,
        _DAY,
        times,
        bars,
        format_html('<line class="now" x1="{}" x2="{}" y1="0" y2="18"/>', now, now)
        if begin_s <= now_s <= begin_s + line.span_s
        else "",
    )


def _merged(line: DayLine, scale: _Scale, now_us: int) -> list[tuple[str, int, int]]:
    """Bars from left to right; those of one colour that touch are one, so that a run a second is no thousand shapes."""
    bars: list[tuple[str, int, int]] = []
    for run in sorted(line.runs, key=lambda each: (each.slot, each.pk)):
        start_us = run.begun_us or run.slot * 1_000_000
        x = scale.x(start_us // 1_000_000)
        width = max(_THIN, round((run.took_us(now_us) or 0) / 1_000_000 * _DAY / scale.span_s))
        width, tone = min(width, _DAY - x), OVER_TONE if run.pk in line.over else tone_of_run(run.state)
        if bars and bars[-1][0] == tone and x <= bars[-1][1] + bars[-1][2]:
            before = bars.pop()
            width = max(before[2], x + width - before[1])
            x = before[1]
        if width > 0:
            bars.append((tone, x, width))
    return bars


def _apart(line: DayLine, scale: _Scale) -> list[tuple[str, int, int]]:
    """Slots to come. Those that would touch are one band: ticks with a gap between them would be said to be all."""
    drawn: list[tuple[str, int, int]] = []
    for slot, following in zip_longest(line.coming, line.coming[1:]):
        x = scale.x(slot)
        if x > _DAY - _THIN:
            continue
        _, at, width = drawn[-1] if drawn else ("", -_DAY, 0)
        if x < at + width + _THIN:
            drawn[-1] = ("next often", at, x + _THIN - at)
        else:
            drawn.append(("next", x, _THIN))
        if slot in line.often:
            at = drawn[-1][1]
            drawn[-1] = ("next often", at, max(scale.x(following or slot), x + _THIN) - at)
    return drawn
