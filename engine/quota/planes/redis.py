"""The control plane in Redis: the allocator as a script, so that no process of ours has to live for it.

All keys share one hash tag, for a chain of buckets is charged in one step: in a cluster the quotas of an installation
lie on one server. Under the prefix:

===================================  ======================================================  ========================
``{quota}:rules``                    hash: ``version``, and each rule's limit and burst      kept
``{quota}:book``                     the rules as they were published                        kept
``{quota}:memory``                   hash: ``epoch`` and ``born``                            kept
``{quota}:bucket:RULE/OWNER``        hash: its tokens                                        until it is full again
``{quota}:claims:RULE/OWNER``        hash: who asks for how much of them                     as long as the bucket
``{quota}:nodes:RULE/OWNER``         sorted set: when each node asked last                   an hour
``{quota}:told:LIMITER@NODE@LIFE``   the last Want and its answer                            a minute
===================================  ======================================================  ========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import msgspec
import redis

from engine.core.errors import Unavailable
from engine.core.prepared import prepared
from engine.core.scripts import Arg, ScriptFolder
from engine.core.store.answered import answered
from engine.quota import allocator
from engine.quota.plane import KeptBook
from engine.quota.planes.looking import SeenBucket, look_at
from engine.quota.protocol import LIFETIME_S, REFILL_S, Alloc, Answer, BucketLink, KeptRule, Want, spelt

_LUA = files("engine.quota") / "lua"
#: In the order of ``want.lua``'s ARGV[3].
_CONSTANTS = msgspec.msgpack.encode(
    (
        LIFETIME_S, REFILL_S, allocator.LIVE_S, allocator.LIVE_LEAST_S, allocator.COLLECT_S, allocator.FEW_CLAIMS,
        allocator.LEVEL_S, allocator.REPAY_S, allocator.NODES_S, allocator.MOST_NODES, allocator.AGAIN_MOST_S,
        allocator.TOLD_S, allocator.BACK_S,
    )
)  # fmt: skip
_encode = msgspec.msgpack.Encoder().encode
_alloc = msgspec.msgpack.Decoder(prepared(Alloc))
_book = msgspec.msgpack.Decoder(prepared(KeptBook))


class RedisControlPlane:
    """A :class:`~engine.quota.plane.ControlPlane` on the store's own clock.

    ``now`` takes its place in tests that compare it with others.
    """

    def __init__(self, client: redis.Redis, prefix: str, *, now: Callable[[], float] | None = None) -> None:
        self._client = client
        self._prefix = f"{prefix}:{{quota}}"
        self._scripts = ScriptFolder(client, _LUA)
        self._now = now

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        calls = [(self._keys(want), self._arguments(want)) for want in wants]
        answers = self._scripts.call_each("want", calls, apart=True)
        return [_read(want, answer) for want, answer in zip(wants, answers, strict=True)]

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        arguments: list[Arg] = [book.version, _encode(book), self._time()]
        for name, rule in rules.items():
            arguments += [name, _encode(rule)]
        keys = [f"{self._prefix}:rules", f"{self._prefix}:book", f"{self._prefix}:memory"]
        return bool(self._scripts.call("keep_rules", keys, arguments))

    def version(self) -> int:
        with _readable(f"{self._prefix}:rules"), answered():
            return int(self._client.hget(f"{self._prefix}:rules", "version") or 0)

    def book(self) -> KeptBook | None:
        with _readable(f"{self._prefix}:book"), answered():
            kept = self._client.get(f"{self._prefix}:book")
            return _book.decode(kept) if isinstance(kept, bytes) else None

    def look(self, links: Sequence[BucketLink]) -> list[SeenBucket]:
        """How buckets stand and who claims them, on the store's own clock; of rules that are not in force nothing."""
        return look_at(self._client, self._prefix, links)

    def _keys(self, want: Want) -> list[str]:
        told = f"{self._prefix}:told:{want.limiter}@{want.node}@{want.life}"
        keys = [f"{self._prefix}:rules", f"{self._prefix}:memory", told]
        for link in want.chain:
            bucket = f"{spelt(link.rule)}/{link.owner}"
            keys += [f"{self._prefix}:{kind}:{bucket}" for kind in ("bucket", "claims", "nodes")]
        return keys

    def _arguments(self, want: Want) -> list[Arg]:
        return [_encode(want), self._time(), _CONSTANTS]

    def _time(self) -> str:
        return "" if self._now is None else repr(self._now())


def _read(want: Want, answer: Any) -> Alloc:
    """Somebody else's hand may have been at a key: that is no reason to leave others without their answers."""
    try:
        return _alloc.decode(answer)
    except (msgspec.DecodeError, TypeError):
        return Alloc(want.id, Answer.BROKEN)


@contextmanager
def _readable(key: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, msgspec.DecodeError, redis.ResponseError) as error:
        raise Unavailable(
            f"What lies at {key} is none of ours.", remedy="Delete that key: nodes put it back."
        ) from error
