"""What a topic promises, and who keeps each promise: its transport, a store beside it, a layer above, or nobody."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bus.transport import Capabilities
from engine.core.errors import ConfigurationError
from hbus_console.topics.models import Topic
from hbus_console.ui import formats
from hbus_console.wiring import bus

REFUSED = "refused"


@dataclass(frozen=True)
class Promise:
    """One line of the table. ``keeper`` is ``refused`` where nobody keeps it: then it cannot be configured."""

    name: str
    keeper: str
    how: str

    @property
    def tone(self) -> str:
        return "warn" if self.keeper == REFUSED else "ok" if self.keeper.startswith("transport") else "info"


def promises(topic: Topic) -> list[Promise]:
    """The table of a topic; empty while its transport cannot be opened."""
    try:
        able = bus.transport(topic.transport).capabilities
    except ConfigurationError:
        return []
    return [*_of_messages(able, topic), *_of_deliveries(able), *_of_history(able)]


def _of_messages(able: Capabilities, topic: Topic) -> list[Promise]:
    keys = "in the act of appending" if able.exact_keys else "reserved before and confirmed after: a crash leaves a gap"
    # The transport could; whether this topic asks for it is the other half of what it promises.
    order = "one owner a partition" if topic.ordering == Topic.Ordering.KEY else "not asked for: as they come"
    urgent = "high before normal before low" if topic.priorities else "not asked for: none goes before another"
    return [
        _native(able.ordered, "Order by key", order, "choose a transport that keeps order"),
        _native(able.priority, "Priorities", urgent, "messages of a priority are refused"),
        Promise("Headers", "envelope", "CloudEvents attributes, in the body"),
        Promise("Expiry", "envelope", "a consumer settles what has expired unhandled"),
        Promise("Due times", "delay path", "kept in the store until due, over restarts"),
        _beside(able, "idempotent_publish", "Repeats recognised", keys)
        if able.idempotent_publish
        else Promise("Repeats recognised", REFUSED, "keys are not remembered"),
        _native(True, "Largest message", formats.size(min(topic.max_bytes, able.max_bytes)), ""),
    ]


def _of_deliveries(able: Capabilities) -> list[Promise]:
    return [
        _beside(able, "leases", "Leases", "renewed by heartbeat; one that ran out is a failed attempt"),
        _beside(able, "retries", "Retries", "with backoff, attempts and their history"),
        _beside(able, "dead", "Dead letters", "until the keeper has taken them into the database"),
        Promise("Effects once", "inbox", "for transactional subscriptions, in their database"),
        _beside(able, "pause", "Pause", "for all consumers at once") if able.pause else Promise("Pause", REFUSED, ""),
    ]


def _of_history(able: Capabilities) -> list[Promise]:
    return [
        _native(able.durable, "Survives a restart", "what was confirmed is on disk", "memory only"),
        Promise("Reading back", "transport", "by position and time")
        if able.browse
        else Promise("Reading back", "ledger", "what was told of each message; the payload goes once settled"),
        _native(
            able.seek, "Replay and late subscribers", "from any position", "a subscription begins with what is new"
        ),
    ]


def _native(kept: bool, name: str, how: str, without: str) -> Promise:
    return Promise(name, "transport", how) if kept else Promise(name, REFUSED, without)


def _beside(able: Capabilities, promise: str, name: str, how: str) -> Promise:
    return Promise(name, "store beside" if promise in able.beside else "transport", how)
