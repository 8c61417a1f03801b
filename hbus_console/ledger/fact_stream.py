"""The way of facts from any process to the keeper: one bounded stream in the store, one entry a batch."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import redis

from engine.core.facts import Fact

#: How many batches the stream holds; with the keeper away for longer, the oldest are trimmed by the store, and the
#: keeper reports the gap as dropped facts.
STREAM_LIMIT = 20_000


class FactStream:
    """A fact sink. An entry has two fields: ``n``, the running number of facts, and ``f``, a MessagePack list."""

    def __init__(self, store: redis.Redis, prefix: str) -> None:
        self._store = store
        self._key = f"{prefix}:{{facts}}:log"
        self._encoder = msgspec.msgpack.Encoder()

    def write(self, facts: Sequence[Fact]) -> None:
        self._store.xadd(
            self._key,
            {"n": len(facts), "f": self._encoder.encode(list(facts))},
            maxlen=STREAM_LIMIT,
            approximate=True,
        )
