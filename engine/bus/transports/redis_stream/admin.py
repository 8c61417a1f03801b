"""The admin side: topics and groups, and what an operator asks about them."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Sequence

from engine.bus.consumer_names import ConsumerName
from engine.bus.many_groups import GroupName, Stands
from engine.bus.optional import WhereItIs
from engine.bus.partitions import together
from engine.bus.rereading import Extent, Stretch
from engine.bus.transport import DeadEntry, Depth, Lag, Page, Stored, TrimReport
from engine.bus.transports.redis_stream import browsing, many_groups, naming, rereading, retention, standing
from engine.bus.transports.redis_stream.inspection import (
    COUNT_LIMIT,
    checkpoint,
    group_lost,
    inspect,
    lag,
    life_began_ms,
    says_group_lost,
)
from engine.bus.transports.redis_stream.ordering import partitions_of_topic
from engine.bus.transports.redis_stream.positions import (
    ZERO,
    Ids,
    ids_after,
    incarnation_of,
    partitions_of,
    place,
)
from engine.bus.transports.redis_stream.scripts import DELETE_GROUP, DOOR, PAUSE_GROUP, PLACE_GROUP
from engine.bus.transports.redis_stream.topic import GroupKeys, StoreTime, TopicKeys
from engine.core.errors import HbusError
from engine.core.store.failures import Refused
from engine.core.store.left_streams import forget_entries
from engine.core.store.link import Link

#: How many keys one SCAN step looks at when a topic is deleted.
SCAN_STEP = 1_000
#: How long a topic that was deleted takes nothing from who had begun to publish before, unless it is made anew.
CLOSED_MS = 30 * 86_400_000

#: What lies beside the counts in the same hashes.
_NO_COUNTS = (
    b"generation",
    b"paused",
    b"incarnation",
    b"closed",
    b"partitions",
    b"epoch",
    b"read_from",
    b"parks",
    b"read",
    b"taken",
)


class RedisStreamAdmin:
    """See :class:`engine.bus.transport.Admin`, :class:`engine.bus.consumer_names.NamesConsumers`,
    :class:`engine.bus.optional.TellsStanding`, :mod:`engine.bus.many_groups` and :mod:`engine.bus.rereading`."""

    def __init__(self, link: Link, prefix: str, time: StoreTime) -> None:
        self._link = link
        self._prefix = prefix
        self._time = time

    def create_topic(self, topic: str) -> None:
        # A stream appears with its first entry or group; the statistics show that the topic is meant to be.
        self._link.run(DOOR, (self._topic(topic).stats,), ("open",))

    def close_topic(self, topic: str) -> None:
        """See :class:`engine.bus.optional.ClosesTopics`."""
        self._link.run(DOOR, (self._topic(topic).stats,), ("close",))

    def delete_topic(self, topic: str) -> None:
        keys = self._topic(topic)
        # First: what a publisher that stood still would append afterwards, nobody would find.
        self.close_topic(topic)
        for group in self.groups(topic):
            self.delete_group(topic, group)
        parts = self._parts(topic)
        self._link.command("DEL", *[key for part in parts for key in part.streams], keys.trimmed)
        self._link.run(DOOR, (keys.stats,), ("forget", CLOSED_MS))
        cursor = b"0"
        while True:
            cursor, found = self._link.command(
                "SCAN", cursor, "MATCH", keys.idempotency_pattern, "COUNT", SCAN_STEP, at=keys.stats
            )
            if found:
                self._link.command("DEL", *found)
            if cursor == b"0":
                return

    def create_group(self, topic: str, group: str, start: str = "beginning") -> bool:
        mode = "heal" if self._may_be_of_another_life(topic, start) else "create"
        # Most calls find the group: its backlog is only counted when that will be used.
        known = group in self.groups(topic)
        # After a flush only the checkpoint may remember how many there were.
        number = max(partitions_of_topic(self._link, self._prefix, topic), partitions_of(start))
        made = 0
        for partition in range(number):
            ids = ids_after(start, partition)
            keys = TopicKeys(self._prefix, topic, partition).group(group)
            reads = ("", "", "") if known else self._entries_up_to(keys, ids)
            made += self._place(keys, group, mode, (*ids, *reads, incarnation_of(start)))
        return bool(made)

    def _may_be_of_another_life(self, topic: str, start: str) -> bool:
        """Whether ``start`` was seen in this topic, which may have been emptied since."""
        if start in ("", "beginning", "end") or start.startswith("@"):
            return False
        if "," in start:
            return True
        # A position is one place for all streams: some may end before it without anything having been lost.
        newest = self.browse(topic, limit=1, newest_first=True).entries
        return not newest or place(newest[0].position) < place(start)

    def delete_group(self, topic: str, group: str) -> None:
        parts = self._parts(topic)
        for keys in (part.group(group) for part in parts):
            self._link.run(DELETE_GROUP, keys.settle, (group,))
        self._link.command("DEL", *parts[0].seats(group).own)

    def groups(self, topic: str) -> list[str]:
        names: set[str] = set()
        for stream in self._topic(topic).streams:
            if self._link.command("EXISTS", stream):
                for row in self._link.command("XINFO", "GROUPS", stream):
                    names.add(row[row.index(b"name") + 1].decode())
        return sorted(names)

    def depth(self, topic: str) -> Depth:
        return browsing.depth(self._link, self._parts(topic))

    def lag(self, topic: str, group: str) -> Lag:
        return together([lag(self._link, keys, group, self._time) for keys in self._groups(topic, group)])

    def checkpoint(self, topic: str, group: str) -> str:
        return checkpoint([inspect(self._link, keys, group, self._time) for keys in self._groups(topic, group)])

    def counts(self, topic: str, group: str = "") -> dict[str, int]:
        hashes = [keys.state for keys in self._groups(topic, group)] if group else [self._topic(topic).stats]
        totals: Counter[str] = Counter()
        for key in hashes:
            flat = self._link.command("HGETALL", key)
            pairs = zip(flat[::2], flat[1::2], strict=True)
            totals.update({name.decode(): int(value) for name, value in pairs if name not in _NO_COUNTS})
        return dict(totals)

    def browse(self, topic: str, *, after: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        return browsing.browse(self._link, self._parts(topic), after=after, limit=limit, newest_first=newest_first)

    def read(self, topic: str, position: str) -> Stored | None:
        return browsing.read(self._link, self._parts(topic), position)

    def seek(self, topic: str, group: str, position: str) -> None:
        for keys in self._groups(topic, group):
            ids = ids_after(position, keys.partition)
            self._place(keys, group, "seek", (*ids, *self._entries_up_to(keys, ids), ""))

    def pause(self, topic: str, group: str) -> None:
        self._pause(topic, group, "pause")

    def resume(self, topic: str, group: str) -> None:
        self._pause(topic, group, "resume")

    def dead(self, topic: str, group: str, limit: int = 100) -> list[DeadEntry]:
        return browsing.dead(self._link, self._groups(topic, group), limit)

    def forget_dead(self, topic: str, group: str, entries: Sequence[str]) -> int:
        by_partition: dict[int, list[str]] = defaultdict(list)
        for entry in entries:
            at = place(entry)
            by_partition[at.partition].append(at.id)
        gone = 0
        for partition, ids in by_partition.items():
            keys = TopicKeys(self._prefix, topic, partition).group(group)
            gone += forget_entries(self._link, keys.dead, keys.state, ids)
        return gone

    def trim(self, topic: str, *, older_than_ms: int | None, keep_at_most: int | None) -> TrimReport:
        return retention.trim(
            self._link,
            self._parts(topic),
            now_ms=self._now_ms(),
            older_than_ms=older_than_ms,
            keep_at_most=keep_at_most,
        )

    def consumer_names(self, topic: str, group: str) -> list[ConsumerName]:
        return naming.look(self._link, self._groups(topic, group), group)[0]

    def forget_consumers(self, topic: str, group: str, *, idle_ms: int) -> list[str]:
        return naming.look(self._link, self._groups(topic, group), group, idle_ms)[1]

    def with_dead(self, groups: Sequence[GroupName]) -> list[GroupName]:
        return many_groups.with_dead(self._link, self._prefix, groups)

    def stands(self, groups: Sequence[GroupName]) -> list[Stands | HbusError]:
        return many_groups.stands(self._link, self._prefix, groups, self._time)

    def standings(self, topic: str, group: str, positions: Sequence[str]) -> list[WhereItIs]:
        return standing.standings(self._link, self._groups(topic, group), group, self._time, positions)

    def began_ms(self, topic: str) -> int:
        known = self._link.command("HGET", self._topic(topic).stats, "incarnation")
        return life_began_ms(known.decode()) if known else 0

    def extents(self, topic: str) -> list[Extent]:
        return rereading.extents(self._link, self._parts(topic))

    def stretch(self, topic: str, log: str, after: str, *, upto: str, limit: int) -> Stretch:
        return rereading.stretch(self._link, self._parts(topic), log, after, upto=upto, limit=limit)

    def nth_after(self, topic: str, log: str, after: str, *, upto: str, number: int) -> tuple[str, int]:
        return rereading.nth_after(self._link, self._parts(topic), log, after, upto=upto, number=number)

    def place_before(self, topic: str, log: str, at_ms: int) -> str:
        return rereading.place_before(log, at_ms)

    def _topic(self, topic: str) -> TopicKeys:
        return TopicKeys(self._prefix, topic)

    def _parts(self, topic: str) -> list[TopicKeys]:
        number = partitions_of_topic(self._link, self._prefix, topic)
        return [TopicKeys(self._prefix, topic, partition) for partition in range(number)]

    def _groups(self, topic: str, group: str) -> list[GroupKeys]:
        return [part.group(group) for part in self._parts(topic)]

    def _now_ms(self) -> int:
        now = self._time.now()
        if isinstance(now, int):
            return now
        seconds, micros = self._link.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def _pause(self, topic: str, group: str, verb: str) -> None:
        try:
            for keys in self._groups(topic, group):
                self._link.run(PAUSE_GROUP, (keys.state, keys.wake), (verb,))
        except Refused as error:
            if says_group_lost(error):
                raise group_lost(group) from error
            raise

    def _place(self, keys: GroupKeys, group: str, mode: str, where: Sequence[int | str]) -> int:
        args = (group, secrets.token_hex(4), mode, *where)
        try:
            return int(self._link.run(PLACE_GROUP, keys.place, args))
        except Refused as error:
            if says_group_lost(error):
                raise group_lost(group) from error
            raise

    def _entries_up_to(self, keys: GroupKeys, ids: Ids) -> tuple[int | str, ...]:
        """How many entries each stream ever had up to an id; empty where the server knows or nobody can tell."""
        return tuple(self._entries_read(stream, id_) for stream, id_ in zip(keys.streams, ids, strict=True))

    def _entries_read(self, stream: str, after: str) -> int | str:
        if after in ("$", ZERO) or not self._link.command("EXISTS", stream):
            return ""
        flat = self._link.command("XINFO", "STREAM", stream)
        info = dict(zip(flat[::2], flat[1::2], strict=True))
        added = info.get(b"entries-added")
        last = info[b"last-generated-id"].decode()
        # Both numbers grow alike with what is published meanwhile, so their difference stays true.
        behind = browsing.count_ids(self._link, stream, f"({after}", last, limit=COUNT_LIMIT)
        return "" if added is None or behind is None else int(added) - behind
