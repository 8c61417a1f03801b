"""What the endpoints take. Unknown fields are refused; absent ones keep their default, or stay as they are."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from engine.bus.policy import DEFAULT_BACKOFF_S
from hbus_console.topics.services import SubscriptionDraft, TopicDraft


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request body."""

    def given(self, *leave: str) -> dict[str, Any]:
        """The fields that were sent, without those in ``leave``."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not UNSET and name not in leave
        }


class ReasonBody(Body):
    """Why; kept in the audit log."""

    reason: str = ""


class DeleteBody(Body):
    """A deletion names what goes a second time, and why."""

    typed_name: str
    reason: str


class NewTeam(Body):
    """A team and where it is reached."""

    name: str
    contact: str
    reason: str = ""


class TeamChange(Body):
    """What to change of a team."""

    name: str | UnsetType = UNSET
    contact: str | UnsetType = UNSET
    reason: str = ""


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


class UnparkBody(Body):
    """A decision about a parked key; ``head`` is ``retry``, ``skip`` or ``dead``."""

    key: str
    head: str
    reason: str


class BreakerBody(Body):
    """What a person wants of a breaker; ``act`` is ``open`` or ``close``."""

    act: str
    reason: str


class NewSchema(Body):
    """The next version of a topic's JSON Schema (draft 2020-12)."""

    body: Any
    note: str = ""


class SchemaQuestion(Body):
    """A schema that might follow."""

    body: Any


class NewSubscription(Body):
    """A subscription; ``owner`` names a team, ``handler`` is ``code`` or ``webhook``."""

    group: str
    owner: str
    description: str = ""
    handler: str = "code"
    webhook_url: str = ""
    webhook_timeout_s: int = 10
    concurrency: int = 4
    max_attempts: int = 5
    backoff_s: tuple[float, ...] = DEFAULT_BACKOFF_S
    lease_s: int = 30
    transactional: bool = False
    on_failed_head: str = "block"
    max_handler_s: int = 0
    breaker_failures: int = 20
    breaker_share: int = 80
    breaker_window_s: int = 30
    breaker_open_s: int = 10
    breaker_longest_open_s: int = 300
    start: str = "beginning"
    reason: str = ""

    def draft(self, topic: str) -> SubscriptionDraft:
        """As the service takes it."""
        return SubscriptionDraft(topic=topic, **self.given("reason"))


class SubscriptionChange(Body):
    """What to change of a subscription; an empty ``owner`` takes it away."""

    owner: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    webhook_url: str | UnsetType = UNSET
    webhook_timeout_s: int | UnsetType = UNSET
    concurrency: int | UnsetType = UNSET
    max_attempts: int | UnsetType = UNSET
    backoff_s: list[float] | UnsetType = UNSET
    lease_s: int | UnsetType = UNSET
    transactional: bool | UnsetType = UNSET
    on_failed_head: str | UnsetType = UNSET
    max_handler_s: int | UnsetType = UNSET
    breaker_failures: int | UnsetType = UNSET
    breaker_share: int | UnsetType = UNSET
    breaker_window_s: int | UnsetType = UNSET
    breaker_open_s: int | UnsetType = UNSET
    breaker_longest_open_s: int | UnsetType = UNSET
    reason: str = ""
    revision: int | None = None
