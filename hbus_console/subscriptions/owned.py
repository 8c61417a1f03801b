"""Subscriptions, as the teams that answer for them see them."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.subscriptions.models import Subscription


def text(row: Subscription) -> str:
    """What a list of them calls one."""
    return row.group


def address(row: Subscription) -> str:
    """Its page."""
    return reverse("subscriptions:detail", args=[row.topic.name, row.group])
