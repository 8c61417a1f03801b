"""Lua scripts lie in files of their own; this reads and calls them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from engine.core.errors import Unavailable

#: What redis-py raises when the store cannot be reached, answers too late or is still loading.
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError)


class ScriptFolder:
    """The scripts of one folder, each called by its file name. Thread-safe."""

    def __init__(self, client: redis.Redis, folder: Path) -> None:
        self._scripts = {
            path.stem: client.register_script(path.read_text(encoding="utf-8")) for path in folder.glob("*.lua")
        }

    def call(self, name: str, keys: Sequence[str], args: Sequence[str | int | bytes]) -> Any:
        """Run a script; raises :class:`Unavailable` when the store cannot be reached."""
        try:
            return self._scripts[name](keys=list(keys), args=list(args))
        except UNREACHABLE as error:
            raise Unavailable(f"The store cannot be reached: {error}.", remedy="It is tried again.") from error
