"""Pictures of evidence, drawn on the server: ``{% load ledger %}``."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

_BAR, _GAP, _HEIGHT = 2, 0.5, 20


@register.simple_tag
def strip(counts: Sequence[int], label: str = "") -> SafeString:
    """``{% strip group.arrivals "when they died" %}``: small bars over time; an empty slot stays on the ground line."""
    top = max(counts, default=0)
    width = round(len(counts) * (_BAR + _GAP), 1)
    bars = (
        (
            round(slot * (_BAR + _GAP), 1),
            _BAR,
            height := max(2.0, round(count / top * (_HEIGHT - 3), 1)),
            round(_HEIGHT - 1 - height, 1),
        )
        for slot, count in enumerate(counts)
        if count
    )
    return format_html(
        '<svg class="strip-of-time" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">'
        '<path class="ground" d="M0 {ground}H{w}"/>{bars}</svg>',
        w=width,
        h=_HEIGHT,
        ground=_HEIGHT - 0.5,
        label=label or "Arrivals over time",
        bars=format_html_join("", '<rect x="{}" width="{}" height="{}" y="{}" rx="0.5"/>', bars),
    )
