"""The partitions of a topic in the store: how many, who owns them, and the keys that were set aside."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

from engine.bus.partitions import MOST_PARTITIONS, Owned, Parked, PartitionedReceiver, Unparked
from engine.bus.transport import Stored
from engine.bus.transports.redis_stream.inspection import group_lost, inspect, lag, says_group_lost
from engine.bus.transports.redis_stream.partitioned import RedisPartitionedReceiver
from engine.bus.transports.redis_stream.positions import Place, place
from engine.bus.transports.redis_stream.receiver import PartitionReader
from engine.bus.transports.redis_stream.scripts import PLACE_GROUP, UNPARK
from engine.bus.transports.redis_stream.topic import MARKS, GroupKeys, StoreTime, TopicKeys
from engine.core.errors import BadInput
from engine.core.store.failures import Refused, not_refused
from engine.core.store.link import Arg, Link


class RedisPartitions:
    """See :class:`engine.bus.partitions.Partitioned`."""

    _link: Link
    _prefix: str
    _time: StoreTime

    def partitioned_receiver(
        self, topic: str, group: str, *, consumer: str, lease_ms: int, partitions: int, seat_ms: int
    ) -> PartitionedReceiver:
        keys = [TopicKeys(self._prefix, topic, partition) for partition in range(partitions)]
        make_end = partial(_end, group=group, consumer=consumer, lease_ms=lease_ms, time=self._time)
        return RedisPartitionedReceiver(
            self._link,
            group=group,
            consumer=consumer,
            parts=[each.group(group) for each in keys],
            seats=keys[0].seats(group),
            stats=keys[0].stats,
            make_end=make_end,
            seat_ms=seat_ms,
            time=self._time,
        )

    def set_partitions(self, topic: str, partitions: int) -> None:
        known = self.partitions(topic)
        if not known <= partitions <= MOST_PARTITIONS:
            raise BadInput(
                f"A topic of {known} partitions cannot have {partitions}.",
                remedy=f"Use {known} to {MOST_PARTITIONS}: what lies in a partition stays there.",
                field="partitions",
            )
        first = TopicKeys(self._prefix, topic)
        if self._link.command("EXISTS", first.streams[1]):
            rows = self._link.command("XINFO", "GROUPS", first.streams[1])
            for group in [row[row.index(b"name") + 1].decode() for row in rows]:
                for partition in range(known, partitions):
                    self._place_beside(group, first.group(group), TopicKeys(self._prefix, topic, partition))
        # Last: from now on everybody counts on the groups being there.
        self._link.command("HSET", first.stats, "partitions", partitions)

    def partitions(self, topic: str) -> int:
        return partitions_of_topic(self._link, self._prefix, topic)

    def owners(self, topic: str, group: str) -> list[Owned]:
        parts = self._parts(topic)
        flat = self._link.command("HGETALL", parts[0].seats(group).owners)
        records = {int(partition): record for partition, record in zip(flat[::2], flat[1::2], strict=True)}
        now_ms = self._time.now()
        if not isinstance(now_ms, int):
            seconds, micros = self._link.command("TIME")
            now_ms = int(seconds) * 1000 + int(micros) // 1000
        return [self._owned(keys.group(group), group, records.get(keys.partition), now_ms) for keys in parts]

    def parked(
        self, topic: str, group: str, limit: int = 100, key: str | None = None, head: str | None = None
    ) -> list[Parked]:
        parts = self._parts(topic)
        if head is not None:
            try:
                lies = place(head).partition
            except BadInput:
                return []
            parts = parts[lies : lies + 1]
        named = self._records([keys.group(group) for keys in parts], key)
        if head is None:
            named = named[:limit]
        pairs = [(mine, each) for each, mine, _ in named]
        counts = self._answers([("ZLEXCOUNT", mine.aside, *_members(each)) for mine, each in pairs])
        found = [
            Parked(each, mine.partition, first[0].text if first else "", int(messages), record)
            for (each, mine, record), messages, first in zip(named, counts, self._aside(pairs, 1), strict=True)
        ]
        return [each for each in found if head in (None, each.position)]

    def set_aside(self, topic: str, group: str, key: str, limit: int = 100) -> list[Stored]:
        parts = [keys.group(group) for keys in self._parts(topic)]
        aside = zip(parts, self._aside([(mine, key) for mine in parts], limit), strict=True)
        places = [(mine, at) for mine, found in aside for at in found]
        entries = self._answers([("XRANGE", mine.streams[at.rank], at.id, at.id) for mine, at in places])
        return [
            Stored(at.text, at.ms, fields[1], at.priority)
            for (_, at), found in zip(places, entries, strict=True)
            for _, fields in found
        ]

    def unpark(
        self,
        topic: str,
        group: str,
        key: str,
        head: str,
        partition: int | None = None,
        *,
        seen: Parked | None = None,
    ) -> Unparked | None:
        if head not in ("retry", "skip", "dead"):
            raise BadInput(f"{head!r} is nothing to do with a head.", remedy="Use retry, skip or dead.", field="head")
        for keys in self._parts(topic):
            if partition not in (None, keys.partition):
                continue
            reply = self._link.run(UNPARK, keys.group(group).settle, (group, key, head, *_parking(seen)))
            if reply:
                back, position, body = int(reply[0]), reply[1].decode(), reply[2]
                at = place(position)._replace(partition=keys.partition) if position else None
                return Unparked(back, keys.partition, Stored(at.text, at.ms, body, at.priority) if at else None)
        return None

    def _parts(self, topic: str) -> list[TopicKeys]:
        return [TopicKeys(self._prefix, topic, partition) for partition in range(self.partitions(topic))]

    def _records(self, parts: Sequence[GroupKeys], key: str | None) -> list[tuple[str, GroupKeys, bytes]]:
        """All parked keys of these partitions, or this one, by key, each with what was recorded of it."""
        if key is not None:
            records = self._answers([("HGET", mine.parked, key) for mine in parts])
            return [(key, mine, record) for mine, record in zip(parts, records, strict=True) if record is not None]
        found = []
        for mine, flat in zip(parts, self._answers([("HGETALL", mine.parked) for mine in parts]), strict=True):
            found += [(each.decode(), mine, record) for each, record in zip(flat[::2], flat[1::2], strict=True)]
        return sorted(found, key=lambda each: (each[0], each[1].partition))

    def _aside(self, pairs: Sequence[tuple[GroupKeys, str]], limit: int) -> list[list[Place]]:
        """Of each key in its partition the first that were set aside, its head before all others."""
        heads = self._answers([("HGET", mine.heads, key) for mine, key in pairs])
        listed = self._answers([("ZRANGEBYLEX", mine.aside, *_members(key), "LIMIT", 0, limit) for mine, key in pairs])
        known = [_place_of(head, mine) if head else None for head, (mine, _) in zip(heads, pairs, strict=True)]
        # One that retention by hand has taken is not there any more.
        asked = [("ZSCORE", mine.aside, _member(key, at)) for (mine, key), at in zip(pairs, known, strict=True) if at]
        scores = iter(self._answers(asked))
        found = []
        for (mine, _), members, head in zip(pairs, listed, known, strict=True):
            places = [_place_of(member.rpartition(b"\0")[2], mine) for member in members]
            if head is not None and next(scores) is not None:
                places = [head, *(at for at in places if at != head)][:limit]
            found.append(places)
        return found

    def _answers(self, calls: Sequence[tuple[Arg, ...]]) -> list[Any]:
        return [not_refused(each) for each in self._link.each(calls)]

    def _owned(self, keys: GroupKeys, group: str, record: bytes | None, now_ms: int) -> Owned:
        stands = lag(self._link, keys, group, self._time)
        epoch, since, until, consumer = (record or b"0 0 0 ").decode().split(" ", 3)
        return Owned(
            partition=keys.partition,
            consumer=consumer.rpartition("#")[0] if int(until) >= now_ms else "",
            epoch=int(epoch),
            moved_ms=int(since),
            unsettled=stands.unsettled,
            in_flight=stands.in_flight,
            retrying=stands.retrying,
            parked=stands.parked,
            oldest_ms=stands.oldest_ms,
        )

    def _place_beside(self, group: str, first: GroupKeys, topic: TopicKeys) -> None:
        """Make a group's part in a new partition, paused where the group is."""
        keys = topic.group(group)
        where = ("create", "0-0", "0-0", "0-0", "", "", "", "")
        try:
            paused = inspect(self._link, first, group, self._time).paused
            self._link.run(PLACE_GROUP, keys.place, (group, secrets.token_hex(4), *where))
        except Refused as error:
            if says_group_lost(error):
                raise group_lost(group) from error
            raise
        if paused:
            self._link.command("HSET", keys.state, "paused", 1)


