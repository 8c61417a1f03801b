"""The partitions of a topic in the store: how many, who owns them, and the keys that were set aside."""

from __future__ import annotations

import secrets
from functools import partial

from engine.bus.partitions import MOST_PARTITIONS, Owned, Parked, PartitionedReceiver, Unparked
from engine.bus.transport import Stored
from engine.bus.transports.redis_stream.inspection import group_lost, inspect, lag, says_group_lost
from engine.bus.transports.redis_stream.partitioned import RedisPartitionedReceiver
from engine.bus.transports.redis_stream.positions import Place, place
from engine.bus.transports.redis_stream.receiver import PartitionReader
from engine.bus.transports.redis_stream.scripts import PLACE_GROUP, UNPARK
from engine.bus.transports.redis_stream.topic import MARKS, GroupKeys, StoreTime, TopicKeys
from engine.core.errors import BadInput
from engine.core.store.failures import Refused
from engine.core.store.link import Link


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

    def parked(self, topic: str, group: str, limit: int = 100, key: str | None = None) -> list[Parked]:
        found: list[Parked] = []
        for keys in self._parts(topic):
            mine = keys.group(group)
            for each, record in sorted(self._records(mine, key).items())[:limit]:
                messages = int(self._link.command("ZLEXCOUNT", mine.aside, *_members(each)))
                head = self._aside(mine, each, 1)
                found.append(Parked(each, keys.partition, head[0].text if head else "", messages, record))
        return sorted(found, key=lambda each: (each.key, each.partition))[:limit]

    def set_aside(self, topic: str, group: str, key: str, limit: int = 100) -> list[Stored]:
        found: list[Stored] = []
        for keys in self._parts(topic):
            mine = keys.group(group)
            for at in self._aside(mine, key, limit):
                entries = self._link.command("XRANGE", mine.streams[at.rank], at.id, at.id)
                found += [Stored(at.text, at.ms, fields[1], at.priority) for _, fields in entries]
        return found

    def unpark(self, topic: str, group: str, key: str, head: str, partition: int | None = None) -> Unparked | None:
        if head not in ("retry", "skip", "dead"):
            raise BadInput(f"{head!r} is nothing to do with a head.", remedy="Use retry, skip or dead.", field="head")
        for keys in self._parts(topic):
            if partition not in (None, keys.partition):
                continue
            reply = self._link.run(UNPARK, keys.group(group).settle, (group, key, head))
            if reply:
                back, position, body = int(reply[0]), reply[1].decode(), reply[2]
                at = place(position)._replace(partition=keys.partition) if position else None
                return Unparked(back, keys.partition, Stored(at.text, at.ms, body, at.priority) if at else None)
        return None

    def _parts(self, topic: str) -> list[TopicKeys]:
        return [TopicKeys(self._prefix, topic, partition) for partition in range(self.partitions(topic))]

    def _records(self, keys: GroupKeys, key: str | None) -> dict[str, bytes]:
        """Of all parked keys of a partition, or of this one."""
        if key is not None:
            record = self._link.command("HGET", keys.parked, key)
            return {} if record is None else {key: record}
        flat = self._link.command("HGETALL", keys.parked)
        return {each.decode(): record for each, record in zip(flat[::2], flat[1::2], strict=True)}

    def _aside(self, keys: GroupKeys, key: str, limit: int) -> list[Place]:
        """The first that were set aside with a key, its head before all others."""
        known = self._link.command("HGET", keys.heads, key)
        members = self._link.command("ZRANGEBYLEX", keys.aside, *_members(key), "LIMIT", 0, limit)
        found = [place(member.rpartition(b"\0")[2].decode())._replace(partition=keys.partition) for member in members]
        head = place(known.decode())._replace(partition=keys.partition) if known else None
        if head is None or self._link.command("ZSCORE", keys.aside, _member(key, head)) is None:
            return found
        return [head, *(at for at in found if at != head)][:limit]

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
