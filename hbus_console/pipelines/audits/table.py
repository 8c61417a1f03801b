"""The findings of an audit as a table: a row for each finding of each topic, and of what was judged beside topics. It
brings pyarrow: no page imports it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.pipeline.audit.checks import CHECK_OF
from engine.pipeline.audit.report import Report
from hbus_console.pipelines.audits.judged import JudgedByCheck

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
        pa.field("subject", pa.string(), nullable=False),
    ]
)


def findings_parquet(report: Report, judged: Iterable[JudgedByCheck] = ()) -> bytes:
    """All of them: ``samples`` by the ids of their messages, or by where they lie; those of what is no topic, of which
    ``topic`` is empty, by the subjects whose pages tell more."""
    rows = [*_of_topics(report), *_of_subjects(judged)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink, compression="zstd")
    return bytes(sink.getvalue())


def _of_topics(report: Report) -> list[dict[str, Any]]:
    return [
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
            "subject": f"topic:{topic.topic}",
        }
        for topic in report.topics
        for finding in topic.findings
    ]


def _of_subjects(judged: Iterable[JudgedByCheck]) -> list[dict[str, Any]]:
    return [
        {
            "topic": "",
            "verdict": each.verdict.value,
            "check": by.check.name,
            "finding": finding.kind,
            "severity": finding.severity.value,
            "count": finding.count,
            "subscription": "",
            "says": finding.says,
            "why": finding.why,
            "samples": [str(sample.subject) for sample in finding.samples],
            "subject": str(each.subject),
        }
        for by in judged
        for each in by.judgements
        for finding in each.findings
    ]
