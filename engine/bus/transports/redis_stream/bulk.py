"""Publishing a write once: a script for each chunk, a set of what is stored, and whose each ordering key is."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from engine.bus.bounds import too_large
from engine.bus.bulk import Appended, Lane
from engine.bus.chunking import chunked
from engine.bus.errors import KeyOfAnotherLane
from engine.bus.transport import Outgoing, Priority
from engine.bus.transports.redis_stream.scripts import BULK
from engine.bus.transports.redis_stream.topic import (
    CAPABILITIES,
    CLOSED,
    PRIORITIES,
    PUBLISH_ANEW,
    RedisPublishing,
    TopicKeys,
)
from engine.core.errors import BadInput, OutcomeUnknown
from engine.core.store.failures import Refused
from engine.core.store.link import Arg

#: How many bytes stand for an idempotency key: the less of memory is touched, the sooner the store is done. That two
#: keys of a write of a billion share theirs has a chance of one in a hundred billions.
REMEMBERED = 12
#: Where the streams of further partitions begin among the script's keys.
_FURTHER = 7
#: What the server says where it, or another in its place, may take the same call a moment later.
_PASSES = ("LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY", "NOREPLICAS")


class RedisBulk(RedisPublishing):
    """See :class:`engine.bus.bulk.PublishesInBulk`."""

    def publish_bulk(
        self, topic: str, lane: Lane, batch: Sequence[Outgoing], ordering_keys: Sequence[str] = ()
    ) -> Appended:
        _check(lane, batch, ordering_keys)
        keys = self._topic(topic)
        stored = known = 0
        for chunk in chunked(batch):
            done = stored + known
            if len(chunk) == 1 and len(chunk[0].body) > CAPABILITIES.max_bytes:
                error = too_large(CAPABILITIES.max_bytes)
                return Appended(stored, known, error, "Store large data elsewhere and send its address.")
            named = ordering_keys[done : done + len(chunk)]
            refused: Refused | None = None
            try:
                reply = self._bulk(keys, lane, chunk, list(dict.fromkeys(key for key in named if key)))
            except Refused as error:
                refused = error
            else:
                if reply[0] == b"lane":
                    raise KeyOfAnotherLane(reply[1].decode())
                stored, known = stored + reply[0], known + reply[1]
                if reply[2] == b"closed":
                    return Appended(stored, known, CLOSED, PUBLISH_ANEW)
                if reply[2]:
                    refused = self._link.refused(reply[2].decode())
            if refused is not None:
                if any(code in refused.words for code in _PASSES):
                    raise refused
                return Appended(stored, known, refused.what, refused.remedy)
        return Appended(stored, known)

    def _bulk(self, keys: TopicKeys, lane: Lane, chunk: Sequence[Outgoing], named: Sequence[str]) -> list[Any]:
        """The script's answer."""
        further, streams = _streams(keys, chunk)
        script_keys = (*keys.publish, keys.written(lane.write), keys.lanes(lane.write, lane.run), *further)
        args: tuple[Arg, ...] = (
            *(self._time.now(), max(1, lane.window_ms), lane.name, len(chunk), len(named), streams),
            *[blake2b(each.idempotency_key.encode(), digest_size=REMEMBERED).digest() for each in chunk],
            *named,
            *(each.body for each in chunk),
        )
        if not self._replicas:
            found: list[Any] = self._link.run(BULK, script_keys, args)
            return found
        found, reached = self._link.run_replicated(BULK, script_keys, args, self._replicas)
        if reached < self._replicas:
            raise OutcomeUnknown(
                f"{reached} of {self._replicas} replicas have it so far, and a failover now could lose it.",
                remedy="Publish it again under the same write.",
            )
        return found


def _check(lane: Lane, batch: Sequence[Outgoing], ordering_keys: Sequence[str]) -> None:
    for field in ("write", "run", "name"):
        if not 0 < len(getattr(lane, field)) <= Lane.LONGEST:
            raise BadInput(
                f"The {field} of a lane is no text of 1 to {Lane.LONGEST} characters.",
                remedy="Give it a name.",
                field=field,
            )
    if not all(each.idempotency_key for each in batch):
        raise BadInput(
            "A message of a write has no idempotency key.", remedy="Give each its own.", field="idempotency_key"
        )
    if ordering_keys and len(ordering_keys) != len(batch):
        raise BadInput("There are not as many ordering keys as messages.", field="ordering_keys")


def _streams(keys: TopicKeys, chunk: Sequence[Outgoing]) -> tuple[Sequence[str], bytes]:
    """The streams of further partitions that it goes to, and where each message goes; nothing where all are normal."""
    normal = Priority.NORMAL
    if not any(each.partition or each.priority is not normal for each in chunk):
        return (), b""
    further = list(dict.fromkeys(each.partition for each in chunk if each.partition))
    at = {partition: _FURTHER + place for place, partition in enumerate(further)}
    ranks = {priority: rank for rank, priority in enumerate(PRIORITIES, start=1)}
    places = [at[each.partition] if each.partition else ranks[each.priority] for each in chunk]
    return [keys.stream_of(partition) for partition in further], msgspec.json.encode(places)
