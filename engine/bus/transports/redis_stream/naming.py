"""The names of a group's consumers, over all its partitions."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bus.consumer_names import ConsumerName
from engine.bus.transports.redis_stream.inspection import group_lost, says_group_lost
from engine.bus.transports.redis_stream.scripts import CONSUMER_NAMES
from engine.bus.transports.redis_stream.topic import GroupKeys
from engine.core.store.failures import Refused
from engine.core.store.link import Link


def look(
    link: Link, parts: Sequence[GroupKeys], group: str, idle_ms: int | None = None
) -> tuple[list[ConsumerName], list[str]]:
    """The names that are there, and those that were removed because they had been idle for ``idle_ms``."""
    found: dict[str, ConsumerName] = {}
    removed: set[str] = set()
    for keys in parts:
        try:
            flat = link.run(
                CONSUMER_NAMES, (*keys.streams, keys.state), (group, "" if idle_ms is None else max(0, idle_ms))
            )
        except Refused as error:
            if says_group_lost(error):
                raise group_lost(group) from error
            raise
        for raw, pending, idle, gone in zip(*[iter(flat)] * 4, strict=True):
            name = raw.decode()
            if gone:
                removed.add(name)
                continue
            known = found.get(name, ConsumerName(name, 0, idle))
            found[name] = ConsumerName(name, known.pending + pending, min(known.idle_ms, idle))
    return [found[name] for name in sorted(found)], sorted(removed - found.keys())
