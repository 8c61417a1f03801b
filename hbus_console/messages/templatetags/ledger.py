"""Pictures of evidence, drawn on the server: ``{% load ledger %}``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from hbus_console.topics.payloads import Payload
from hbus_console.ui import formats

register = template.Library()

#: Characters of a payload in a table row.
_LINE = 160
_BAR, _GAP, _HEIGHT = 2, 0.5, 20


@register.simple_tag
def strip(counts: Sequence[int], label: str = "") -> SafeString:
    """``{% strip group.arrivals "when they died" %}``: small bars over time; an empty slot stays on the ground line."""
    top = max(counts, default=0)
    width = round(len(counts) * (_BAR + _GAP), 1)
    bars = []
    for slot, count in enumerate(counts):
        if count:
            height = max(2.0, round(count / top * (_HEIGHT - 3), 1))
            x, y = round(slot * (_BAR + _GAP), 1), round(_HEIGHT - 1 - height, 1)
            bars.append(f'<rect x="{x}" width="{_BAR}" height="{height}" y="{y}" rx="0.5"/>')
    return format_html(
        '<svg class="strip-of-time" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">'
        '<path class="ground" d="M0 {ground}H{w}"/>{bars}</svg>',
        w=width,
        h=_HEIGHT,
        ground=_HEIGHT - 0.5,
        label=label or f"{sum(counts)} in the time range",
        bars=mark_safe("".join(bars)),  # noqa: S308 - numbers only
    )


@register.simple_tag
def payload_line(payload: Payload) -> str:
    """The payload on one line, for a table."""
    if payload.form == "none":
        return ""
    text = json.dumps(payload.value, ensure_ascii=False) if payload.form == "json" else str(payload.value)
    return text if len(text) <= _LINE else f"{text[:_LINE]}…"


@register.filter
def schema_name(uri: str) -> str:
    """``schema v7`` for one of our own schemas, else the address."""
    version = re.split(r"[:/]", uri)[-1]
    return f"schema v{version}" if version.isdigit() else uri


@register.filter
def short_trace(trace_id: str) -> str:
    """``4bf92f35…0e0e4736``."""
    return trace_id if len(trace_id) <= 20 else f"{trace_id[:8]}…{trace_id[-8:]}"


@register.filter
def moment_of(value: Any) -> SafeString | str:
    """``14:02:11.204`` for today, else the date as well: rows of a log differ by less than relative words tell."""
    return _when(value, formats.clock, "%d %b %H:%M:%S")


@register.filter
def minute_of(value: Any) -> SafeString | str:
    """``14:02`` for today, else the date: for a narrow column."""
    return _when(value, lambda moment: f"{moment:%H:%M}", "%d %b")


def _when(value: Any, today: Callable[[datetime], str], else_form: str) -> SafeString | str:
    moment = formats.instant(value)
    if moment is None:
        return formats.NOTHING
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="milliseconds"),
        moment.strftime("%Y-%m-%d %H:%M:%S %Z"),
        today(moment) if moment.date() == timezone.localdate() else moment.strftime(else_form),
    )
