"""What Spark calls to write a table into a topic. Options, by name:

``topic``
    Which. ``transport``, ``url`` and ``prefix`` say where, unless the environment does.
``writeId``
    The name of this write, needed: what was written under it is not written again, however often the job is run.
``order``
    ``key``: each key's rows come from one task, in their order there; a job of which two tasks have rows of one key
    fails. ``none``: nobody asks for an order.
``malformed``
    ``fail``: a row that is no envelope ends the job. ``skip``: it is left out, and counted.
``rememberHours``
    For how long at least the store remembers what was written under the id; 24 unless said.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from engine.bus import BusConfig, Lane, PublishesInBulk, Transport, open_transport
from engine.core.clock import SystemClock
from engine.core.errors import BadInput, ConfigurationError
from engine.core.ids import new_id
from engine.pipeline.sink.envelopes import taken
from engine.pipeline.sink.options import SinkOptions
from engine.pipeline.sink.writing import Counts, TaskWriting
from engine.pipeline.source.columns import COLUMNS

_HOUR_MS = 3_600_000


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task has done."""

    counts: Counts


class TopicWriter(DataSourceArrowWriter):
    """One run of one write. Made in the driver, sent to every task."""

    def __init__(self, options: SinkOptions, schema: Any, *, overwrite: bool) -> None:
        if overwrite:
            raise BadInput(
                "A topic is not overwritten: what was published was published.",
                remedy='Write with mode("append").',
                field="mode",
            )
        self._options = options
        self._columns = taken({field.name: field.dataType.simpleString() for field in schema})
        self._run = new_id(SystemClock().now_ms())
        # Here, before any task begins.
        _opened(options.config)[0].close()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        options, context = self._options, TaskContext.get()
        assert context is not None
        # By the number of its part, which whoever tries again what this one left shares with it.
        lane = Lane(options.write_id, self._run, str(context.partitionId()), options.remember_hours * _HOUR_MS)
        transport, bulk = _opened(options.config)
        try:
            writing = TaskWriting(
                bulk,
                options.topic,
                lane,
                SystemClock(),
                in_order=options.in_order,
                skip_malformed=options.skip_malformed,
            )
            writing.write(_just(self._columns, table) for table in iterator)
            return TaskWritten(writing.counts)
        finally:
            transport.close()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Tell the driver's log what was done; all of it is in the topic already."""
        sys.stderr.write(f"{told(self._options, messages)}\n")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        sys.stderr.write(
            f"hbus: {self._options.topic}: the write {self._options.write_id!r} is not whole. What it wrote is"
            " published and stays; run again under the same writeId, it adds what is missing.\n"
        )


def told(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> str:
    """What a whole write has done, in one line."""
    counts = [message.counts for message in messages if isinstance(message, TaskWritten)]
    stored, known, malformed = (
        sum(getattr(each, name) for each in counts) for name in ("stored", "known", "malformed")
    )
    return (
        f"hbus: {options.topic}: the write {options.write_id!r} stored {stored:,} messages; {known:,} were there"
        f" already, {malformed:,} malformed rows were left out."
    )


def _opened(config: BusConfig) -> tuple[Transport, PublishesInBulk]:
    transport = open_transport(config)
    if not isinstance(transport, PublishesInBulk):
        transport.close()
        raise ConfigurationError(
            f"The transport {config.type} cannot publish a write once: rows would be doubled by each task that is tried"
            " again.",
            remedy="Write to a topic of a transport that publishes in bulk, such as redis_stream.",
            field="transport",
        )
    return transport, transport


def _just(columns: Sequence[str], table: pa.RecordBatch) -> pa.RecordBatch:
    """Of these columns, in the types that are read, however Spark has sent them."""
    return pa.RecordBatch.from_arrays([table.column(name).cast(COLUMNS[name]) for name in columns], list(columns))
