"""What the endpoints give, and how both directions look in the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from engine.bus.breaker_board import Standing
from engine.bus.transport import Lag
from hbus_console.topics.models import SchemaVersion, Subscription, Team, Topic
from hbus_console.topics.schemas import schema_uri
from hbus_console.topics.services import DrainStatus, SchemaVerdict


class TeamOut(msgspec.Struct):
    """A team and what it answers for."""

    name: str
    contact: str
    topics: int
    subscriptions: int


class TopicOut(msgspec.Struct):
    """A topic as it is configured. ``owner`` is null for a topic nobody answers for."""

    name: str
    owner: str | None
    contact: str | None
    description: str
    classification: str
    masked_fields: list[str]
    nothing_to_mask: bool
    compatibility: str
    schema_version: int | None
    ordering: str
    partitions: int
    priorities: bool
    retention_hours: int
    retention_messages: int
    max_bytes: int
    idempotency_window_s: int
    ttl_s: int
    transport: str
    paused: bool
    pause_reason: str
    created_at: datetime
    updated_at: datetime
    revision: int


class SchemaOut(msgspec.Struct):
    """One version of a schema."""

    version: int
    uri: str
    body: Any
    note: str
    created_at: datetime
    created_by: str


class BreakOut(msgspec.Struct):
    """One reason why a schema cannot follow. ``judged`` is false where nobody can promise that it could."""

    path: str
    what: str
    judged: bool


class VerdictOut(msgspec.Struct):
    """Whether a schema could be the next version."""

    accepted: bool
    unchanged: bool
    version: int
    mode: str
    breaks: list[BreakOut]


class LagOut(msgspec.Struct):
    """Where a subscription stands in the store; ``waiting`` is null when the store cannot tell."""

    waiting: int | None
    in_flight: int
    retrying: int
    dead: int
    oldest_ms: int | None
    paused: bool
    #: Set aside with their keys, until somebody decides.
    parked: int = 0


class SubscriptionOut(msgspec.Struct):
    """A subscription as it is configured; its secret is never given."""

    topic: str
    group: str
    owner: str | None
    contact: str | None
    description: str
    handler: str
    handler_name: str
    webhook_url: str
    webhook_timeout_s: int
    concurrency: int
    max_attempts: int
    backoff_s: list[float]
    lease_s: int
    transactional: bool
    on_failed_head: str
    max_handler_s: int
    breaker_failures: int
    breaker_share: int
    breaker_window_s: int
    breaker_open_s: int
    breaker_longest_open_s: int
    held_fields: list[str]
    paused: bool
    pause_reason: str
    created_at: datetime
    updated_at: datetime
    revision: int
    lag: LagOut | None = None


class DrainOut(msgspec.Struct):
    """How far a held subscription is from standing still. Counts are null while the store cannot be asked."""

    #: Whether the store hands out nothing more.
    paused: bool
    #: Nothing is handed out, nothing is leased, and no living node works on any of it.
    drained: bool
    in_flight: int | None
    unsettled: int | None
    waiting: int | None
    retrying: int
    parked: int
    #: Node to what it has in its hands, as it last reported.
    at_work: dict[str, int]
    #: Nodes that fell silent with it.
    silent: list[str]


class BreakerOut(msgspec.Struct):
    """How a breaker stands. ``until_ms`` is when an open one is probed; 0 while a person keeps it open."""

    state: str
    since_ms: int
    until_ms: int
    opens: int
    why: str
    forced: bool


class SecretOut(msgspec.Struct):
    """A webhook's secret, given this once."""

    webhook_secret: str


def team(row: Team) -> dict[str, Any]:
    """A team; its counts come annotated as ``owned_topics`` and ``owned_subscriptions``, or are counted."""
    topics = row.__dict__.get("owned_topics")
    readers = row.__dict__.get("owned_subscriptions")
    return _plain(
        TeamOut(
            row.name,
            row.contact,
            row.topics.count() if topics is None else topics,
            row.subscriptions.count() if readers is None else readers,
        )
    )


def topic(row: Topic) -> dict[str, Any]:
    """A topic; its latest schema version comes annotated as ``schema_version``, or is looked up."""
    if "schema_version" not in row.__dict__:
        row.__dict__["schema_version"] = row.schemas.values_list("version", flat=True).first()
    return _plain(
        TopicOut(
            owner=row.team.name if row.team else None,
            contact=row.team.contact if row.team else None,
            **_fields(row, TopicOut, "owner", "contact"),
        )
    )


def schema(row: SchemaVersion) -> dict[str, Any]:
    """One version."""
    return _plain(SchemaOut(uri=schema_uri(row.topic.name, row.version), **_fields(row, SchemaOut, "uri")))


def verdict(found: SchemaVerdict) -> dict[str, Any]:
    """Whether it would be taken."""
    breaks = [BreakOut(one.path, str(one), one.judged) for one in found.breaks]
    return _plain(VerdictOut(found.accepted, found.unchanged, found.version, found.mode, breaks))


def subscription(row: Subscription, lag: Lag | None = None) -> dict[str, Any]:
    """A subscription, with where it stands when that was asked."""
    out = SubscriptionOut(
        topic=row.topic.name,
        owner=row.team.name if row.team else None,
        contact=row.team.contact if row.team else None,
        lag=LagOut(lag.waiting, lag.in_flight, lag.retrying, lag.dead, lag.oldest_ms, lag.paused, lag.parked)
        if lag
        else None,
        **_fields(row, SubscriptionOut, "topic", "owner", "contact", "lag"),
    )
    return _plain(out)


def drain(status: DrainStatus) -> dict[str, Any]:
    """Where a drain stands."""
    return _plain(
        DrainOut(
            paused=status.paused,
            drained=status.drained,
            in_flight=status.in_flight,
            unsettled=status.unsettled,
            waiting=status.waiting,
            retrying=status.retrying,
            parked=status.parked,
            at_work=dict(status.at_work),
            silent=list(status.silent),
        )
    )


def breaker(standing: Standing) -> dict[str, Any]:
    """How a breaker stands."""
    return _plain(BreakerOut(**_fields(standing, BreakerOut)))


def described(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The OpenAPI schema of a struct, standing alone: inner structs are written out in place."""
    (body,), parts = msgspec.json.schema_components([kind], ref_template="#{name}")
    inlined: dict[str, Any] = _inline(body, parts)
    return inlined


def _inline(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(inner, parts) for inner in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(parts[node["$ref"][1:]], parts)
    return {name: _inline(inner, parts) for name, inner in node.items()}


def _fields(row: Any, kind: type[msgspec.Struct], *leave: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in kind.__struct_fields__ if name not in leave}


def _plain(out: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(out)
    return plain
