"""Subscriptions, as alert rules watch them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from engine.bus.subjects import subscription_subject
from engine.core.subject import Subject
from hbus_console.alerts.targets import Target, TargetKind, Way
from hbus_console.registry.pages import page
from hbus_console.subscriptions.models import Subscription


def _subscriptions() -> Iterable[Target]:
    rows = Subscription.objects.order_by().values_list(
        "topic__name", "group", "team_id", "paused", "topic__paused", "created_at"
    )
    for topic, group, team, paused, held, at in rows:
        yield Target(subscription_subject(topic, group), team, paused or held, round(at.timestamp() * 1000))


def _on(view: str) -> Callable[[Subject], str]:
    return lambda subject: page(view, subject.namespace, subject.name)


def _letters(subject: Subject) -> str:
    return f"{page('deadletters:list')}?{urlencode({'topic': subject.namespace, 'subscription': subject.name})}"


SUBSCRIPTIONS = TargetKind(
    "subscription",
    _subscriptions,
    within="topic",
    example="partner-sync",
    example_pattern="partner-*",
    names=r"[a-z0-9*]+(?:[._*-][a-z0-9*]+)*\*?",
    ways=(
        Way(("dead letters", "redrive", "discard"), "Open its dead letters", _letters),
        Way(("parked", "unpark", "order"), "Open its order and parked keys", _on("subscriptions:order")),
        Way(("concurrency",), "Open its settings", _on("subscriptions:settings")),
        Way(("cluster",), "Open the cluster", lambda _: page("cluster:overview")),
    ),
)
