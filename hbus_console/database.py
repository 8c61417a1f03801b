"""Database connections outside the request cycle: consumers, keeper and commands live for weeks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError, connections

#: What a database that cannot be asked now raises. Other errors of it are mistakes of whoever asks.
AWAY = (OperationalError, InterfaceError)

#: Seconds a connection of a long-lived thread is used before it is opened anew.
KEEP_S = 300


def keep_connections(seconds: int = KEEP_S) -> None:
    """Let every thread of this process keep its connections between units of work.

    Call once, before the threads start. Without it :func:`fresh_connections` would open a connection per message,
    which costs more than handling one. A kept connection is checked before its first use in a unit.
    """
    for alias in connections:
        settings = connections.settings[alias]
        settings["CONN_MAX_AGE"] = seconds
        settings["CONN_HEALTH_CHECKS"] = settings["ENGINE"].endswith("postgresql")


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Around each unit of work (a message, a tick): drops connections that are broken or too old.

    Django does this around requests and Celery around tasks only; a thread of its own must do it for itself, or a
    restarted database is an error for ever.
    """
    _drop_unusable()
    try:
        yield
    finally:
        _drop_unusable()


def _drop_unusable() -> None:
    for connection in connections.all(initialized_only=True):
        # Who opened a transaction around the unit decides about its connection.
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
