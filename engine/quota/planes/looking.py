"""What the control plane in Redis knows of a bucket, for who wants to see it: it takes nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
import redis

from engine.core.prepared import prepared
from engine.core.store.answered import answered
from engine.quota.allocator import BucketState, begun, pass_time, room
from engine.quota.protocol import BucketLink, KeptRule, spelt
from engine.quota.uses import Key

#: Claims that are read of one bucket.
MOST_CLAIMS = 200


class _ClaimRow(msgspec.Struct, frozen=True, array_like=True):
    """As ``want.lua`` keeps it. A whole number may be written as one."""

    tenant: str
    node: str
    demand: float
    weight: float
    floor: float
    priority: float
    until: float
    account: float
    account_at: float
    share: float


@dataclass(frozen=True)
class SeenClaim:
    """One limiter on one node, as the bucket knows it. ``demand`` and ``share`` are tokens a second."""

    key: Key
    node: str
    demand: float
    share: float
    #: Seconds since it asked last.
    age_s: float


@dataclass(frozen=True)
class SeenBucket:
    """``tokens`` are for sale now, of at most ``room``; below 0 what was spent elsewhere is being repaid."""

    link: BucketLink
    #: Tokens a second, or in each period.
    limit: float
    tokens: float
    room: float
    #: Those that get most first, and how many others there are.
    claims: tuple[SeenClaim, ...]
    more: int


_rule = msgspec.msgpack.Decoder(prepared(KeptRule))
_claim = msgspec.msgpack.Decoder(prepared(_ClaimRow))


def look_at(client: redis.Redis, prefix: str, links: Sequence[BucketLink]) -> list[SeenBucket]:
    """The buckets of those whose rules are in force. ``prefix`` is that of all keys of quotas.

    Raises :class:`~engine.core.errors.Unavailable`.
    """
    with answered():
        seconds, micros = client.time()
        born = float(client.hget(f"{prefix}:memory", "born") or 0)
        found = [_bucket(client, prefix, link, seconds + micros / 1e6, born) for link in links]
    return [bucket for bucket in found if bucket is not None]


def _bucket(client: redis.Redis, prefix: str, link: BucketLink, now: float, born: float) -> SeenBucket | None:
    named = f"{spelt(link.rule)}/{link.owner}"
    kept: Any = client.hget(f"{prefix}:rules", f"rule:{link.rule}")
    if kept is None:
        return None
    rule = _rule.decode(kept)
    values: Any = client.hmget(f"{prefix}:bucket:{named}", ["tokens", "at", "seen", "limit", "began", "ends", "used"])
    state = begun(rule, now, born)
    if values[0] is not None:
        # What an older release wrote lacks some of it, as in want.lua.
        usual = (0.0, now, now, rule.limit, 0.0, 0.0, 0.0)
        tokens, at, seen, limit, began, ends, used = (
            otherwise if value is None else float(value) for value, otherwise in zip(values, usual, strict=True)
        )
        state = BucketState(tokens, at, seen, limit, 0.0, began_ms=int(began), ends_ms=int(ends), used=used)
    pass_time(state, link, rule, now, born)
    claims, more = _claims(client, f"{prefix}:claims:{named}", state.at)
    return SeenBucket(link, rule.limit, state.tokens, room(rule), claims, more)


def _claims(client: redis.Redis, key: str, at: float) -> tuple[tuple[SeenClaim, ...], int]:
    rows: dict[bytes, bytes] = {}
    for name, row in client.hscan_iter(key, count=MOST_CLAIMS):
        rows[name] = row
        if len(rows) == MOST_CLAIMS:
            break
    of_all: Any = client.hlen(key)
    seen = [(name.decode(), _claim.decode(row)) for name, row in rows.items()]
    # Who has not asked for that long asks for nothing any more; it is struck out with the next Want.
    live = [_seen(name, row, at) for name, row in seen if row.until >= at]
    return tuple(sorted(live, key=lambda each: (-each.share, each.key, each.node))), max(0, of_all - len(rows))


def _seen(name: str, row: _ClaimRow, at: float) -> SeenClaim:
    limiter, _, node = name.partition("@")
    service, resource, tenant = (unquote(part) for part in limiter.split("/")[:3])
    return SeenClaim((service, resource, tenant), node, row.demand, row.share, max(0.0, at - row.account_at))
