"""How messages are read: one consumer's partition of a group (lease, settle, extend), and the waiting in between."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.bus.transport import Attempt, Delivery, Priority, Settlement, Verdict
from engine.bus.transports.redis_stream.inspection import group_lost, says_group_lost
from engine.bus.transports.redis_stream.positions import place
from engine.bus.transports.redis_stream.scripts import EXTEND, RECEIVE, SETTLE
from engine.bus.transports.redis_stream.topic import MARKS, PRIORITIES, GroupKeys, StoreTime, suffix_of
from engine.core.errors import Unavailable
from engine.core.prepared import prepared
from engine.core.store.failures import Refused
from engine.core.store.link import Arg, Link

#: The longest single blocking read, in seconds; a dead connection is noticed that much later.
BLOCK_S = 5.0
#: How long closing waits for a receive that is under way, in seconds.
CLOSE_S = 2.0
#: The longest blocking read under an injected clock, in seconds: such time passes without the server noticing.
INJECTED_BLOCK_S = 0.02
#: The most messages one call leases: the server does nothing else meanwhile.
LIMIT = 1_000

#: Ends what a receipt begins with where a partition is read under a lease.
SEAT_END = "/"
#: What stands at the end of a position that is not of normal priority.
MARKED = "hl"
_RANK_OF_MARK = {mark: rank for rank, mark in enumerate(MARKS)}

_attempt_encoder = msgspec.json.Encoder()
_history_decoder = msgspec.json.Decoder(prepared(tuple[Attempt, ...]))


class PartitionReader:
    """What a receiver knows of one partition. Thread-safe; ``epoch`` is 0 for who reads under no lease."""

    def __init__(
        self, keys: GroupKeys, *, group: str, consumer: str, lease_ms: int, time: StoreTime, epoch: int = 0
    ) -> None:
        self.keys = keys
        self.epoch = epoch
        self._group = group
        self._consumer = consumer
        self._lease_ms = lease_ms
        self._time = time
        self._epoch = str(epoch) if epoch else ""
        self._suffix = suffix_of(keys.partition)
        #: In front of each receipt, where a lease says who may read: partition and epoch.
        self._seat = f"{keys.partition}.{epoch}{SEAT_END}" if epoch else ""
        self._skip = len(self._seat)
        #: The number of the last read that has reached us: the store hands out again what a later one leased.
        self._read = 0

    def lease(self, link: Link, limit: int, parks: int = -1) -> list[Any]:
        """The script's own reply; ``parks`` are the changes of the parked keys that the consumer has seen.

        Raises ``GroupLost``, and :class:`Refused` when the epoch is old.
        """
        now = self._time.now()
        args = (self._group, self._consumer, min(limit, LIMIT), self._lease_ms, now, self._epoch, self._read, parks)
        try:
            reply: list[Any] = link.run(RECEIVE, self.keys.receive, args)
        except Refused as error:
            if says_group_lost(error):
                raise group_lost(self._group) from error
            raise
        return reply

    def settle(self, link: Link, batch: Sequence[Settlement]) -> list[bool]:
        """See :meth:`engine.bus.transport.Receiver.settle`."""
        results = [True] * len(batch)
        if not batch:
            return results
        ack = Verdict.ACK
        plain = [each.receipt.partition("|")[0] for each in batch if each.verdict is ack]
        if skip := self._skip:
            plain = [receipt[skip:] for receipt in plain]
        together = "".join(plain)
        if len(plain) == len(batch) and not any(mark in together for mark in MARKED):
            # The common case: all handled, all of normal priority.
            args = (self._group, self._time.now(), 0, len(plain), 0, self._epoch, *plain)
            for ordinal in link.run(SETTLE, self.keys.settle, args):
                results[ordinal - 1] = False
            return results
        return self._settle_each(link, batch, results)

    def _settle_each(self, link: Link, batch: Sequence[Settlement], results: list[bool]) -> list[bool]:
        acks: tuple[list[int], ...] = ([], [], [])
        positions: list[str] = []
        others: list[Arg] = []
        other_order: list[int] = []
        for index, each in enumerate(batch):
            position, _, token = each.receipt[self._skip :].partition("|")
            positions.append(position)
            if each.verdict is Verdict.ACK:
                acks[_RANK_OF_MARK.get(position[-1], 1)].append(index)
            else:
                attempt = _attempt_encoder.encode(each.attempt) if each.attempt else b""
                when = each.number or max(0, each.after_ms)
                others += (each.verdict.value, position, token, when, attempt, each.dead, each.key)
                other_order.append(index)
        order = [index for indexes in acks for index in indexes]
        args = (
            self._group,
            self._time.now(),
            *[len(indexes) for indexes in acks],
            self._epoch,
            *[positions[index] for index in order],
            *others,
        )
        order += other_order
        for ordinal in link.run(SETTLE, self.keys.settle, args):
            results[order[ordinal - 1]] = False
        return results

    def extend(self, link: Link, receipts: Sequence[str]) -> list[bool]:
        """See :meth:`engine.bus.transport.Receiver.extend`."""
        results = [True] * len(receipts)
        if not receipts:
            return results
        args: list[Arg] = [self._group, self._time.now(), self._lease_ms, self._epoch]
        for receipt in receipts:
            position, _, token = receipt[self._skip :].partition("|")
            args += (position, token)
        for ordinal in link.run(EXTEND, self.keys.extend, args):
            results[ordinal - 1] = False
        return results

    def deliveries(self, reply: list[Any]) -> list[Delivery]:
        """What a reply that begins with ``got`` has brought. Under a lease, a reply that is not asked comes again."""
        self._read = reply[7]
        generation_bytes, again, *fresh = reply[1:6]
        generation = generation_bytes.decode()
        deliveries = [self._again(item, generation) for item in again]
        if self._suffix:
            for entries, priority in zip(fresh, PRIORITIES, strict=True):
                if entries:
                    deliveries += self._of_partition(entries, priority, generation)
            return deliveries
        seat, first = self._seat, f"|1|{generation}"
        for entries, priority in zip(fresh, PRIORITIES, strict=True):
            if entries:
                for position_bytes, body in zip(*entries, strict=True):
                    position = position_bytes.decode()
                    deliveries.append(Delivery(seat + position + first, position, body, 1, (), priority))
        return deliveries

    def _of_partition(self, entries: list[Any], priority: Priority, generation: str) -> list[Delivery]:
        seat, suffix, first, number = self._seat, self._suffix, f"|1|{generation}", self.keys.partition
        return [
            Delivery(seat + (at := position.decode()) + first, at + suffix, body, 1, (), priority, number)
            for position, body in zip(*entries, strict=True)
        ]

    def _again(self, item: list[Any], generation: str) -> Delivery:
        position_bytes, body, times, failed, history = item
        position = position_bytes.decode()
        return Delivery(
            receipt=f"{self._seat}{position}|{times}|{generation}",
            position=position + self._suffix,
            body=body,
            attempt=failed + 1,
            history=_history_decoder.decode(b"[" + history + b"]"),
            priority=place(position).priority,
            partition=self.keys.partition,
        )


class Waiting:
    """A connection of its own for a receiver's reads, and the waiting between them."""

    def __init__(self, link: Link, time: StoreTime) -> None:
        self.link = link.patient(BLOCK_S)
        self.closed = False
        self._others = link
        self._time = time
        #: Clear while a receive is under way.
        self._outside = threading.Event()
        self._outside.set()

    @contextlib.contextmanager
    def inside(self) -> Any:
        """Around each receive."""
        self._outside.clear()
        try:
            yield
        finally:
            self._outside.set()
            if self.closed:
                self.link.close()

    def wait(self, idle: Sequence[tuple[GroupKeys, list[Any]]], left_s: float) -> bool:
        """Block until there may be something, something is due, or the time is up; ``False`` for the last.

        Then there was nothing in all of that time, and nobody need look.
        """
        whole_s = left_s
        watched: list[str] = []
        seen: list[Any] = []
        for keys, reply in idle:
            if reply[0] == b"paused":
                watched.append(keys.wake)
                seen += reply[1:]
                continue
            due_ms, *ids = reply[1:]
            watched += (*keys.streams, keys.wake)
            seen += ids
            if due_ms >= 0:
                left_s = min(left_s, (due_ms + 1) / 1000)
        left_s = min(left_s, INJECTED_BLOCK_S if self._time.injected else BLOCK_S)
        # BLOCK 0 would mean for ever.
        block_ms = max(1, int(left_s * 1000))
        came = self.link.command("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *watched, *seen)
        # An injected clock may have moved meanwhile, and made something due.
        return bool(came) or left_s < whole_s or self._time.injected

    def close(self, wake: Sequence[str]) -> None:
        """End a receive that is under way by touching what it watches, and free the connection."""
        self.closed = True
        if not self._outside.is_set():
            # A store that is away ends the wait by itself.
            with contextlib.suppress(Unavailable):
                self.touch(wake)
            self._outside.wait(CLOSE_S)
        self.link.close()

    def touch(self, wake: Sequence[str]) -> None:
        """Let whoever watches one of these look again."""
        for key in wake:
            self._others.command("XADD", key, "NOMKSTREAM", "MAXLEN", 1, "*", "look", "again")


class RedisStreamReceiver:
    """See :class:`engine.bus.transport.Receiver`. Holds one connection of its own for waiting."""

    def __init__(self, link: Link, end: PartitionReader, time: StoreTime) -> None:
        self._link = link
        self._end = end
        self._waiting = Waiting(link, time)

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        with self._waiting.inside():
            return self._receive(limit, time.monotonic() + wait_s)

    def _receive(self, limit: int, deadline: float) -> list[Delivery]:
        waiting, end = self._waiting, self._end
        while not waiting.closed:
            reply = end.lease(waiting.link, limit)
            if reply[0] == b"got":
                return end.deliveries(reply)
            left_s = deadline - time.monotonic()
            # Looked at after leasing: what close() puts into `wake` is either in this reply or will end the wait.
            if left_s <= 0 or waiting.closed:
                break
            if not waiting.wait([(end.keys, reply)], left_s):
                break
        return []

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        return self._end.settle(self._link, batch)

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        return self._end.extend(self._link, receipts)

    def close(self) -> None:
        self._waiting.close((self._end.keys.wake,))
