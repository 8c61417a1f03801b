"""What the endpoints of subscriptions take."""

from __future__ import annotations

from hbus_console.api.bodies import Body
from hbus_console.api.drafts import change_body, new_body
from hbus_console.subscriptions.services.draft import SETTINGS


class UnparkBody(Body):
    """A decision about a parked key; ``head`` is ``retry``, ``skip`` or ``dead``.

    ``key`` is the key, or the position of its head, for keys that hold what nobody can type or are parked in several
    partitions.
    """

    key: str
    head: str
    reason: str


class BreakerBody(Body):
    """What a person wants of a breaker; ``act`` is ``open``, ``close`` or ``try``."""

    act: str
    reason: str


NewSubscription = new_body(
    SETTINGS,
    "NewSubscription",
    "A subscription; ``owner`` names a team, ``handler`` is ``code`` or ``webhook``.",
    leave=["topic"],
)
SubscriptionChange = change_body(
    SETTINGS, "SubscriptionChange", "What to change of a subscription; an empty ``owner`` takes it away."
)
