"""The attempts of one message to scale: a lane for each subscription, a bar for each attempt."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from engine.bus.fact_kinds import BUS_KINDS
from hbus_console.messages.message_trace import Life
from hbus_console.messages.models import LedgerEvent
from hbus_console.ui.formats import duration
from hbus_console.ui.text_width import fitted, width_of

WIDTH = 720
_LEFT, _RIGHT = 112, 14
_LANE, _TOP, _AXIS = 25, 8, 26
_LEAST_BAR = 7.0
#: The type's size, as the style sheet has it.
_SIZE = 11
_STEPS_MS = [step * unit for unit in (1, 10, 100, 1_000, 10_000) for step in (1, 2, 5)] + [
    60_000 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1_440, 2_880, 7_200, 14_400)
]
#: The kinds of events that have a bar.
_BARS = {name: kind.bar for name, kind in BUS_KINDS.items() if kind.bar is not None}


@dataclass(frozen=True)
class Bar:
    """One attempt in milliseconds after the beginning; ``says`` stands right of it."""

    start_ms: float
    end_ms: float
    tone: str
    says: str
    title: str


@dataclass(frozen=True)
class Lane:
    """One subscription; ``waits``: it has not begun."""

    name: str
    bars: list[Bar]
    waits: bool = False


def lanes_of(life: Life) -> list[Lane]:
    """A lane for each subscription that has, or will have, a part in this life."""
    begin = life.published_ms
    by_name: dict[str, list[LedgerEvent]] = {}
    for event in life.events:
        if event.subscription and event.kind in _BARS:
            by_name.setdefault(event.subscription, []).append(event)
    names = sorted({*by_name, *life.wanted})
    return [
        Lane(name, [_bar(event, begin) for event in by_name.get(name, [])], waits=name not in by_name) for name in names
    ]


def draw(life: Life) -> SafeString:
    """The picture; empty when there is nothing to draw."""
    lanes = lanes_of(life)
    if not lanes:
        return SafeString("")
    end_ms = max([bar.end_ms for lane in lanes for bar in lane.bars] or [1_000.0])
    scale = (WIDTH - _LEFT - _RIGHT - 46) / max(end_ms, 1.0)
    bottom = _TOP + _LANE * len(lanes)
    rows = format_html_join("", "{}", ((_lane(lane, index, scale),) for index, lane in enumerate(lanes)))
    ticks = format_html_join(
        "",
        '<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>',
        (
            (
                round(_LEFT + at * scale, 1),
                bottom + 17,
                "middle" if at else "start",
                "0 s" if not at else duration(at * 1000),
            )
            for at in _ticks(end_ms)
        ),
    )
    return format_html(
        '<svg class="lanes" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{rows}{ticks}</svg>',
        w=WIDTH,
        h=bottom + _AXIS,
        label=_spoken(lanes),
        rows=rows,
        ticks=ticks,
    )


def _bar(event: LedgerEvent, begin_ms: int) -> Bar:
    end = max(0, event.at_ms - begin_ms)
    start = max(0.0, end - event.duration_us / 1000)
    pause_ms = event.due_ms - event.at_ms
    says = BUS_KINDS[event.kind].bar_says
    if event.kind == "retried" and pause_ms > 0:
        says = f"waits {duration(pause_ms * 1000)}"
    attempt = f"attempt {event.attempt} " if event.attempt else ""
    return Bar(
        start,
        end,
        _BARS[event.kind],
        says,
        f"{event.subscription}: {attempt}{event.kind}, {duration(event.duration_us)}",
    )


def _lane(lane: Lane, index: int, scale: float) -> SafeString:
    middle = _TOP + _LANE * index + _LANE / 2
    parts = [
        format_html('<text class="name" x="0" y="{}">{}</text>', middle + 4, fitted(lane.name, _LEFT - 10, _SIZE)),
        format_html('<path class="rule" d="M{} {}H{}"/>', _LEFT, middle, WIDTH - _RIGHT),
    ]
    if lane.waits:
        parts.append(format_html('<text class="wait" x="{}" y="{}">not handled yet</text>', _LEFT + 4, middle + 4))
    drawn = [_placed(bar, scale) for bar in lane.bars]
    for number, (bar, (x, width)) in enumerate(zip(lane.bars, drawn, strict=True)):
        parts.append(
            format_html(
                '<rect class="{}" x="{}" y="{}" width="{}" height="13" rx="3"><title>{}</title></rect>',
                bar.tone,
                round(x, 1),
                middle - 6.5,
                round(width, 1),
                bar.title,
            )
        )
        room = (drawn[number + 1][0] if number + 1 < len(drawn) else WIDTH) - x - width - 10
        if bar.says and room >= width_of(bar.says, _SIZE):
            # The words stand on a patch of the panel, so that the rule does not run through them.
            at = x + width + 7
            parts.append(format_html('<text class="wait" x="{}" y="{}">{}</text>', round(at, 1), middle + 4, bar.says))
    return format_html_join("", "{}", ((part,) for part in parts))


def _placed(bar: Bar, scale: float) -> tuple[float, float]:
    return _LEFT + bar.start_ms * scale, max(_LEAST_BAR, (bar.end_ms - bar.start_ms) * scale)


def _ticks(end_ms: float) -> list[float]:
    """About five round values from 0."""
    longest = _STEPS_MS[-1]
    step = next((step for step in _STEPS_MS if end_ms / step <= 6), longest * ceil(end_ms / longest / 6))
    return [step * number for number in range(int(end_ms // step) + 1)]


def _spoken(lanes: list[Lane]) -> str:
    return "Attempts: " + "; ".join(
        f"{lane.name} {'not handled yet' if lane.waits else f'{len(lane.bars)} in all'}" for lane in lanes
    )
