"""Topics, as the teams that answer for them see them."""

from __future__ import annotations

from django.db.models import F, QuerySet
from django.urls import reverse

from hbus_console.topics import catalog
from hbus_console.topics.models import Topic


def text(row: Topic) -> str:
    """What a list of them calls one."""
    return row.name


def address(row: Topic) -> str:
    """Its page."""
    return reverse("topics:detail", args=[row.name])


def changed(rows: QuerySet[Topic]) -> None:
    """Who is asked about them has changed: everybody who keeps them in memory reads them anew."""
    rows.update(revision=F("revision") + 1)
    catalog.changed()
