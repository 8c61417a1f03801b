"""One consumer's end of the partitions it owns: one wait for all, one call a partition for the rest."""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from engine.bus.errors import GroupLost
from engine.bus.partitions import Turn
from engine.bus.transport import Delivery, Settlement, Verdict
from engine.bus.transports.redis_stream.inspection import group_lost, says_group_lost
from engine.bus.transports.redis_stream.receiver import SEAT_END, PartitionReader, Waiting
from engine.bus.transports.redis_stream.scripts import SEATS
from engine.bus.transports.redis_stream.topic import GroupKeys, SeatKeys, StoreTime
from engine.core.errors import Unavailable
from engine.core.store.failures import Refused
from engine.core.store.link import Arg, Link

#: Makes the end of one partition under one epoch.
EndMaker = Callable[[GroupKeys, int], PartitionReader]


class _Parked:
    """The parked keys of one partition, as of one version of them."""

    def __init__(self) -> None:
        self.version = -1
        self.keys: set[str] = set()
        #: Parked by ourselves since the last read was sent; that read may not have seen them.
        self.ours: set[str] = set()


class RedisPartitionedReceiver:
    """See :class:`engine.bus.partitions.PartitionedReceiver`."""

    def __init__(
        self,
        link: Link,
        *,
        group: str,
        consumer: str,
        parts: Sequence[GroupKeys],
        seats: SeatKeys,
        stats: str,
        make_end: EndMaker,
        seat_ms: int,
        time: StoreTime,
    ) -> None:
        self._link = link
        self._group = group
        self._parts = parts
        self._seats = seats
        self._make_end = make_end
        self._seat_ms = seat_ms
        self._time = time
        # Another life of a consumer of the same name is another consumer.
        self._me = f"{consumer}#{secrets.token_hex(4)}"
        self._seat_keys = (
            seats.members,
            seats.owners,
            stats,
            *(k for part in parts for k in (part.state, part.leases)),
        )
        self._waiting = Waiting(link, time)
        self._lock = threading.Lock()
        self._owned: dict[int, PartitionReader] = {}
        self._kept_off: set[int] = set()
        self._resting: frozenset[int] = frozenset()
        #: By partition; replaced whole, so that it is read without a lock.
        self._parked: dict[int, _Parked] = {}
        self._mode = "stay"
        self._changed = threading.Event()
        self._first = 0

    def turn(self, *, sit: bool) -> Turn:
        self._mode = "sit" if sit else "stay"
        return self._turn(())

    def keep_off(self, partition: int) -> None:
        with self._lock:
            self._kept_off.add(partition)

    def give_up(self, partitions: Sequence[int]) -> None:
        self._turn(partitions)

    def rest(self, partitions: frozenset[int]) -> None:
        self._resting = partitions

    def is_parked(self, partition: int, key: str) -> bool:
        parked = self._parked.get(partition)
        return parked is not None and key in parked.keys

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        with self._waiting.inside():
            return self._receive(limit, time.monotonic() + wait_s)

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        results = [True] * len(batch)
        parks = Verdict.PARK in {each.verdict for each in batch}
        begun = False
        for (partition, epoch), indexes in _by_seat([each.receipt for each in batch]).items():
            mine = [batch[index] for index in indexes]
            try:
                answers = self._end(partition, epoch).settle(self._link, mine)
            except Unavailable as error:
                error.untouched = error.untouched and not begun
                raise
            begun = True
            if not all(answers):
                for index, ok in zip(indexes, answers, strict=True):
                    results[index] = ok
            if parks:
                for settlement, ok in zip(mine, answers, strict=True):
                    if settlement.verdict is Verdict.PARK:
                        self._note_parking(partition, settlement.key, ok=ok)
        return results

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        results = [False] * len(receipts)
        for (partition, epoch), indexes in _by_seat(receipts).items():
            mine = [receipts[index] for index in indexes]
            for index, kept in zip(indexes, self._end(partition, epoch).extend(self._link, mine), strict=True):
                results[index] = kept
        return results

    def close(self) -> None:
        self._changed.set()
        self._waiting.close([end.keys.wake for end in self._owned.copy().values()][:1])

    def _turn(self, giving: Sequence[int]) -> Turn:
        with self._lock:
            owned = dict(self._owned)
        args: list[Arg] = [self._me, self._time.now(), self._seat_ms, len(self._parts), self._mode]
        for partition, end in owned.items():
            args += (partition, end.epoch, "give" if partition in giving else "keep")
        try:
            members, share, *rows = self._link.run(SEATS, self._seat_keys, args)
        except Refused as error:
            if says_group_lost(error):
                # What it owned is gone with the group, and epochs may begin anew.
                with self._lock:
                    self._owned, self._kept_off = {}, set()
                raise group_lost(self._group) from error
            raise
        now = {int(partition): int(epoch) for partition, epoch in rows}
        with self._lock:
            self._owned = {
                partition: owned[partition]
                if partition in owned and owned[partition].epoch == epoch
                else self._make_end(self._parts[partition], epoch)
                for partition, epoch in now.items()
            }
            gained = {partition for partition, end in self._owned.items() if owned.get(partition) is not end}
            self._kept_off &= self._owned.keys() - gained
            self._parked = {partition: self._parked.get(partition) or _Parked() for partition in now}
        if gained:
            # A receive that waits does not watch what was gained just now.
            self._changed.set()
            self._waiting.touch([end.keys.wake for end in owned.values()][:1])
        return Turn(members, share, now)

    def _end(self, partition: int, epoch: int) -> PartitionReader:
        end = self._owned.get(partition)
        return end if end is not None and end.epoch == epoch else self._make_end(self._parts[partition], epoch)

    def _readable(self) -> list[PartitionReader]:
        with self._lock:
            left_out = self._kept_off | self._resting
            ends = [end for partition, end in self._owned.items() if partition not in left_out]
        if len(ends) > 1:
            # Whoever was first last time comes last: a partition with a large backlog must not starve the others.
            self._first = (self._first + 1) % len(ends)
        return ends[self._first % len(ends) :] + ends[: self._first % len(ends)] if ends else []

    def _receive(self, limit: int, deadline: float) -> list[Delivery]:
        waiting = self._waiting
        while not waiting.closed:
            self._changed.clear()
            found: list[Delivery] = []
            idle: list[tuple[GroupKeys, list[Any]]] = []
            for end in self._readable():
                if len(found) >= limit:
                    break
                try:
                    reply = self._lease(end, limit - len(found))
                    if reply and reply[0] == b"got":
                        self._see_parked(end, reply)
                        found += end.deliveries(reply)
                    elif reply:
                        idle.append((end.keys, reply))
                except (Unavailable, GroupLost):
                    # What other partitions gave is leased and must not get lost; the trouble is met again.
                    if found:
                        break
                    raise
            left_s = deadline - time.monotonic()
            if found or left_s <= 0 or waiting.closed:
                return found
            if idle:
                if not waiting.wait(idle, left_s):
                    break
            else:
                self._changed.wait(left_s)
        return []

    def _lease(self, end: PartitionReader, limit: int) -> list[Any]:
        parked = self._parked.get(end.keys.partition)
        if parked is not None:
            with self._lock:
                parked.ours = set()
        try:
            return end.lease(self._waiting.link, limit, parked.version if parked else -1)
        except Refused as error:
            if not error.words.startswith("FENCED"):
                raise
            # The next turn will tell; until then nothing is read here. One that told while this read was under way has
            # given the partition another end, which no turn would open again.
            with self._lock:
                if self._owned.get(end.keys.partition) is end:
                    self._kept_off.add(end.keys.partition)
            return []

    def _see_parked(self, end: PartitionReader, reply: list[Any]) -> None:
        """Learn which keys are parked when that has changed, before anything that came with it is handled."""
        parked, version, keys = self._parked.get(end.keys.partition), reply[6], reply[8]
        if parked is None or not isinstance(keys, list):
            return
        with self._lock:
            parked.keys = {key.decode() for key in keys} | parked.ours
            parked.version = version

    def _note_parking(self, partition: int, key: str, *, ok: bool) -> None:
        with self._lock:
            parked = self._parked.get(partition)
            if parked is None:
                return
            if ok and key not in parked.ours:
                parked.keys.add(key)
                parked.ours.add(key)
            elif not ok:
                parked.version = -1


def _by_seat(receipts: Sequence[str]) -> dict[tuple[int, int], list[int]]:
    """Indexes by the partition and epoch under which each was received."""
    found: dict[str, list[int]] = defaultdict(list)
    for index, receipt in enumerate(receipts):
        found[receipt.partition(SEAT_END)[0]].append(index)
    seats = {}
    for seat, indexes in found.items():
        partition, _, epoch = seat.partition(".")
        seats[int(partition), int(epoch)] = indexes
    return seats
