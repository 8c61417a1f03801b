"""What the endpoints of subscriptions give."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from engine.bus.breaker_board import Standing
from engine.bus.transport import Lag
from hbus_console.access.permissions import Actor
from hbus_console.api.answers import fields_of, plain
from hbus_console.api.drafts import answer, answered
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import DrainStatus, address
from hbus_console.subscriptions.services.draft import SETTINGS


class LagOut(msgspec.Struct):
    """Where a subscription stands, told of one that is asked for and not in lists: it takes a look at the store.

    ``waiting`` is null when the store cannot tell. ``dead`` letters wait for a decision.
    """

    waiting: int | None
    in_flight: int
    retrying: int
    dead: int
    oldest_ms: int | None
    paused: bool
    #: Set aside with their keys, until somebody decides.
    parked: int = 0


_FIRST: list[tuple[str, Any]] = [("topic", str), ("group", str)]
_AFTER: dict[str, list[tuple[str, Any]]] = {"owner": [("contact", str | None)], "handler": [("handler_name", str)]}
_LAST: list[tuple[str, Any] | tuple[str, Any, Any]] = [
    ("held_fields", list[str]),
    ("paused", bool),
    ("pause_reason", str),
    ("created_at", datetime),
    ("updated_at", datetime),
    ("revision", int),
    ("lag", LagOut | None, None),
]

SubscriptionOut = answer(
    SETTINGS,
    "SubscriptionOut",
    "A subscription as it is configured; its secret is never given.",
    first=_FIRST,
    after=_AFTER,
    last=_LAST,
)
SubscriptionMade = answer(
    SETTINGS,
    "SubscriptionMade",
    "A new subscription, with a webhook's secret: given this once.",
    first=_FIRST,
    after=_AFTER,
    last=[*_LAST, ("webhook_secret", str, "")],
)


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


class WebhookSecretOut(msgspec.Struct):
    """A webhook's secret, given this once."""

    webhook_secret: str


def subscription(row: Subscription, lag: Lag | None = None, *, reader: Actor | None = None) -> dict[str, Any]:
    """A subscription, with where it stands when that was asked; a webhook's whole address is for who may change it."""
    settings = {**answered(SETTINGS, row), "webhook_url": address(row, reader)}
    out = SubscriptionOut(
        **settings,
        topic=row.topic.name,
        contact=row.team.contact if row.team else None,
        lag=LagOut(lag.waiting, lag.in_flight, lag.retrying, lag.dead, lag.oldest_ms, lag.paused, lag.parked)
        if lag
        else None,
        **fields_of(row, SubscriptionOut, "topic", "contact", "lag", *settings),
    )
    return plain(out)


def drain(status: DrainStatus) -> dict[str, Any]:
    """Where a drain stands."""
    return plain(
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
    return plain(BreakerOut(**fields_of(standing, BreakerOut)))
