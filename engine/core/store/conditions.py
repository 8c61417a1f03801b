"""Why a store that is there gives no answer, in an operator's words."""

from __future__ import annotations

from typing import NamedTuple

import redis
from redis.exceptions import BusyLoadingError, MaxConnectionsError

from engine.core.error_text import words_of


class Condition(NamedTuple):
    """What is the matter, as a sentence about the store goes on, and what to do about it."""

    what: str
    remedy: str


_LOADING = Condition(
    "is still reading its data", "It answers once it has read them: look at its log for how far it is."
)
_FULL = Condition(
    "takes no more connections: as many as its maxclients allows are open",
    "Look for who holds them, or raise its maxclients.",
)
_MORE_CONNECTIONS = (
    "It is tried again. If it stays so, look for what holds them, or raise max_connections= in REDIS_URL."
)
_SLOW = Condition(
    "is there and does not answer in time", "Look for what keeps it busy (SLOWLOG GET, INFO), and at the way there."
)


def condition_of(error: Exception) -> Condition | None:
    """What lies behind ``error``; ``None`` when the store may not be there at all, or says something else."""
    words = words_of(error)
    if isinstance(error, BusyLoadingError):
        return _LOADING
    if isinstance(error, MaxConnectionsError):
        return Condition(f"cannot be asked: {words}", _MORE_CONNECTIONS)
    if out_of_connections(error):
        return _FULL
    # redis-py's own words: a connection that does not come about is a timeout of another kind.
    if isinstance(error, redis.TimeoutError) and "reading" in words:
        return _SLOW
    return None


def out_of_connections(error: Exception) -> bool:
    """Whether all that is wrong is that no further connection is to be had, here or there."""
    return isinstance(error, MaxConnectionsError) or "max number of clients" in words_of(error)
