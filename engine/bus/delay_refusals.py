"""Messages whose time has come and that the bus refused: kept, tried again, and told of for as long as that lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec
import redis

from engine.bus.delay_entries import Due
from engine.core.prepared import prepared
from engine.core.scripts import ScriptFolder
from engine.core.store.answered import answered

#: How long a message that was refused when due rests before it is tried again, in seconds. Each further pause is twice
#: as long as the one before, up to the longest.
FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 600.0


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """How a message stands that is refused. Times are in epoch milliseconds."""

    topic: str
    since_ms: int
    tries: int
    #: When it is tried again.
    next_ms: int
    why: str


class TopicRefusals(msgspec.Struct, frozen=True, gc=False):
    """How many messages of a topic are refused, since when any is, and why the last one is."""

    count: int
    since_ms: int
    why: str


class Again(NamedTuple):
    """What became of a refused message: when it is tried again, epoch milliseconds, and how often it was so far."""

    item: Due
    next_ms: int
    tries: int


class DelayRefusals:
    """In Redis, beside the messages themselves: what is published, cancelled or given up is refused no more, in the
    same step. All methods raise ``Unavailable``."""

    def __init__(self, store: redis.Redis, scripts: ScriptFolder, base: str, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._scripts = scripts
        self._put_back = [f"{base}:waiting", f"{base}:moving", f"{base}:sent"]
        self._now_ms = now_ms
        #: For the scripts that end a refusal, in this order.
        self.keys = [f"{base}:refused", f"{base}:refused-topics"]

    def add(self, refused: Sequence[tuple[Due, str]]) -> list[Again]:
        """Put claimed messages back, each with why it was refused. Returns those of which that is news: they were not
        refused before, or for another reason."""
        if not refused:
            return []
        args: list[str | int | bytes] = [self._now_ms(), *(round(s * 1000) for s in (FIRST_PAUSE_S, LONGEST_PAUSE_S))]
        for item, why in refused:
            args += [item.place, item.ends_ms, "1" if item.again else "", item.topic, why]
        told = list(map(int, self._scripts.call("refuse", [*self._put_back, *self.keys], args)))
        found = zip((item for item, _ in refused), told[::2], told[1::2], strict=True)
        return [Again(item, next_ms, tries) for item, next_ms, tries in found if next_ms]

    def at(self, places: Sequence[bytes | str]) -> list[Refusal | None]:
        """How each place stands; ``None``: it is not refused."""
        if not places:
            return []
        with answered():
            lies = cast("list[bytes | None]", self._store.hmget(self.keys[0], list(places)))
        return [None if each is None else _refusal.decode(each) for each in lies]

    def by_topic(self) -> Mapping[str, TopicRefusals]:
        """The topics of which any is refused."""
        with answered():
            lies = cast("dict[bytes, bytes]", self._store.hgetall(self.keys[1]))
        return {topic.decode(): _sum.decode(told) for topic, told in lies.items()}


_refusal = msgspec.json.Decoder(prepared(Refusal))
_sum = msgspec.json.Decoder(prepared(TopicRefusals))
