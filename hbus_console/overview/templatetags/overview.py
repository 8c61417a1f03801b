"""What only the first page draws."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from django import template
from django.template.context import Context
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from hbus_console.topics.standing import TopicRow
from hbus_console.ui import sparks
from hbus_console.ui.templatetags import hbus

register = template.Library()


class _Line(NamedTuple):
    """What a row of the overview shows."""

    name: str
    owner: SafeString
    carrier: str
    spark: SafeString
    per_second: float | None
    unsettled: str
    dead: str
    blocked: bool
    note: str


@register.simple_tag(takes_context=True)
def topic_row(context: Context, row: TopicRow) -> SafeString:
    """``{% topic_row row %}``: a row of the overview. Most are the same from one look to the next: drawn once."""
    line = _Line(
        row.topic.name,
        hbus.owner(row.topic.team),
        row.carrier,
        sparks.spark(row.history, "accent", 110, 18),
        row.per_second,
        row.backlog.told,
        row.dead_told,
        row.blocked,
        row.note,
    )
    return _topic_row(line, hbus.href(context, "topics:detail", row.topic.name))


@lru_cache(maxsize=1024)
def _topic_row(line: _Line, address: str) -> SafeString:
    return render_to_string("overview/topic_row.html", {"row": line, "href": address})
