"""What beats share of each entry, in Redis: how far it is sent, and who is at its next slot.

A hash an entry, ``PREFIX:DIGEST``, kept for :data:`KEEP_MS` beyond the last look at it. The digest is that of the
entry's name and of when it is due: one whose schedule has changed is another, and begins with the present.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import redis

from engine.core.scripts import Arg, ScriptFolder, load_scripts
from engine.core.store.answered import answered

_LUA = files("engine.cron.beat") / "lua"
#: Longer than from one slot of a yearly entry to the next.
KEEP_MS = 400 * 86_400_000


@dataclass(frozen=True, slots=True)
class SlotClaim:
    """A slot that a beat is at: the entry's state in the store, what it was, and what it is to become."""

    key: str
    holder: str
    cursor: int
    slot: int


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """What became of an attempt to claim."""

    won: bool
    #: How far the entry is sent; -1: the store has forgotten it.
    cursor: int
    #: After how many seconds it may be claimed.
    wait_s: float


class BeatStore:
    """Every method raises ``Unavailable``. Thread-safe."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = ScriptFolder(client, _LUA)

    def key(self, entry: str, identity: str) -> str:
        """Where the state of an entry lies that is due as ``identity`` says."""
        return state_key(self._prefix, entry, identity)

    def time(self) -> float:
        """The store's clock, in seconds since the epoch."""
        with answered():
            seconds, micros = self._client.time()
        return float(seconds) + micros / 1_000_000

    def open(self, entries: Sequence[tuple[str, str]]) -> list[int]:
        """How far each of these is sent, by key and name; one that is new here is sent from now on."""
        calls: list[tuple[list[str], list[Arg]]] = [([key], [KEEP_MS, name]) for key, name in entries]
        return [int(cursor) for cursor, _ in self._each("open", calls)]

    def claim(self, claims: Sequence[SlotClaim], lease_s: float) -> list[ClaimAnswer]:
        """In one round trip. Of those that were claimed when it raises, other beats leave alone for ``lease_s``."""
        lease_ms = round(lease_s * 1000)
        calls: list[tuple[list[str], list[Arg]]] = [
            ([each.key], [each.holder, lease_ms, each.cursor, each.slot, KEEP_MS]) for each in claims
        ]
        return [ClaimAnswer(bool(won), cursor, wait / 1000) for won, cursor, wait in self._each("claim", calls)]

    def sent(self, claim: SlotClaim) -> bool:
        """Say that it is sent or passed over; whether that holds now. Else another beat has it."""
        return bool(self._scripts.call("sent", [claim.key], [claim.holder, claim.cursor, claim.slot]))

    def close(self) -> None:
        self._client.close()

    def _each(self, name: str, calls: list[tuple[list[str], list[Arg]]]) -> list[Any]:
        return self._scripts.call_each(name, calls) if calls else []


def state_key(prefix: str, entry: str, identity: str) -> str:
    """As :meth:`BeatStore.key`, for who has no connection."""
    digest = sha256(f"{entry}\0{identity}".encode("utf-8", "backslashreplace")).hexdigest()
    return f"{prefix}:{digest[:32]}"


def push(client: Any, claim: SlotClaim, queue: str, message: str) -> bool:
    """Put a slot's message into its queue, a list beside the state, and say so, in one step; whether that holds now.

    ``client``: the broker's own connection, of Kombu's class that puts a prefix before some keys; ``queue`` has it.
    """
    arguments = (claim.holder, claim.cursor, claim.slot, message)
    answer = redis.Redis.execute_command(client, "EVAL", _sent(), 2, claim.key, queue, *arguments)  # type: ignore[no-untyped-call]
    return bool(answer)


@cache
def _sent() -> str:
    return load_scripts(_LUA)["sent"].text
