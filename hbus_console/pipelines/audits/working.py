"""One run of the job that audits. It brings numpy and pyarrow: no page imports it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.clock import Clock, SystemClock, from_rfc3339
from engine.cron.work.call import RunContext
from engine.pipeline.audit.report import Report
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.audits.table import findings_parquet
from hbus_console.pipelines.the_lake import lake
from hbus_console.ui.formats import counted

_DAY_MS = 86_400_000


def audit_and_keep(
    context: RunContext,
    topics: Sequence[str],
    since: str,
    until: str,
    *,
    days: int,
    asked_by: str,
    clock: Clock | None = None,
) -> str:
    """Audit these topics, all where none is named, and write down what came of it; a sentence says it."""
    time = clock or SystemClock()
    began = time.monotonic()
    from_ms = from_rfc3339(since) if since else None
    if from_ms is None and days > 0:
        from_ms = time.now_ms() - days * _DAY_MS
    to_ms = from_rfc3339(until) if until else None
    # What was let go of since they were named, by retention or an erasure, is no reason to audit nothing.
    there = lake().state().topics
    named = [name for name in topics if name in there]
    if topics and not named:
        return "The lake has nothing any more of what was to be audited."
    report = run_audit(named, from_ms, to_ms, go_on=context.raise_if_stopped, clock=time)
    took_ms = round((time.monotonic() - began) * 1000)
    made = keep_report(
        report, AskedAudit(took_ms, asked_by, int(context.call.run), from_ms, to_ms), findings_parquet(report)
    )
    return f"Audit {made.pk}: {told(report)}"


def told(report: Report) -> str:
    """In one sentence."""
    messages = sum(topic.archived.messages for topic in report.topics)
    return f"{report.verdict}: {messages:,} messages of {counted(len(report.topics), 'topic')}."
