"""The store's part of jobs in this process, as its settings say; see :mod:`.store`. The database's is with the rows."""

from __future__ import annotations

import redis
from django.conf import settings

from engine.core.store import open_client
from engine.cron.slots.store import STORE_TIMEOUT_S, SlotStore
from hbus_console.wiring import store


def hasty_client() -> redis.Redis:
    """A client of its own for who decides slots or keeps leases: both have to know soon that nothing answers."""
    return open_client(store.url(), answer_timeout_s=STORE_TIMEOUT_S, connect_timeout_s=STORE_TIMEOUT_S)


def slot_store(client: redis.Redis | None = None) -> SlotStore:
    """What the store answers of the slot protocol; over the client that this process shares without one of its own."""
    return SlotStore(client or store.client(), settings.HBUS_PREFIX)
