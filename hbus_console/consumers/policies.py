"""From a subscription's row to the handler that the engine calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.bus.context import Context
from engine.bus.handlers import find
from engine.bus.message import Message
from engine.bus.webhook import WebhookHandler
from engine.core.errors import ConfigurationError
from engine.core.redaction import shown_url
from hbus_console import outgoing as webhooks
from hbus_console.database import fresh_connections
from hbus_console.subscriptions.models import Subscription

Call = Callable[[Message, Context], object]


@dataclass(frozen=True)
class NamedHandler:
    """What a consumer calls, and how it is called in evidence."""

    call: Call
    name: str


def has_handler(row: Subscription) -> bool:
    """Whether this process can handle the subscription: a webhook always, code only where it is registered."""
    return row.handler == Subscription.Handler.WEBHOOK or find(row.topic.name, row.group) is not None


def handler_of(row: Subscription) -> NamedHandler:
    """Raises ``ConfigurationError`` for code that this process has not registered."""
    if row.handler == Subscription.Handler.WEBHOOK:
        webhook = WebhookHandler(
            row.webhook_url,
            row.webhook_secret,
            row.webhook_timeout_s,
            client=webhooks.client(row.webhook_timeout_s),
        )
        return NamedHandler(webhook, f"webhook {shown_url(row.webhook_url)}")
    registration = find(row.topic.name, row.group)
    if registration is None:
        raise ConfigurationError(
            f"No handler is registered for {row.label}.",
            remedy="Register one with @subscription in an installed app's handlers.py, or delete the subscription.",
            field="handler",
        )
    # A transactional one runs inside the inbox's unit of work, which sees to the connections itself.
    call = registration.handler if row.transactional else _with_fresh_connections(registration.handler)
    return NamedHandler(call, registration.name)


def _with_fresh_connections(handler: Call) -> Call:
    def call(message: Message, context: Context) -> object:
        with fresh_connections():
            return handler(message, context)

    return call
