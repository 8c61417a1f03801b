"""The store beside nsqd: what nsqd cannot keep, in Redis or Valkey, by scripts of our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from engine.bus.errors import GroupLost
from engine.core.errors import ConfigurationError, Unavailable
from engine.core.scripts import UNREACHABLE, ScriptFolder

#: Seconds to wait for an answer.
ANSWER_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0

_LUA = Path(__file__).parent / "lua"


def group_lost(group: str, why: str = "is not in the store: it was flushed, failed over or deleted") -> GroupLost:
    """What to raise when a group's state is gone."""
    return GroupLost(
        f"The group {group!r} {why}.",
        remedy="Make it anew; NSQ gives it what is published from then on. Look for what removed it.",
    )


class SideStore:
    """Thread-safe. Nothing is repeated behind the caller's back: a script that ran twice would lease twice."""

    def __init__(self, url: str) -> None:
        try:
            self._client = redis.Redis.from_url(
                url,
                socket_timeout=ANSWER_TIMEOUT_S,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                socket_keepalive=True,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError:
            # Not chained: what cannot be parsed may quote the password.
            raise ConfigurationError(
                "The address of the store beside NSQ is not a Redis URL.",
                remedy="Write redis://user:password@host:port/db, with the password percent-encoded.",
                field="REDIS_URL",
            ) from None
        self._scripts = ScriptFolder(self._client, _LUA)

    def run(self, script: str, keys: Sequence[str], args: Sequence[str | int | bytes], *, group: str = "") -> Any:
        """Run a script. Raises :class:`Unavailable`, or :class:`GroupLost` where the script says so."""
        try:
            return self._scripts.call(script, keys, args)
        except Unavailable as error:
            raise _away(error.__cause__ or error) from error
        except redis.RedisError as error:
            if str(error).startswith("GROUPLOST"):
                raise group_lost(group) from error
            raise _refused(error) from error

    def command(self, *args: str | int | bytes) -> Any:
        """Run one command. Raises :class:`Unavailable`."""
        try:
            return self._client.execute_command(*args)  # type: ignore[no-untyped-call]
        except UNREACHABLE as error:
            raise _away(error) from error
        except redis.RedisError as error:
            raise _refused(error) from error

    def close(self) -> None:
        """Free the connections. Idempotent."""
        self._client.close()


def _away(error: BaseException) -> Unavailable:
    return Unavailable(
        f"The store beside NSQ cannot be reached: {str(error).rstrip('.')}.",
        remedy="Make sure that it runs and that REDIS_URL names it.",
    )


def _refused(error: redis.RedisError) -> Unavailable:
    return Unavailable(f"The store beside NSQ refused: {str(error).rstrip('.')}.", remedy="Look at the store's log.")
