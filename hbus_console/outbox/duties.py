"""What the keeper does for the outbox and the inbox."""

from __future__ import annotations

from hbus_console.outbox.relay import OutboxRelay
from hbus_console.outbox.retention import InboxRetention
from hbus_console.wiring import bus, store


def relay() -> OutboxRelay:
    return OutboxRelay(bus.producer, store.client)


def inbox_retention() -> InboxRetention:
    return InboxRetention()
