"""From a subscription's row to what the engine needs: its policy and its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.bus.handlers import registrations
from engine.bus.policy import DEFAULT_BACKOFF_S, RetryPolicy, SubscriptionPolicy
from engine.bus.webhook import WebhookHandler
from engine.core.errors import ConfigurationError
from hbus_console.topics.models import Subscription


def policy_of(row: Subscription) -> SubscriptionPolicy:
    """The row's policies; raises ``BadInput`` when they are out of bounds."""
    return SubscriptionPolicy(
        topic=row.topic.name,
        group=row.group,
        retry=RetryPolicy(row.max_attempts, tuple(row.backoff_s) or DEFAULT_BACKOFF_S),
        concurrency=row.concurrency,
        lease_s=row.lease_s,
        transactional=row.transactional,
        ordering=row.topic.ordering,
    )
