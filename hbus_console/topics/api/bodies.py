"""What the endpoints of topics take."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from hbus_console.api.bodies import Body
from hbus_console.topics.services import TopicDraft


class NewTopic(Body):
    """A topic; ``owner`` names a team."""

    name: str
    owner: str
    description: str = ""
    classification: str = "internal"
    masked_fields: list[str] = []
    nothing_to_mask: bool = False
    compatibility: str = "backward"
    ordering: str = "none"
    partitions: int | None = None
    priorities: bool | None = None
    retention_hours: int = 168
    retention_messages: int = 0
    max_bytes: int = 1024 * 1024
    idempotency_window_s: int = 24 * 3600
    ttl_s: int = 0
    transport: str = ""
    schema: dict[str, Any] | None = None
    reason: str = ""

    def draft(self) -> TopicDraft:
        """As the service takes it."""
        return TopicDraft(**self.given("reason", "masked_fields"), masked_fields=tuple(self.masked_fields))


class TopicChange(Body):
    """What to change of a topic; an empty ``owner`` takes it away. ``revision`` guards against a change meanwhile."""

    owner: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    classification: str | UnsetType = UNSET
    masked_fields: list[str] | UnsetType = UNSET
    nothing_to_mask: bool | UnsetType = UNSET
    compatibility: str | UnsetType = UNSET
    ordering: str | UnsetType = UNSET
    partitions: int | UnsetType = UNSET
    priorities: bool | UnsetType = UNSET
    retention_hours: int | UnsetType = UNSET
    retention_messages: int | UnsetType = UNSET
    max_bytes: int | UnsetType = UNSET
    idempotency_window_s: int | UnsetType = UNSET
    ttl_s: int | UnsetType = UNSET
    transport: str | UnsetType = UNSET
    reason: str = ""
    revision: int | None = None
