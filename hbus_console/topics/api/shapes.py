"""What the endpoints of topics give."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from hbus_console.api.answers import fields_of, plain
from hbus_console.topics.models import Topic


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


def topic(row: Topic) -> dict[str, Any]:
    """A topic; its latest schema version comes annotated as ``schema_version``, or is looked up."""
    if "schema_version" not in row.__dict__:
        row.__dict__["schema_version"] = row.schemas.values_list("version", flat=True).first()
    return plain(
        TopicOut(
            owner=row.team.name if row.team else None,
            contact=row.team.contact if row.team else None,
            **fields_of(row, TopicOut, "owner", "contact"),
        )
    )
