"""Topics by a part of their name."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.topics.models import Topic
from hbus_console.ui.finding import MOST, Hit, HitGroup, group


def find(who: Actor, text: str) -> list[HitGroup]:
    """What ``who`` may see: one query."""
    rows = Topic.objects.filter(namespace_q(who, "name"), name__icontains=text).select_related("team")[: MOST + 1]
    hits = (
        Hit(row.name, row.team.name if row.team else "no owner", reverse("topics:detail", args=[row.name]))
        for row in rows
    )
    return [group("Topics", hits)]
