"""The format ``hbus`` of Spark: a topic as a table, and as a stream of tables; for writing see
:mod:`engine.pipeline.sink.writer`.

Imported by drivers and by Spark's Python workers alone. Options of reading, by name:

``topic``
    Which. ``transport``, ``url`` and ``prefix`` say where, unless the environment does.
``columns``
    Which columns, with commas between them; :data:`~engine.pipeline.source.columns.USUAL` unless said.
``startingOffsets``, ``endingOffsets``
    ``earliest``, ``latest``, or how far each log was read, as JSON. A table ends with ``latest`` unless it says so.
``startingTime``, ``endingTime``
    RFC 3339: what was stored from then on, and before then.
``tasks``
    In how many pieces a table or one batch of a stream is read; as many as this machine has cores unless said.
``maxMessagesPerTrigger``, ``maxSecondsPerTrigger``
    How much one batch of a stream takes: so many messages, or so many seconds of what was stored.
``failOnLoss``
    ``true``: what is gone before it was read ends the query. ``false``: it is a row of its own, ``lost`` says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from engine.bus import Extent, Rereads
from engine.core.errors import BadInput
from engine.pipeline.sink.options import SinkOptions
from engine.pipeline.sink.writer import TopicWriter
from engine.pipeline.source.admission import BatchLimit
from engine.pipeline.source.columns import Columns, ddl_of
from engine.pipeline.source.losses import loss_row
from engine.pipeline.source.opening import opened
from engine.pipeline.source.options import SourceOptions
from engine.pipeline.source.planning import Loss, Portion, ReadPlan, plan
from engine.pipeline.source.pushing import Wanted
from engine.pipeline.source.reached import LogReached, Reached, as_plain, end_of, from_plain
from engine.pipeline.source.reading import MessagesLost, in_pieces, read_portion


class SourceTask(InputPartition):
    """One task's work: a portion to read, or a loss to tell."""

    def __init__(self, portion: Portion | None, loss: Loss | None = None) -> None:
        self.portion = portion
        self.loss = loss


class _Reads:
    """What tables and streams have in common."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.wanted = Wanted()

    def pieces(self, rereads: Rereads, planned: ReadPlan) -> list[InputPartition]:
        """A topic's portions, cut by their time so that every task has about as much to do."""
        options = self.options
        for loss in planned.losses:
            self.on_loss(loss)
        pieces: list[InputPartition] = [SourceTask(None, loss) for loss in planned.losses]
        span = sum(_span(portion) for portion in planned.portions)
        for portion in planned.portions:
            share = round(options.tasks * _span(portion) / span)
            pieces += [SourceTask(part) for part in in_pieces(rereads, options.topic, portion, share)]
        # Spark hands a reader of no task one of its own, which is none of ours.
        return pieces or [SourceTask(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SourceTask)
        options = self.options
        columns = Columns(options.columns)
        found = [] if partition.loss is None else [partition.loss]

        def on_loss(loss: Loss) -> None:
            self.on_loss(loss)
            found.append(loss)

        if partition.portion is not None:
            with opened(options.config) as rereads:
                for batch in read_portion(rereads, options.topic, partition.portion, columns, on_loss):
                    yield self.wanted.of(batch)
        for loss in found:
            # What a filter rules out is ruled out here, also where it has no key that one could compare.
            yield self.wanted.of(loss_row(options.topic, loss, columns.schema))

    def on_loss(self, loss: Loss) -> None:
        if self.options.fail_on_loss:
            raise MessagesLost(self.options.topic, loss)


def _span(portion: Portion) -> int:
    return max(1, portion.until_ms - portion.from_ms)


class TableReader(_Reads, DataSourceReader):
    """A topic as it is when the query is planned."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Instants of ``stored_at`` lead to places; keys and the like are compared before Spark sees a row."""
        self.wanted = Wanted.by(filters, self.options.columns)
        return iter(self.wanted.left)

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        with opened(options.config) as rereads:
            extents = rereads.extents(options.topic)
            after = self._after(rereads, extents)
            upto = self._upto(rereads, extents)
            planned = plan(after, extents, upto)
            if not options.claims_beginning:
                # Who begins with what is there has lost nothing.
                planned = ReadPlan(planned.portions, [], planned.reached)
            return self.pieces(rereads, planned)

    def _after(self, rereads: Rereads, extents: Sequence[Extent]) -> Reached:
        from_ms = max((ms for ms in (self.options.from_ms, self.wanted.from_ms) if ms is not None), default=None)
        if from_ms is None:
            return self.options.starting(extents)
        return _at(rereads, self.options.topic, extents, from_ms)

    def _upto(self, rereads: Rereads, extents: Sequence[Extent]) -> Reached:
        before_ms = min((ms for ms in (self.options.before_ms, self.wanted.before_ms) if ms is not None), default=None)
        if before_ms is None:
            return self.options.ending(extents)
        return _at(rereads, self.options.topic, extents, before_ms)


def _at(rereads: Rereads, topic: str, extents: Sequence[Extent], at_ms: int) -> Reached:
    """The places in all logs that part what was stored before that instant from the rest."""
    return {
        extent.log: LogReached(rereads.place_before(topic, extent.log, at_ms), None, extent.life, at_ms)
        for extent in extents
    }


class StreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic as it grows: what a batch has read is in the checkpoint, by log."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        #: Where a run ends that takes what is there now and no more.
        self._ends: Reached | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with opened(self.options.config) as rereads:
            return as_plain(self.options.starting(rereads.extents(self.options.topic)))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.max_messages
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = self._now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        reached = from_plain(start, field="checkpoint")
        ends = self._ends or self._now()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with opened(self.options.config) as rereads:
            limited = BatchLimit(rereads, self.options.topic, reached, ends)
            if self.options.max_seconds is not None:
                ends = limited.seconds(self.options.max_seconds)
                limited = BatchLimit(rereads, self.options.topic, reached, ends)
            return as_plain(limited.all() if most is None else limited.messages(most))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return as_plain(self._now())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, upto = from_plain(start, field="checkpoint"), from_plain(end, field="checkpoint")
        with opened(self.options.config) as rereads:
            return self.pieces(rereads, plan(before, rereads.extents(self.options.topic), upto))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept for a reader, so nothing is let go: Spark calls this a batch too late, or never."""

    def _now(self) -> Reached:
        with opened(self.options.config) as rereads:
            return {extent.log: end_of(extent) for extent in rereads.extents(self.options.topic)}


def register(spark: Any) -> None:
    """Have a session know the format. It may hand filters down from then on, which it does not by itself."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(HbusSource)


class HbusSource(DataSource):
    """See the module, and :func:`register`."""

    @classmethod
    def name(cls) -> str:
        return "hbus"

    def schema(self) -> str:
        return ddl_of(SourceOptions.of(self.options).columns)

    def reader(self, schema: Any) -> DataSourceReader:
        return TableReader(self._checked(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(self._checked(schema, stream=True))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return TopicWriter(SinkOptions.of(self.options), schema, overwrite=overwrite)

    def _checked(self, schema: Any, *, stream: bool = False) -> SourceOptions:
        options = SourceOptions.of(self.options, stream=stream)
        if tuple(schema.names) != options.columns:
            raise BadInput(
                "A schema of one's own is not taken.", remedy="Name the columns in the option columns.", field="schema"
            )
        return options
