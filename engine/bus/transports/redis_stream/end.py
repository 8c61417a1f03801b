"""One partition of a group as a consumer reaches it: leasing, settling and extending, without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.bus.transport import Attempt, Delivery, Settlement, Verdict
from engine.bus.transports.redis_stream.inspection import group_lost, says_group_lost
from engine.bus.transports.redis_stream.keys import PRIORITIES, GroupKeys
from engine.bus.transports.redis_stream.link import Arg, Link, Refused
from engine.bus.transports.redis_stream.positions import MARKS, place, suffix_of
from engine.bus.transports.redis_stream.scripts import EXTEND, RECEIVE, SETTLE
from engine.bus.transports.redis_stream.times import StoreTime

#: The most messages one call leases: the server does nothing else meanwhile.
LIMIT = 1_000

#: What stands at the end of a position that is not of normal priority.
MARKED = "hl"
_RANK_OF_MARK = {mark: rank for rank, mark in enumerate(MARKS)}

_attempt_encoder = msgspec.json.Encoder()
_history_decoder = msgspec.json.Decoder(tuple[Attempt, ...])


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

    def lease(self, link: Link, limit: int) -> list[Any]:
        """The script's own reply; raises ``GroupLost``, and :class:`Refused` when the epoch is old."""
        args = (self._group, self._consumer, min(limit, LIMIT), self._lease_ms, self._time.now(), self._epoch)
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
        if len(plain) == len(batch) and not [position for position in plain if position[-1] in MARKED]:
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
            position, _, token = each.receipt.partition("|")
            positions.append(position)
            if each.verdict is Verdict.ACK:
                acks[_RANK_OF_MARK.get(position[-1], 1)].append(index)
            else:
                attempt = _attempt_encoder.encode(each.attempt) if each.attempt else b""
                others += (each.verdict.value, position, token, max(0, each.after_ms), attempt, each.dead, each.key)
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
            position, _, token = receipt.partition("|")
            args += (position, token)
        for ordinal in link.run(EXTEND, self.keys.extend, args):
            results[ordinal - 1] = False
        return results

    def deliveries(self, reply: list[Any]) -> list[Delivery]:
        """What a reply that begins with ``got`` has brought."""
        generation_bytes, again, *fresh = reply[1:6]
        generation = generation_bytes.decode()
        deliveries = [self._again(item, generation) for item in again]
        if self._suffix:
            return deliveries + self._of_partition(fresh[1], generation)
        first = f"|1|{generation}"
        for entries, priority in zip(fresh, PRIORITIES, strict=True):
            if entries:
                for position_bytes, body in zip(*entries, strict=True):
                    position = position_bytes.decode()
                    deliveries.append(Delivery(position + first, position, body, 1, (), priority))
        return deliveries

    def _of_partition(self, entries: list[Any], generation: str) -> list[Delivery]:
        if not entries:
            return []
        suffix, first, number = self._suffix, f"|1|{generation}", self.keys.partition
        normal = PRIORITIES[1]
        return [
            Delivery((at := position.decode()) + first, at + suffix, body, 1, (), normal, number)
            for position, body in zip(*entries, strict=True)
        ]

    def _again(self, item: list[Any], generation: str) -> Delivery:
        position_bytes, body, times, failed, history = item
        position = position_bytes.decode()
        return Delivery(
            receipt=f"{position}|{times}|{generation}",
            position=position + self._suffix,
            body=body,
            attempt=failed + 1,
            history=_history_decoder.decode(b"[" + history + b"]"),
            priority=place(position).priority,
            partition=self.keys.partition,
        )
