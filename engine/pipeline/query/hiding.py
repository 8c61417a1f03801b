"""Copies of files in which nothing stands that is hidden from who asks: SQL reads these in place of the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.pipeline.lake.schema import SCHEMAS
from engine.pipeline.lake.state import Kind
from engine.pipeline.query.spec import HidingRules, QueryFile

#: What stands for a payload, as JSON text: of the rules, the text of ``data``, or else the bytes of ``data_base64``.
Hide = Callable[[HidingRules, str | None, bytes | None], str | None]
#: Of what is older than its topic nobody knows what it masked.
EVERYTHING = HidingRules(("*",), "unknown", opaque=True)
#: Rows at once.
_BATCH = 8_192
#: What tells values apart that are hidden, beside the payload itself. What a handler said of one may quote it.
_TELLING = ("size", "data_base64", "original", "error")


def hidden_copy(file: QueryFile, made: Path, hide: Hide) -> int:
    """The file with what is hidden by its rules replaced, at ``made``; how many bytes it has."""
    schema = SCHEMAS[file.kind]
    with pq.ParquetFile(file.path) as source, pq.ParquetWriter(made, schema, compression="lz4") as target:
        for batch in source.iter_batches(_BATCH):
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            target.write_table(_hidden(table, file, hide))
    return made.stat().st_size


def _hidden(table: pa.Table, file: QueryFile, hide: Hide) -> pa.Table:
    if file.kind is Kind.MESSAGES:
        table = _put(table, "data", pa.array(_payloads(table, file, hide), pa.string()))
        # Why an envelope cannot be read may quote what stands in it.
        found = pc.if_else(pc.is_valid(table["malformed"]), "It is no envelope.", pa.scalar(None, pa.string()))
        table = _put(table, "malformed", found)
    for name in _TELLING:
        if name in table.column_names:
            table = _put(table, name, pa.nulls(table.num_rows, table.schema.field(name).type))
    return table


def _payloads(table: pa.Table, file: QueryFile, hide: Hide) -> list[str | None]:
    stored = table["stored_at"].cast(pa.int64()).to_pylist()
    rows = zip(stored, table["data"].to_pylist(), table["data_base64"].to_pylist(), strict=True)
    return [
        hide(file.hides if file.hides and at is not None and at >= file.since_ms * 1000 else EVERYTHING, data, raw)
        for at, data, raw in rows
    ]


def _put(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
