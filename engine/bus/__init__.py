"""A governed event bus: publish with :class:`Producer`, handle with :func:`subscription` and :class:`Consumer`.

What is named here is the public face; everything else may change.
"""

from engine.bus.catalog import StaticCatalog, TopicCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer, ConsumerStatus, Left
from engine.bus.context import Context, current
from engine.bus.errors import (
    GroupLost,
    IdempotencyConflict,
    MalformedEnvelope,
    OwnerlessTopic,
    PublishFailed,
    PublishRefused,
    PublishUnknown,
    RetryLater,
    UnknownTopic,
    Unrecoverable,
)
from engine.bus.handlers import registrations, subscription
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.bus.registry import open_transport
from engine.bus.transport import Priority

__all__ = [
    "BatchItem",
    "BusConfig",
    "Consumer",
    "ConsumerStatus",
    "Context",
    "GroupLost",
    "IdempotencyConflict",
    "Left",
    "MalformedEnvelope",
    "Message",
    "OwnerlessTopic",
    "Priority",
    "Producer",
    "PublishFailed",
    "PublishOptions",
    "PublishRefused",
    "PublishUnknown",
    "Receipt",
    "RetryLater",
    "RetryPolicy",
    "StaticCatalog",
    "SubscriptionPolicy",
    "TopicCatalog",
    "TopicPolicy",
    "UnknownTopic",
    "Unrecoverable",
    "current",
    "open_transport",
    "registrations",
    "subscription",
]
