"""One file of the lake in the order of storing: its rows lie sorted by their keys.

All of a file is in memory once, while it is brought into order; then its rows lie in a nameless file beside the lake
and a few at a time are read from there. It is gone with whoever holds it, however that ends.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from engine.bus import Message
from engine.pipeline.lake.reading import read_checked
from engine.pipeline.lake.schema import READ
from engine.pipeline.lake.state import LakeFile
from engine.pipeline.replay.span import Order, ReplaySpan, order_of
from engine.pipeline.sink.envelopes import messages_of

#: How many rows are made into messages at once.
AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One message of a span; ``message`` is ``None`` where it was no envelope."""

    log: str
    position: str
    at_ms: int
    message: Message | None

    @property
    def order(self) -> Order:
        return order_of(self.at_ms, self.position)


class Spool:
    """The rows of one file that are in a span. Not thread-safe; whoever makes one closes it."""

    def __init__(self, root: Path, file: LakeFile, span: ReplaySpan) -> None:
        """Raises :class:`~engine.pipeline.lake.errors.LakeDamaged` and ``OSError``."""
        # In one piece, of which any few rows are taken at once.
        table = read_checked(root, file, READ).filter(in_span(span)).combine_chunks()
        orders = [
            order_of(at_us // 1000, position)
            for at_us, position in zip(
                table["stored_at"].cast(pa.int64()).to_pylist(), table["position"].to_pylist(), strict=True
            )
        ]
        sorted_rows = sorted(range(len(orders)), key=orders.__getitem__)
        self._log = file.log
        #: Where each batch begins.
        self._begins = [orders[row] for row in sorted_rows[::AT_ONCE]]
        #: Of its last row; ``None``: nothing of the file is in the span.
        self.last = orders[sorted_rows[-1]] if sorted_rows else None
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=root)  # noqa: SIM115 - it lives as long as this
        with pa.ipc.new_file(self._file, table.schema) as writer:
            batches = table.to_batches()
            for start in range(0, len(sorted_rows), AT_ONCE):
                writer.write_batch(batches[0].take(pa.array(sorted_rows[start : start + AT_ONCE], pa.int64())))
        self._reader = pa.ipc.open_file(self._file)

    def after(self, order: Order | None) -> Iterator[ReplayRow]:
        """Those beyond a place, or all."""
        first = max(0, bisect_right(self._begins, order) - 1) if order is not None else 0
        for number in range(first, len(self._begins)):
            for row in self._rows(number):
                if order is None or row.order > order:
                    yield row

    def _rows(self, number: int) -> Iterator[ReplayRow]:
        batch = self._reader.get_batch(number)
        moments = [at_us // 1000 for at_us in batch.column("stored_at").cast(pa.int64()).to_pylist()]
        positions = batch.column("position").to_pylist()
        for position, at_ms, message in zip(positions, moments, messages_of(batch), strict=True):
            yield ReplayRow(self._log, position, at_ms, message)

    def close(self) -> None:
        self._file.close()


def in_span(span: ReplaySpan) -> pc.Expression:
    """Of a file's rows those that belong to it."""
    stored = pc.field("stored_at").cast(pa.int64())
    found = (stored >= span.from_ms * 1000) & (stored < span.to_ms * 1000)
    return found & (pc.field("partitionkey") == span.key) if span.key else found
