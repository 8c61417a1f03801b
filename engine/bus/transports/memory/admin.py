"""The admin side of the memory transport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.bus import bounds
from engine.bus.optional import WhereItIs
from engine.bus.partitions import together
from engine.bus.transport import DeadEntry, Depth, Lag, Page, Stored, TrimReport
from engine.bus.transports.memory.group import Group
from engine.bus.transports.memory.log import PRIORITIES, Entry, TopicLog, number_of
from engine.bus.transports.memory.store import MemoryStore
from engine.core.room import fitting


class MemoryAdmin:
    """See :class:`engine.bus.transport.Admin` and :class:`engine.bus.optional.TellsStanding`. Never raises
    ``Unavailable``."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create_topic(self, topic: str) -> None:
        with self._store.changed:
            # Asking for it makes it.
            self._store.topics[topic]

    def delete_topic(self, topic: str) -> None:
        with self._store.changed:
            self._store.topics.pop(topic, None)
            self._store.changed.notify_all()

    def create_group(self, topic: str, group: str, start: str = "beginning") -> bool:
        with self._store.changed:
            made = self._store.topics[topic].make_group(group, start, self._store.graves[topic, group])
            self._store.changed.notify_all()
            return made

    def delete_group(self, topic: str, group: str) -> None:
        with self._store.changed:
            if found := self._store.topics.get(topic):
                found.groups.pop(group, None)
                found.seats.pop(group, None)
            self._store.changed.notify_all()

    def groups(self, topic: str) -> list[str]:
        with self._store.changed:
            found = self._store.topics.get(topic)
            return sorted(found.groups) if found else []

    def depth(self, topic: str) -> Depth:
        with self._store.changed:
            entries = list(self._log(topic).all())
        times = [entry.at_ms for entry in entries]
        size = sum(len(entry.body) for entry in entries)
        return Depth(len(entries), size, min(times, default=None), max(times, default=None))

    def lag(self, topic: str, group: str) -> Lag:
        with self._store.changed:
            now_ms = self._store.clock.now_ms()
            return together([part.lag(now_ms) for part in self._store.group(topic, group)])

    def checkpoint(self, topic: str, group: str) -> str:
        with self._store.changed:
            return ";".join(part.checkpoint() for part in self._store.group(topic, group))

    def counts(self, topic: str, group: str = "") -> dict[str, int]:
        with self._store.changed:
            found = self._store.topics.get(topic)
            if found is None:
                return {}
            if not group:
                return {"published": found.log.last_number, "deduplicated": found.log.deduplicated}
            return dict(sum((part.counts for part in found.groups.get(group, [])), Counter()))

    def browse(self, topic: str, *, after: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        with self._store.changed:
            log = self._log(topic)
            if newest_first:
                ends = [log.backwards_bound(after, partition) for partition in range(log.partitions)]
                found = [entry for entry in log.all() if entry.number < ends[entry.partition][_rank(entry)]][::-1]
            else:
                cursors = [log.cursors(after, partition) for partition in range(log.partitions)]
                found = [entry for entry in log.all() if entry.number > cursors[entry.partition][_rank(entry)]]
        page = [entry.stored() for entry in found[:limit]]
        page = page[: fitting((len(stored.body) for stored in page), bounds.PAGE_BYTES)]
        return Page(page, page[-1].position if page and len(found) > len(page) else "")

    def read(self, topic: str, position: str) -> Stored | None:
        with self._store.changed:
            entry = self._log(topic).find(number_of(position))
        return entry.stored() if entry else None

    def seek(self, topic: str, group: str, position: str) -> None:
        with self._store.changed:
            for part in self._store.group(topic, group):
                part.move(position)
            self._store.changed.notify_all()

    def pause(self, topic: str, group: str) -> None:
        with self._store.changed:
            for part in self._store.group(topic, group):
                part.paused = True

    def resume(self, topic: str, group: str) -> None:
        with self._store.changed:
            for part in self._store.group(topic, group):
                part.paused = False
            self._store.changed.notify_all()

    def dead(self, topic: str, group: str, limit: int = 100) -> list[DeadEntry]:
        with self._store.changed:
            letters = [letter for grave in self._graves(topic, group) for letter in grave.values()]
        oldest = sorted(letters, key=lambda letter: number_of(letter.entry))[:limit]
        return oldest[: fitting((len(letter.body) + len(letter.record) for letter in oldest), bounds.DEAD_BYTES)]

    def forget_dead(self, topic: str, group: str, entries: Sequence[str]) -> int:
        with self._store.changed:
            graves = self._graves(topic, group)
            return sum(1 for grave in graves for entry in entries if grave.pop(entry, None) is not None)

    def trim(self, topic: str, *, older_than_ms: int | None, keep_at_most: int | None) -> TrimReport:
        with self._store.changed:
            found = self._store.topics.get(topic)
            if found is None:
                return TrimReport(0)
            entries = list(found.log.all())
            unwanted: list[Entry] = []
            if older_than_ms is not None:
                edge = self._store.clock.now_ms() - older_than_ms
                unwanted = [entry for entry in entries if entry.at_ms < edge]
            if keep_at_most is not None and len(entries) - keep_at_most > len(unwanted):
                unwanted = entries[: len(entries) - keep_at_most]
            floors = {name: [_floors(part) for part in parts] for name, parts in found.groups.items()}
            removable, held = set(), set()
            for entry in unwanted:
                holders = {
                    name for name, floor in floors.items() if entry.number >= floor[entry.partition][_rank(entry)]
                }
                if holders:
                    held |= holders
                else:
                    removable.add(entry.number)
            found.log.drop(removable)
            return TrimReport(len(removable), tuple(sorted(held)), len(unwanted) - len(removable))

    def standings(self, topic: str, group: str, positions: Sequence[str]) -> list[WhereItIs]:
        with self._store.changed:
            parts, log = self._store.group(topic, group), self._log(topic)
            return [_standing(parts, log, number_of(position)) for position in positions]

    def began_ms(self, topic: str) -> int:
        return 0

    def _log(self, topic: str) -> TopicLog:
        found = self._store.topics.get(topic)
        return found.log if found else TopicLog()

    def _graves(self, topic: str, group: str) -> list[dict[str, DeadEntry]]:
        found = self._store.graves.get((topic, group))
        return list(found.values()) if found else []


def _rank(entry: Entry) -> int:
    return PRIORITIES.index(entry.priority)


def _floors(group: Group) -> list[float]:
    """Per priority, the first number the group still needs."""
    oldest = [group.oldest_unsettled(rank) for rank in range(3)]
    return [float("inf") if entry is None else entry.number for entry in oldest]


def _standing(parts: Sequence[Group], log: TopicLog, number: int) -> WhereItIs:
    entry = log.find(number)
    if entry is not None:
        return WhereItIs.OPEN if parts[entry.partition].is_open(entry) else WhereItIs.DONE
    # What is not settled is never trimmed.
    return WhereItIs.DONE if number <= log.last_number else WhereItIs.FORGOTTEN
