"""Sparklines: a small series as inline SVG, drawn on the server."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.html import format_html
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 80, 20
#: More points than this cannot be told apart at the width of a sparkline.
MOST_POINTS = 60


def spark(
    values: Iterable[float | int | None], tone: str = "accent", width: int = WIDTH, height: int = HEIGHT
) -> SafeString:
    """Draw ``values`` from 0 to their maximum; ``None`` counts as 0. Nothing to draw: a flat line."""
    points = _fold([float(value or 0) for value in values] or [0.0])
    if len(points) == 1:
        points *= 2
    top = max(points) or 1.0
    usable = height - 3
    step = width / (len(points) - 1)
    places = " ".join(
        f"{round(index * step, 1):g},{round(height - 1 - value / top * usable, 1):g}"
        for index, value in enumerate(points)
    )
    # One shape for line and area: its sides and bottom lie outside the picture, where their stroke is cut off.
    first, last = places.split(" ", 1)[0].partition(",")[2], places.rpartition(",")[2]
    below, right = height + 4, width + 4
    return format_html(
        '<svg class="spark tone-{}" width="{}" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" '
        'aria-hidden="true"><polygon points="{}" vector-effect="non-scaling-stroke"/></svg>',
        tone,
        width,
        height,
        width,
        height,
        f"-4,{below} -4,{first} {places} {right},{last} {right},{below}",
    )


def _fold(values: list[float]) -> list[float]:
    """At most :data:`MOST_POINTS` values, each the mean of its share, so that a long range keeps its shape."""
    if len(values) <= MOST_POINTS:
        return values
    share = len(values) / MOST_POINTS
    folded = []
    for index in range(MOST_POINTS):
        part = values[int(index * share) : max(int((index + 1) * share), int(index * share) + 1)]
        folded.append(sum(part) / len(part))
    return folded
