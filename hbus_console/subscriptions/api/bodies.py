"""What the endpoints of subscriptions take."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from engine.bus.policy import DEFAULT_BACKOFF_S
from hbus_console.api.bodies import Body
from hbus_console.subscriptions.services import SubscriptionDraft


class UnparkBody(Body):
    """A decision about a parked key; ``head`` is ``retry``, ``skip`` or ``dead``."""

    key: str
    head: str
    reason: str


class BreakerBody(Body):
    """What a person wants of a breaker; ``act`` is ``open`` or ``close``."""

    act: str
    reason: str


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