def partitions_of_topic(link: Link, prefix: str, topic: str) -> int:
    """How many partitions the store has been told of; 1 where nobody said."""
    return int(link.command("HGET", TopicKeys(prefix, topic).stats, "partitions") or 1)


def _end(keys: GroupKeys, epoch: int, *, group: str, consumer: str, lease_ms: int, time: StoreTime) -> PartitionReader:
    return PartitionReader(keys, group=group, consumer=consumer, lease_ms=lease_ms, time=time, epoch=epoch)


def _parking(seen: Parked | None) -> tuple[Arg, ...]:
    """What the store compares of a parking that was seen."""
    if seen is None:
        return ()
    return place(seen.position)._replace(partition=0).text if seen.position else "", seen.record


def _place_of(position: bytes, keys: GroupKeys) -> Place:
    return place(position.decode())._replace(partition=keys.partition)


def _beginning(key: str) -> str:
    """Of one key's members in ``aside``: see ``lua/common.lua``."""
    return key.replace("\0", "\0\1") + "\0"


def _member(key: str, at: Place) -> str:
    return f"{_beginning(key)}{at.ms:019d}-{at.seq:020d}{MARKS[at.rank]}"


def _members(key: str) -> tuple[str, str]:
    """The range of one key's members."""
    beginning = _beginning(key)
    # A digit follows; the colon is the character after the nine.
    return f"[{beginning}0", f"({beginning}:"
