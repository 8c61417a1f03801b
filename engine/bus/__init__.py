"""A governed event bus: publish with :class:`Producer`, handle with :func:`subscription` and :class:`Consumer`.

What is named here is the public face; everything else may change. A module is loaded when something of it is asked for,
so that who needs little of the bus does not load all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.bus.bulk import Appended, Lane, PublishesInBulk
    from engine.bus.catalog import StaticCatalog, TopicCatalog, TopicPolicy
    from engine.bus.config import BusConfig
    from engine.bus.consumer import Consumer, ConsumerStatus, Left
    from engine.bus.context import Context, current
    from engine.bus.errors import (
        GroupLost,
        IdempotencyConflict,
        KeyOfAnotherLane,
        MalformedEnvelope,
        OwnerlessTopic,
        PublishFailed,
        PublishRefused,
        PublishUnknown,
        RetryLater,
        UnknownTopic,
        Unrecoverable,
    )
    from engine.bus.fact_kinds import BUS_KINDS
    from engine.bus.handlers import registrations, subscription
    from engine.bus.message import Message, check, decode, encode
    from engine.bus.optional import TellsVanished
    from engine.bus.options import PublishOptions
    from engine.bus.partitions import Partitioned, partition_of
    from engine.bus.policy import RetryPolicy, SubscriptionPolicy
    from engine.bus.producer import BatchItem, Producer, Receipt
    from engine.bus.registry import open_transport
    from engine.bus.rereading import Extent, Rereads, Stretch, gone
    from engine.bus.transport import Outgoing, Priority, Receiver, Settlement, Transport, Verdict

__all__ = [
    "BUS_KINDS",
    "Appended",
    "BatchItem",
    "BusConfig",
    "Consumer",
    "ConsumerStatus",
    "Context",
    "Extent",
    "GroupLost",
    "IdempotencyConflict",
    "KeyOfAnotherLane",
    "Lane",
    "Left",
    "MalformedEnvelope",
    "Message",
    "Outgoing",
    "OwnerlessTopic",
    "Partitioned",
    "Priority",
    "Producer",
    "PublishFailed",
    "PublishOptions",
    "PublishRefused",
    "PublishUnknown",
    "PublishesInBulk",
    "Receipt",
    "Receiver",
    "Rereads",
    "RetryLater",
    "RetryPolicy",
    "Settlement",
    "StaticCatalog",
    "Stretch",
    "SubscriptionPolicy",
    "TellsVanished",
    "TopicCatalog",
    "TopicPolicy",
    "Transport",
    "UnknownTopic",
    "Unrecoverable",
    "Verdict",
    "check",
    "current",
    "decode",
    "encode",
    "gone",
    "open_transport",
    "partition_of",
    "registrations",
    "subscription",
]

#: Where each lies, as the imports above have it.
_HOMES = {
    "bulk": "Appended Lane PublishesInBulk",
    "catalog": "StaticCatalog TopicCatalog TopicPolicy",
    "config": "BusConfig",
    "consumer": "Consumer ConsumerStatus Left",
    "context": "Context current",
    "errors": "GroupLost IdempotencyConflict KeyOfAnotherLane MalformedEnvelope OwnerlessTopic PublishFailed"
    " PublishRefused PublishUnknown RetryLater UnknownTopic Unrecoverable",
    "fact_kinds": "BUS_KINDS",
    "handlers": "registrations subscription",
    "message": "Message check decode encode",
    "options": "PublishOptions",
    "partitions": "Partitioned partition_of",
    "policy": "RetryPolicy SubscriptionPolicy",
    "producer": "BatchItem Producer Receipt",
    "registry": "open_transport",
    "rereading": "Extent Rereads Stretch gone",
    "optional": "TellsVanished",
    "transport": "Outgoing Priority Receiver Settlement Transport Verdict",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
