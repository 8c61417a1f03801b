"""One task's part of a write: tables in, messages in the topic, each once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from engine.bus import (
    KeyOfAnotherLane,
    Lane,
    Outgoing,
    Partitioned,
    Priority,
    PublishesInBulk,
    partition_of,
)
from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.pipeline.sink.envelopes import Envelopes, envelopes_of, refuse_malformed, with_malformed_left_out
from engine.pipeline.sink.errors import KeyInTwoTasks, RowRefused, StoreRefused

T = TypeVar("T")

#: How many go to the store in one call.
AT_ONCE = 500
#: How much of a table is made into envelopes at once, in bytes of the table.
PIECE_BYTES = 32 * 1024 * 1024
#: How long a store that is away is waited for, seconds.
PATIENCE_S = 30.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


@dataclass(slots=True)
class Counts:
    """What became of rows."""

    stored: int = 0
    #: In the topic under this write already. Of a call whose answer was lost all that it stored counts here.
    known: int = 0
    malformed: int = 0


class TaskWriting:
    """Writes tables as one lane. Not thread-safe."""

    def __init__(
        self,
        transport: PublishesInBulk,
        topic: str,
        lane: Lane,
        clock: Clock,
        *,
        in_order: bool,
        skip_malformed: bool,
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._lane = lane
        self._clock = clock
        self._in_order = in_order
        self._skip_malformed = skip_malformed
        self._partitions = self._patiently(partial(_partitions, transport, topic))
        #: Ordering keys that the store knows to be ours.
        self._named: set[str] = set()
        self.counts = Counts()

    def write(self, tables: Iterable[pa.RecordBatch]) -> None:
        """All of them, in order.

        Raises :class:`RowRefused`, :class:`StoreRefused`, :class:`KeyInTwoTasks`, and ``Unavailable`` for a store that
        is away for longer than :data:`PATIENCE_S`. What was written before stays.
        """
        for table in tables:
            rows = max(1, min(len(table), PIECE_BYTES * len(table) // max(1, table.nbytes)))
            for start in range(0, len(table), rows):
                self._write(table.slice(start, rows))

    def _write(self, table: pa.RecordBatch) -> None:
        if self._skip_malformed:
            whole = len(table)
            table = with_malformed_left_out(table)
            self.counts.malformed += whole - len(table)
        else:
            refuse_malformed(table)
        if not len(table):
            return
        batch = self._outgoing(found := envelopes_of(table, self._clock.now_ms()))
        for start in range(0, len(batch), AT_ONCE):
            beyond = start + AT_ONCE
            self._publish(batch[start:beyond], [key or "" for key in found.partitionkeys[start:beyond]])

    def _outgoing(self, found: Envelopes) -> list[Outgoing]:
        # Neither may hold the end of a line, so no two of these are the same.
        names = [f"{source}\n{of}" for source, of in zip(found.sources, found.ids, strict=True)]
        if self._partitions == 1:
            usual = Priority.NORMAL
            return [
                Outgoing(of, body, Priority(priority) if priority else usual, name)
                for of, body, priority, name in zip(found.ids, found.bodies, found.priorities, names, strict=True)
            ]
        for of, priority in zip(found.ids, found.priorities, strict=True):
            if priority not in (None, Priority.NORMAL):
                raise RowRefused(
                    of,
                    "its topic is ordered by key in partitions, which know no priorities.",
                    "Take its hbuspriority away.",
                    "hbuspriority",
                )
        return [
            Outgoing(of, body, idempotency_key=name, partition=partition_of(key or "", of, self._partitions))
            for of, body, key, name in zip(found.ids, found.bodies, found.partitionkeys, names, strict=True)
        ]

    def _publish(self, batch: list[Outgoing], keys: list[str]) -> None:
        named = [key if key not in self._named else "" for key in keys] if self._in_order else []
        try:
            # Under the same names while nobody knows what was stored.
            answer = self._patiently(partial(self._transport.publish_bulk, self._topic, self._lane, batch, named))
        except KeyOfAnotherLane as error:
            raise KeyInTwoTasks(error.key) from error
        self._named.update(named)
        self.counts.stored += answer.stored
        self.counts.known += answer.known
        if answer.error:
            raise StoreRefused(batch[answer.done].message_id, answer.error, answer.remedy)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """What it answers, asked again while the store is away."""
        pause_s, until = FIRST_PAUSE_S, self._clock.monotonic() + PATIENCE_S
        while True:
            try:
                return ask()
            except Unavailable:
                if self._clock.monotonic() >= until:
                    raise
                self._clock.wait(threading.Event(), pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _partitions(transport: PublishesInBulk, topic: str) -> int:
    return transport.partitions(topic) if isinstance(transport, Partitioned) else 1
