"""Which node of a cluster a command belongs to: by the slot of the key it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.crc import key_slot

#: Commands that are about no key: any node may answer.
KEYLESS = frozenset({"PING", "TIME", "INFO", "CONFIG", "SCAN", "DBSIZE", "SCRIPT", "CLIENT", "COMMAND", "WAIT", "ROLE"})
#: Commands whose second word only says more exactly what is wanted.
_TWO_WORDS = frozenset({"XINFO", "XGROUP", "MEMORY", "OBJECT"})
_SCRIPTED = frozenset({"EVAL", "EVALSHA"})
_READING = frozenset({"XREAD", "XREADGROUP"})


def key_of(args: Sequence[Any]) -> str | bytes:
    """The first key of a command; empty for one that is about none."""
    # redis-py writes two words as one: "XINFO STREAM".
    name, _, more = str(args[0]).upper().partition(" ")
    at = 1
    if name in KEYLESS:
        return ""
    if name in _SCRIPTED:
        at = 3
    elif name in _READING:
        at = next(index for index, each in enumerate(args) if each in ("STREAMS", b"STREAMS")) + 1
    elif name in _TWO_WORDS and not more:
        at = 2
    key = args[at]
    return key if isinstance(key, bytes) else str(key)


def slot_of(key: str | bytes) -> int:
    """The slot of a key: of what stands between its first braces, or of all of it."""
    return int(key_slot(key.encode() if isinstance(key, str) else key))
