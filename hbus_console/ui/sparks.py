"""Sparklines: a small series as inline SVG, drawn on the server."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from django.utils.html import format_html
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 80, 20
#: The drawing's own height is 100; x counts the points. The browser stretches it to the size asked for.
_BASE, _TOP = 95, 10
#: More points than this cannot be told apart at the width of a sparkline.
MOST_POINTS = 60


def spark(
    values: Iterable[float | int | None], tone: str = "accent", width: int = WIDTH, height: int = HEIGHT
) -> SafeString:
    """Draw ``values`` from 0 to their maximum; ``None`` counts as 0. Nothing to draw: a flat line."""
    return _draw(tuple(value or 0 for value in values) or (0,), tone, width, height)


@lru_cache(maxsize=512)
def _draw(values: tuple[float | int, ...], tone: str, width: int, height: int) -> SafeString:
    points = _fold([float(value) for value in values])
    if len(points) == 1:
        points *= 2
    top = max(points) or 1.0
    heights = [round(_BASE - value / top * (_BASE - _TOP)) for value in points]
    steps = " ".join(f"1 {after - before}" for before, after in pairwise(heights))
    last = len(heights) - 1
    # One shape for line and area: its sides and bottom lie outside the picture, where their stroke is cut off.
    return format_html(
        '<svg class="spark tone-{}" width="{}" height="{}" viewBox="0 0 {} 100" preserveAspectRatio="none" '
        'aria-hidden="true"><path d="{}" vector-effect="non-scaling-stroke"/></svg>',
        tone,
        width,
        height,
        last,
        f"M-2 130V{heights[0]}H0l{steps}H{last + 2}V130",
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
