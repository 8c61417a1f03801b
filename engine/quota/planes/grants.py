"""What was told to nodes that nobody here runs: they give back no more than they got, repay no more than they could
have spent, and are no more than so many.

Beside the keys of :mod:`.redis`:

====================================  =====================================================  ======================
``{quota}:granted:LIMITER@NODE:ID``   one grant; empty once something of it was given back   two minutes
``{quota}:alone:LIMITER@NODE``        what it may spend by itself, and since when            ten minutes
``{quota}:asking:PERSON``             sorted set: digests of the limiters on nodes that ask  a minute after the last
====================================  =====================================================  ======================

A grant is kept longer than its answer is repeated, also when it has been used: no repeat makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.resources import files

import msgspec
import redis

from engine.core.prepared import prepared
from engine.core.scripts import Arg, ScriptFolder
from engine.core.store.answered import answered
from engine.quota.allocator import TOLD_S
from engine.quota.protocol import Alloc, BucketLink, Want

_LUA = files("engine.quota") / "lua"
GRANT_MS = round(2 * TOLD_S * 1000)
#: What is spent alone for longer is more than the control plane has repaid.
ALONE_MS = 600_000
#: Limiters on nodes that may ask for one person at a time, with all programs of theirs. Node and resource are names
#: that a caller makes up, and each is a claim in a bucket: what all who share it wait for, and are divided by.
MOST_ASKING = 5_000
#: Who has not asked for so long asks no more: claims are over sooner.
ASKING_MS = 60_000


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What an answer gave, and what its node was allowed from then on."""

    chain: tuple[BucketLink, ...]
    granted: int
    fallback: float
    spilled: tuple[float, ...]
    at_ms: int
    born: tuple[float, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_told = msgspec.msgpack.Decoder(prepared(Told))


class GrantMemory:
    """In the store of the control plane, so that it is lost with it. Thread-safe; raises ``Unavailable``."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._scripts = ScriptFolder(client, _LUA)
        self._prefix = f"{prefix}:{{quota}}"

    def may_ask(self, person: str, wants: Sequence[Want], at_ms: int) -> bool:
        """Whether the limiters of these may ask for ``person`` beside those that did lately, see :data:`MOST_ASKING`;
        then they are noted. ``at_ms`` is the moment of who asks, in epoch milliseconds.
        """
        asking = [sha256(f"{want.limiter}@{want.node}".encode()).digest()[:16] for want in wants]
        arguments: list[Arg] = [at_ms, ASKING_MS, MOST_ASKING, *asking]
        return bool(self._scripts.call("ask", [f"{self._prefix}:asking:{person}"], arguments))

    def take_grants(self, asked: Sequence[tuple[Want, str]]) -> list[Told | None]:
        """Of each, what its limiter on its node was granted under that id, for the first who asks."""
        return self._take([self._grant(want, of) for want, of in asked])

    def take_alone(self, wants: Sequence[Want]) -> list[Told | None]:
        """Of each, what its limiter on its node was told last, for the first who asks until it is told again."""
        return self._take([self._alone(want) for want in wants])

    def keep(self, answered_wants: Iterable[tuple[Want, Alloc]], at_ms: int) -> None:
        """Remember these answers. One that is repeated is remembered once."""
        pipeline = self._client.pipeline(transaction=False)
        for want, alloc in answered_wants:
            told = _encode(Told(want.chain, alloc.granted, alloc.fallback, alloc.spilled, at_ms, alloc.born))
            if alloc.granted:
                pipeline.set(self._grant(want, alloc.id), told, px=GRANT_MS, nx=True)
            pipeline.set(self._alone(want), told, px=ALONE_MS)
        with answered(several=True):
            pipeline.execute()

    def _take(self, keys: Sequence[str]) -> list[Told | None]:
        if not keys:
            return []
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.set(key, b"", xx=True, get=True, keepttl=True)
        with answered(several=True):
            found = pipeline.execute()
        return [_told.decode(each) if each else None for each in found]

    def _grant(self, want: Want, of: str) -> str:
        return f"{self._prefix}:granted:{want.limiter}@{want.node}:{of}"

    def _alone(self, want: Want) -> str:
        return f"{self._prefix}:alone:{want.limiter}@{want.node}"
