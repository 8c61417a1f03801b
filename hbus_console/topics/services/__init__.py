"""The one way to change teams, topics, schemas and subscriptions: page, API, command and example all call these.

Every function asks :func:`~hbus_console.accounts.permissions.require`, writes its rows and their audit entry in one
transaction, and brings the store in line after the commit (the keeper does it again should that fail).
"""

from hbus_console.topics.services.breaker import breaker, open_breakers, set_breaker
from hbus_console.topics.services.declarations import SyncReport, sync_registrations
from hbus_console.topics.services.draining import DrainStatus, drain, drain_status, drain_status_if_known
from hbus_console.topics.services.lookup import schema, subscription, team, topic
from hbus_console.topics.services.order import unpark
from hbus_console.topics.services.schemas import SchemaVerdict, add_schema, would_accept
from hbus_console.topics.services.subscriptions import (
    SubscriptionDraft,
    change_subscription,
    create_subscription,
    delete_subscription,
    follow_code,
    pause_subscription,
    resume_subscription,
    rotate_secret,
)
from hbus_console.topics.services.teams import TeamDraft, change_team, create_team, delete_team
from hbus_console.topics.services.topic_rules import TopicDraft
from hbus_console.topics.services.topics import change_topic, create_topic, delete_topic, pause_topic, resume_topic

__all__ = [
    "DrainStatus",
    "SchemaVerdict",
    "SubscriptionDraft",
    "SyncReport",
    "TeamDraft",
    "TopicDraft",
    "add_schema",
    "breaker",
    "change_subscription",
    "change_team",
    "change_topic",
    "create_subscription",
    "create_team",
    "create_topic",
    "delete_subscription",
    "delete_team",
    "delete_topic",
    "drain",
    "drain_status",
    "drain_status_if_known",
    "follow_code",
    "open_breakers",
    "pause_subscription",
    "pause_topic",
    "resume_subscription",
    "resume_topic",
    "rotate_secret",
    "schema",
    "set_breaker",
    "subscription",
    "sync_registrations",
    "team",
    "topic",
    "unpark",
    "would_accept",
]
