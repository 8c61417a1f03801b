"""Subscriptions by a part of their name."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.subscriptions.models import Subscription
from hbus_console.ui.finding import MOST, Hit, HitGroup, group


def find(who: Actor, text: str) -> list[HitGroup]:
    """What ``who`` may see: one query."""
    rows = Subscription.objects.filter(namespace_q(who, "topic__name"), group__icontains=text).select_related("topic")
    hits = (
        Hit(row.group, f"on {row.topic.name}", reverse("subscriptions:detail", args=[row.topic.name, row.group]))
        for row in rows[: MOST + 1]
    )
    return [group("Subscriptions", hits)]
