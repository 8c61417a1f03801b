"""The one way to change subscriptions: page, API, command and example all call these.

Every function asks :func:`~hbus_console.access.permissions.require`, writes its rows and their audit entry in one
transaction, and brings the store in line after the commit (the keeper does it again should that fail).
"""

from hbus_console.subscriptions.services.breaker import breaker, open_breakers, set_breaker
from hbus_console.subscriptions.services.declarations import SyncReport, sync_registrations
from hbus_console.subscriptions.services.draft import SubscriptionDraft
from hbus_console.subscriptions.services.draining import DrainStatus, drain, drain_status, drain_status_if_known, lag_of
from hbus_console.subscriptions.services.lookup import address, subscription
from hbus_console.subscriptions.services.order import unpark
from hbus_console.subscriptions.services.policy import policy_of
from hbus_console.subscriptions.services.subscriptions import (
    change_subscription,
    create_subscription,
    delete_subscription,
    follow_code,
    pause_subscription,
    resume_subscription,
    rotate_secret,
)

__all__ = [
    "DrainStatus",
    "SubscriptionDraft",
    "SyncReport",
    "address",
    "breaker",
    "change_subscription",
    "create_subscription",
    "delete_subscription",
    "drain",
    "drain_status",
    "drain_status_if_known",
    "follow_code",
    "lag_of",
    "open_breakers",
    "pause_subscription",
    "policy_of",
    "resume_subscription",
    "rotate_secret",
    "set_breaker",
    "subscription",
    "sync_registrations",
    "unpark",
]
