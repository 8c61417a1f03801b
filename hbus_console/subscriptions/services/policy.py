"""Between a subscription's settings and the engine's policy, as the settings' marks say."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from engine.bus.policy import BreakerPolicy, RetryPolicy, SubscriptionPolicy
from hbus_console.drafts.setting import Setting, Whole
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.draft import POLICY, SETTINGS, InPolicy


def policy_of(row: Subscription) -> SubscriptionPolicy:
    """The row's policies as the engine takes them; raises ``BadInput`` when they are out of bounds."""
    parts: dict[str, dict[str, Any]] = {"": {}, "retry": {}, "breaker": {}}
    for name in POLICY:
        setting, there = SETTINGS[name], _place(SETTINGS[name])
        part, _, field = there.path.rpartition(".")
        value = getattr(row, name)
        if isinstance(value, list):
            value = tuple(value) or setting.default
        parts[part][field] = value if there.per == 1 else value / there.per
    return SubscriptionPolicy(
        topic=row.topic.name,
        group=row.group,
        ordering=row.topic.ordering,
        partitions=row.topic.partitions,
        retry=RetryPolicy(**parts["retry"]),
        breaker=BreakerPolicy(**parts["breaker"]),
        **parts[""],
    )


def declared_values(policy: SubscriptionPolicy) -> dict[str, Any]:
    """A policy declared in code as the row takes it: whole seconds and percents, and none below its least."""
    return {name: _declared(SETTINGS[name], policy) for name in POLICY}


def _declared(setting: Setting, policy: SubscriptionPolicy) -> Any:
    there = _place(setting)
    value = attrgetter(there.path)(policy)
    if isinstance(setting, Whole):
        return max(setting.least, round(value * there.per))
    return list(value) if isinstance(value, tuple) else value


def _place(setting: Setting) -> InPolicy:
    return next(mark for mark in setting.marks if isinstance(mark, InPolicy))
