"""Subscriptions, as alert rules watch them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.bus.subjects import subscription_subject
from hbus_console.alerts.targets import Target, TargetKind
from hbus_console.subscriptions.models import Subscription


def _subscriptions() -> Iterable[Target]:
    rows = Subscription.objects.order_by().values_list(
        "topic__name", "group", "team_id", "paused", "topic__paused", "created_at"
    )
    for topic, group, team, paused, held, at in rows:
        yield Target(subscription_subject(topic, group), team, paused or held, round(at.timestamp() * 1000))


SUBSCRIPTIONS = TargetKind(
    "subscription",
    _subscriptions,
    within="topic",
    example="partner-sync",
    example_pattern="partner-*",
    names=r"[a-z0-9*]+(?:[._*-][a-z0-9*]+)*\*?",
)
