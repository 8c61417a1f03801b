"""The program that reads a sample of a span: see :mod:`~engine.pipeline.replay.sampling`, which starts it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.bus import encode
from engine.core.prepared import prepared
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.reading import read_checked
from engine.pipeline.lake.schema import READ
from engine.pipeline.lake.state import LakeFile
from engine.pipeline.replay.sampling import SampleAsked, SampledRow, SpanSample
from engine.pipeline.replay.span import order_of
from engine.pipeline.replay.spool import in_span
from engine.pipeline.sink.envelopes import messages_of


def newest(asked: SampleAsked) -> SpanSample:
    """Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    rows: list[SampledRow] = []
    for number, file in enumerate(sorted(asked.files, key=lambda file: file.last_ms, reverse=True)):
        if len(rows) == asked.most and file.last_ms < rows[-1].at_ms:
            break
        if number == asked.most_files:
            return SpanSample(rows, exact=False)
        found = sorted((*rows, *_of_file(asked, file)), key=lambda row: order_of(row.at_ms, row.position), reverse=True)
        rows = found[: asked.most]
    return SpanSample(rows)


def _of_file(asked: SampleAsked, file: LakeFile) -> Iterator[SampledRow]:
    table = read_checked(Path(asked.root), file, READ).filter(in_span(asked.span))
    stored = table["stored_at"].cast(pa.int64())
    edge = pc.sort_indices(stored, sort_keys=[("", "descending")])[: asked.most]
    if len(edge) == asked.most:
        # Of one instant the numbers in their positions say which came first.
        table = table.filter(pc.greater_equal(stored, stored[edge[-1].as_py()]))
    orders = [
        order_of(at_us // 1000, position)
        for at_us, position in zip(
            table["stored_at"].cast(pa.int64()).to_pylist(), table["position"].to_pylist(), strict=True
        )
    ]
    order = pa.array(sorted(range(len(orders)), key=orders.__getitem__, reverse=True)[: asked.most], pa.int64())
    for batch in table.take(order).combine_chunks().to_batches():
        moments = [at_us // 1000 for at_us in batch.column("stored_at").cast(pa.int64()).to_pylist()]
        places = batch.column("position").to_pylist()
        for position, at_ms, message in zip(places, moments, messages_of(batch), strict=True):
            yield SampledRow(position, at_ms, None if message is None else encode(message))


if __name__ == "__main__":
    try:
        answer = newest(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=prepared(SampleAsked)))
    except LakeDamaged as error:
        answer = SpanSample([], damage=(error.what, error.remedy))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
