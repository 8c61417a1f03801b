"""The findings of a report as a table: a row for each finding of each topic. It brings pyarrow: no page imports it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from engine.pipeline.audit.checks import CHECK_OF
from engine.pipeline.audit.report import Report

_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("check", pa.string(), nullable=False),
        pa.field("finding", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("says", pa.string(), nullable=False),
        pa.field("why", pa.string(), nullable=False),
        pa.field("samples", pa.list_(pa.string()), nullable=False),
    ]
)


def findings_parquet(report: Report) -> bytes:
    """All of them, ``samples`` by the ids of their messages, or by where they lie."""
    rows = [
        {
            "topic": topic.topic,
            "verdict": topic.verdict.value,
            "check": CHECK_OF[finding.kind].name,
            "finding": finding.kind.value,
            "severity": finding.severity.value,
            "count": finding.count,
            "subscription": finding.subscription,
            "says": finding.says,
            "why": finding.why,
            "samples": [sample.named for sample in finding.samples],
        }
        for topic in report.topics
        for finding in topic.findings
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink, compression="zstd")
    return bytes(sink.getvalue())
