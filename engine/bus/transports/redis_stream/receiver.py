"""One consumer's end of a group: leasing, waiting, settling and extending."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.bus.transport import Attempt, Delivery, Settlement, Verdict
from engine.bus.transports.redis_stream.inspection import group_lost, says_group_lost
from engine.bus.transports.redis_stream.keys import PRIORITIES, GroupKeys
from engine.bus.transports.redis_stream.link import BLOCK_MARGIN_S, Arg, Link, Refused
from engine.bus.transports.redis_stream.positions import MARKS, place
from engine.bus.transports.redis_stream.scripts import EXTEND, RECEIVE, SETTLE
from engine.bus.transports.redis_stream.times import StoreTime
from engine.core.errors import Unavailable

#: The most messages one call leases: the server does nothing else meanwhile.
LIMIT = 1_000
#: The longest single blocking read, in seconds; a dead connection is noticed that much later.
BLOCK_S = 5.0
#: How long closing waits for a receive that is under way, in seconds.
CLOSE_S = 2.0
#: The longest blocking read under an injected clock, in seconds: such time passes without the server noticing.
INJECTED_BLOCK_S = 0.02

_RANK_OF_MARK = {mark: rank for rank, mark in enumerate(MARKS)}

_attempt_encoder = msgspec.json.Encoder()
_history_decoder = msgspec.json.Decoder(tuple[Attempt, ...])


class RedisStreamReceiver:
    """See :class:`engine.bus.transport.Receiver`. Holds one connection of its own for waiting."""

    def __init__(
        self,
        link: Link,
        url: str,
        keys: GroupKeys,
        *,
        group: str,
        consumer: str,
        lease_ms: int,
        time: StoreTime,
    ) -> None:
        self._link = link
        self._waiting_link = Link(url, answer_timeout_s=BLOCK_S + BLOCK_MARGIN_S)
        self._keys = keys
        self._group = group
        self._consumer = consumer
        self._lease_ms = lease_ms
        self._time = time
        self._closed = False
        #: Clear while a receive is under way.
        self._outside = threading.Event()
        self._outside.set()

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        self._outside.clear()
        try:
            return self._receive(limit, time.monotonic() + wait_s)
        finally:
            self._outside.set()
            if self._closed:
                self._waiting_link.close()

    def _receive(self, limit: int, deadline: float) -> list[Delivery]:
        while not self._closed:
            reply = self._lease(limit)
            if reply[0] == b"got":
                return self._deliveries(reply)
            left_s = deadline - time.monotonic()
            # Looked at after leasing: what close() puts into `wake` is either in this reply or will end the wait.
            if left_s <= 0 or self._closed:
                break
            self._wait(reply, left_s)
        return []

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        results = [True] * len(batch)
        if not batch:
            return results
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
                others += (each.verdict.value, position, token, max(0, each.after_ms), attempt, each.dead)
                other_order.append(index)
        order = [index for indexes in acks for index in indexes]
        args = (
            self._group,
            self._time.now(),
            *[len(indexes) for indexes in acks],
            *[positions[index] for index in order],
            *others,
        )
        order += other_order
        for ordinal in self._link.run(SETTLE, self._keys.settle, args):
            results[order[ordinal - 1]] = False
        return results

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        results = [True] * len(receipts)
        if not receipts:
            return results
        args: list[Arg] = [self._group, self._time.now(), self._lease_ms]
        for receipt in receipts:
            position, _, token = receipt.partition("|")
            args += (position, token)
        for ordinal in self._link.run(EXTEND, self._keys.extend, args):
            results[ordinal - 1] = False
        return results

    def close(self) -> None:
        self._closed = True
        if not self._outside.is_set():
            # A store that is away ends the wait by itself.
            with contextlib.suppress(Unavailable):
                self._link.command("XADD", self._keys.wake, "NOMKSTREAM", "MAXLEN", 1, "*", "look", "again")
            self._outside.wait(CLOSE_S)
        self._waiting_link.close()

    def _lease(self, limit: int) -> list[Any]:
        args = (self._group, self._consumer, min(limit, LIMIT), self._lease_ms, self._time.now())
        try:
            reply: list[Any] = self._waiting_link.run(RECEIVE, self._keys.receive, args)
        except Refused as error:
            if says_group_lost(error):
                raise group_lost(self._group) from error
            raise
        return reply

    def _wait(self, reply: list[Any], left_s: float) -> None:
        """Block until there may be something, something is due, or the time is up."""
        keys = (*self._keys.streams, self._keys.wake)
        if reply[0] == b"paused":
            keys, ids = keys[3:], reply[1:]
        else:
            due_ms, *ids = reply[1:]
            if due_ms >= 0:
                left_s = min(left_s, (due_ms + 1) / 1000)
        left_s = min(left_s, INJECTED_BLOCK_S if self._time.injected else BLOCK_S)
        # BLOCK 0 would mean for ever.
        block_ms = max(1, int(left_s * 1000))
        self._waiting_link.command("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *keys, *ids)

    def _deliveries(self, reply: list[Any]) -> list[Delivery]:
        _, generation_bytes, again, *fresh = reply
        generation = generation_bytes.decode()
        deliveries = [_again(item, generation) for item in again]
        first = f"|1|{generation}"
        for entries, priority in zip(fresh, PRIORITIES, strict=True):
            if entries:
                for position_bytes, body in zip(*entries, strict=True):
                    position = position_bytes.decode()
                    deliveries.append(Delivery(position + first, position, body, 1, (), priority))
        return deliveries


def _again(item: list[Any], generation: str) -> Delivery:
    position_bytes, body, times, failed, history = item
    position = position_bytes.decode()
    return Delivery(
        receipt=f"{position}|{times}|{generation}",
        position=position,
        body=body,
        attempt=failed + 1,
        history=_history_decoder.decode(b"[" + history + b"]"),
        priority=place(position).priority,
    )
