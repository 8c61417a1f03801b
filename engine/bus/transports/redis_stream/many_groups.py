"""Where many groups stand, in a few round trips: see :mod:`engine.bus.many_groups`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from engine.bus.many_groups import GroupName, Stands
from engine.bus.partitions import together
from engine.bus.transports.redis_stream.inspection import checkpoint, group_lost, lag_of, says_group_lost, state_of
from engine.bus.transports.redis_stream.scripts import INSPECT_GROUP
from engine.bus.transports.redis_stream.topic import GroupKeys, StoreTime, TopicKeys
from engine.core.errors import HbusError
from engine.core.store.failures import Refused, not_refused
from engine.core.store.link import Link


def with_dead(link: Link, prefix: str, groups: Sequence[GroupName]) -> list[GroupName]:
    """Raises ``Unavailable``."""
    asked = _each_part(link, prefix, groups)
    counts = [not_refused(each) for each in link.each([("XLEN", keys.dead) for _, keys in asked])]
    return list(dict.fromkeys(name for (name, _), count in zip(asked, counts, strict=True) if count))


def stands(link: Link, prefix: str, groups: Sequence[GroupName], time: StoreTime) -> list[Stands | HbusError]:
    """Raises ``Unavailable``."""
    asked = _each_part(link, prefix, groups)
    now = time.now()
    replies = link.run_each(INSPECT_GROUP, [(keys.inspect, (name[1], now)) for name, keys in asked])
    parts = zip(asked, replies, strict=True)
    found = {
        name: _stands(link, name[1], [(keys, reply) for (_, keys), reply in rows])
        for name, rows in groupby(parts, key=lambda part: part[0][0])
    }
    return [found[name] for name in groups]


def _stands(link: Link, group: str, parts: Sequence[tuple[GroupKeys, Any]]) -> Stands | HbusError:
    try:
        states = [(keys, state_of(not_refused(reply))) for keys, reply in parts]
        return Stands(checkpoint([state for _, state in states]), together([lag_of(link, *each) for each in states]))
    except Refused as error:
        return group_lost(group) if says_group_lost(error) else error


def _each_part(link: Link, prefix: str, groups: Sequence[GroupName]) -> list[tuple[GroupName, GroupKeys]]:
    """The keys of every partition of each, those of one group together."""
    topics = list(dict.fromkeys(topic for topic, _ in groups))
    counts = link.each([("HGET", TopicKeys(prefix, topic).stats, "partitions") for topic in topics])
    partitions = {
        topic: [TopicKeys(prefix, topic, partition) for partition in range(int(not_refused(count) or 1))]
        for topic, count in zip(topics, counts, strict=True)
    }
    return [((topic, group), part.group(group)) for topic, group in dict.fromkeys(groups) for part in partitions[topic]]
