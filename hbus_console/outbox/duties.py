"""What the keeper does for the outbox and the inbox."""

from __future__ import annotations

from hbus_console.outbox.relay import OutboxRelay
from hbus_console.outbox.retention import InboxRetention
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import store


def relay() -> OutboxRelay:
    return OutboxRelay(shared_producer, store.client)


def inbox_retention() -> InboxRetention:
    return InboxRetention()
