"""The partitions of a topic in memory: their owners, one consumer's end of several, and parked keys."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from engine.bus.errors import GroupLost
from engine.bus.partitions import MOST_PARTITIONS, Owned, Parked, PartitionedReceiver, Turn, Unparked
from engine.bus.transport import Delivery, Settlement, Stored, Verdict
from engine.bus.transports.memory.group import Group
from engine.bus.transports.memory.store import MemoryStore, Seats, patience
from engine.core.errors import BadInput


class MemoryPartitions:
    """See :class:`engine.bus.partitions.Partitioned`."""

    _store: MemoryStore

    def partitioned_receiver(
        self, topic: str, group: str, *, consumer: str, lease_ms: int, partitions: int, seat_ms: int
    ) -> PartitionedReceiver:
        return MemoryPartitionedReceiver(
            self._store, topic, group, consumer=consumer, lease_ms=lease_ms, partitions=partitions, seat_ms=seat_ms
        )

    def set_partitions(self, topic: str, partitions: int) -> None:
        with self._store.changed:
            found = self._store.topics[topic]
            if not found.partitions <= partitions <= MOST_PARTITIONS:
                raise BadInput(
                    f"A topic of {found.partitions} partitions cannot have {partitions}.",
                    remedy=f"Use {found.partitions} to {MOST_PARTITIONS}: what lies in a partition stays there.",
                    field="partitions",
                )
            found.log.split(partitions)
            for group, parts in found.groups.items():
                for partition in range(found.partitions, partitions):
                    grave = self._store.graves[topic, group][partition]
                    parts.append(Group(found.log, "beginning", grave, partition))
                    parts[-1].paused = parts[0].paused
            found.partitions = partitions

    def partitions(self, topic: str) -> int:
        with self._store.changed:
            found = self._store.topics.get(topic)
            return found.partitions if found else 1

    def owners(self, topic: str, group: str) -> list[Owned]:
        with self._store.changed:
            now_ms = self._store.clock.now_ms()
            parts = self._store.group(topic, group)
            owners = self._store.topics[topic].seats[group].owners
            return [_owned(part, owners.get(part.partition, (0, 0, 0, "")), now_ms) for part in parts]

    def parked(
        self, topic: str, group: str, limit: int = 100, key: str | None = None, head: str | None = None
    ) -> list[Parked]:
        with self._store.changed:
            found = []
            for part in self._store.group(topic, group):
                for each, record in part.parked.items():
                    if key not in (None, each):
                        continue
                    entries = part.entries_aside(each)
                    position = entries[0].position if entries else ""
                    if head not in (None, position):
                        continue
                    found.append(Parked(each, part.partition, position, len(entries), record))
        return sorted(found, key=lambda each: (each.key, each.partition))[:limit]

    def set_aside(self, topic: str, group: str, key: str, limit: int = 100) -> list[Stored]:
        with self._store.changed:
            parts = self._store.group(topic, group)
            return [entry.stored() for part in parts for entry in part.entries_aside(key)[:limit]]

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
        with self._store.changed:
            for part in self._store.group(topic, group):
                if key in part.parked and partition in (None, part.partition) and _is_parking(part, key, seen):
                    messages, entry = part.unpark(key, head)
                    self._store.changed.notify_all()
                    return Unparked(messages, part.partition, entry.stored() if entry else None)
        return None


class MemoryPartitionedReceiver:
    """See :class:`engine.bus.partitions.PartitionedReceiver`."""

    def __init__(
        self,
        store: MemoryStore,
        topic: str,
        group: str,
        *,
        consumer: str,
        lease_ms: int,
        partitions: int,
        seat_ms: int,
    ) -> None:
        self._store = store
        self._topic = topic
        self._group = group
        self._consumer = consumer
        # Another life of a consumer of the same name is another consumer.
        self._me = f"{consumer}#{secrets.token_hex(4)}"
        self._lease_ms = lease_ms
        self._partitions = partitions
        self._seat_ms = seat_ms
        self._owned: dict[int, int] = {}
        self._kept_off: set[int] = set()
        self._resting: frozenset[int] = frozenset()
        #: Partition and key.
        self._parked: frozenset[tuple[int, str]] = frozenset()
        self._sits = False
        self._first = 0
        self._closed = False

    def turn(self, *, sit: bool) -> Turn:
        self._sits = sit
        return self._turn(())

    def keep_off(self, partition: int) -> None:
        self._kept_off.add(partition)

    def give_up(self, partitions: Sequence[int]) -> None:
        self._turn(partitions)

    def rest(self, partitions: frozenset[int]) -> None:
        self._resting = partitions

    def is_parked(self, partition: int, key: str) -> bool:
        return (partition, key) in self._parked

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        store = self._store
        deadline = time.monotonic() + wait_s
        with store.changed:
            while not self._closed:
                parts = self._readable()
                now_ms = store.clock.now_ms()
                if found := self._lease(parts, limit, now_ms):
                    return found
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                due = [ms for part in parts for ms in (part.next_due_ms(), part.read_from_ms) if ms and ms > now_ms]
                store.changed.wait(patience(store.clock, min(due, default=None), now_ms, left_s))
        return []

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        with self._store.changed:
            now_ms = self._store.clock.now_ms()
            results = []
            for each in batch:
                ok = self._on_part(
                    each.receipt,
                    lambda part, receipt, each=each: part.settle(  # type: ignore[misc]
                        msgspec.structs.replace(each, receipt=receipt), now_ms
                    ),
                )
                if ok and each.verdict is Verdict.PARK:
                    self._parked |= {(int(each.receipt.partition(".")[0]), each.key)}
                results.append(ok)
            self._store.changed.notify_all()
        return results

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        with self._store.changed:
            now_ms = self._store.clock.now_ms()
            return [
                self._on_part(each, lambda part, receipt: part.extend(receipt, now_ms=now_ms, lease_ms=self._lease_ms))
                for each in receipts
            ]

    def close(self) -> None:
        with self._store.changed:
            self._closed = True
            self._store.changed.notify_all()

    def _on_part(self, receipt: str, act: Callable[[Group, str], bool]) -> bool:
        """``act`` on the part a receipt names, unless another owns it by now."""
        seat, _, rest = receipt.partition("/")
        partition, _, epoch = seat.partition(".")
        found = self._store.topics.get(self._topic)
        parts = found.groups.get(self._group) if found else None
        if not parts or int(partition) >= len(parts) or parts[int(partition)].epoch != int(epoch):
            return False
        return act(parts[int(partition)], rest)

    def _readable(self) -> list[Group]:
        all_parts = self._store.group(self._topic, self._group)
        parts = [
            all_parts[partition]
            for partition, epoch in self._owned.items()
            if partition not in self._kept_off | self._resting and all_parts[partition].epoch == epoch
        ]
        if len(parts) > 1:
            # Whoever was first last time comes last: a partition with a large backlog must not starve the others.
            self._first = (self._first + 1) % len(parts)
            parts = parts[self._first :] + parts[: self._first]
        return parts

    def _lease(self, parts: Sequence[Group], limit: int, now_ms: int) -> list[Delivery]:
        found: list[Delivery] = []
        for part in parts:
            if part.paused or part.read_from_ms > now_ms:
                continue
            taken = part.lease(
                limit - len(found), now_ms=now_ms, lease_ms=self._lease_ms, consumer=self._consumer, in_order=True
            )
            seat = f"{part.partition}.{part.epoch}/"
            found += [msgspec.structs.replace(each, receipt=seat + each.receipt) for each in taken]
        self._parked = frozenset((part.partition, key) for part in parts for key in part.parked)
        return found

    def _turn(self, giving: Sequence[int]) -> Turn:
        with self._store.changed:
            # After a loss, what makes the group anew must know how many parts it has.
            topic = self._store.topics[self._topic]
            topic.partitions = max(topic.partitions, self._partitions)
            parts = topic.groups.get(self._group, [])
            if len(parts) < self._partitions:
                # What it owned is gone with the group, and epochs may begin anew.
                self._owned, self._kept_off = {}, set()
                raise GroupLost(
                    f"The group {self._group!r} has {len(parts)} of {self._partitions} partitions.",
                    remedy="Set the topic's number of partitions.",
                )
            now_ms = self._store.clock.now_ms()
            seats = self._store.topics[self._topic].seats[self._group]
            share = self._take_place(seats, now_ms)
            owned = self._keep(seats, giving, now_ms)
            for partition in range(self._partitions):
                epoch, _, until_ms, _ = seats.owners.get(partition, (0, 0, 0, ""))
                if len(owned) < share and until_ms < now_ms:
                    owned[partition] = epoch + 1
                    seats.owners[partition] = (epoch + 1, now_ms, now_ms + self._seat_ms, self._me)
                    parts[partition].take_over(epoch + 1, now_ms)
            self._kept_off = {p for p in self._kept_off if p in owned and self._owned.get(p) == owned[p]}
            self._owned = owned
            self._store.changed.notify_all()
            return Turn(len(seats.members), share, dict(owned))

    def _take_place(self, seats: Seats, now_ms: int) -> int:
        """Show presence, or end it; the share of partitions that is our due."""
        seats.members = {name: until for name, until in seats.members.items() if until >= now_ms}
        seats.members.pop(self._me, None)
        if not self._sits:
            return 0
        seats.members[self._me] = now_ms + self._seat_ms
        rank, number = sorted(seats.members).index(self._me), len(seats.members)
        return self._partitions // number + (rank < self._partitions % number)

    def _keep(self, seats: Seats, giving: Sequence[int], now_ms: int) -> dict[int, int]:
        """Renew what is ours and not given up."""
        owned: dict[int, int] = {}
        for partition, epoch in self._owned.items():
            known, since_ms, until_ms, consumer = seats.owners.get(partition, (0, 0, 0, ""))
            if consumer != self._me or known != epoch or not until_ms:
                continue
            if partition in giving:
                seats.owners[partition] = (epoch, now_ms, 0, "")
            else:
                seats.owners[partition] = (epoch, since_ms, now_ms + self._seat_ms, self._me)
                owned[partition] = epoch
        return owned


def _is_parking(part: Group, key: str, seen: Parked | None) -> bool:
    """Whether the key is parked there as it was seen."""
    if seen is None:
        return True
    aside = part.entries_aside(key)
    return (aside[0].position if aside else "", part.parked[key]) == (seen.position, seen.record)


def _owned(part: Group, record: tuple[int, int, int, str], now_ms: int) -> Owned:
    epoch, since_ms, until_ms, consumer = record
    stands = part.lag(now_ms)
    return Owned(
        partition=part.partition,
        consumer=consumer.rpartition("#")[0] if until_ms >= now_ms else "",
        epoch=epoch,
        moved_ms=since_ms,
        unsettled=stands.unsettled,
        in_flight=stands.in_flight,
        retrying=stands.retrying,
        parked=stands.parked,
        oldest_ms=stands.oldest_ms,
    )
