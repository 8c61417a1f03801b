"""One run of the job that audits. It brings numpy and pyarrow: no page imports it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.clock import Clock, SystemClock, from_rfc3339
from engine.cron.work.call import RunContext
from engine.pipeline.audit.report import Report
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.models import JobRun
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.audits.judged import JudgedByCheck, judge_all, told_beside, whole_verdict
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.audits.table import findings_parquet
from hbus_console.pipelines.the_lake import lake
from hbus_console.registry.judging import JudgedSpan
from hbus_console.ui.formats import counted

_DAY_MS = 86_400_000
#: As a report keeps it, in characters.
_LONGEST_NAME = 150


def audit_and_keep(
    context: RunContext,
    topics: Sequence[str],
    since: str,
    until: str,
    *,
    days: int,
    asked_by: str,
    beside: bool | None = None,
    clock: Clock | None = None,
) -> str:
    """Audit these topics, all where none is named, and write down what came of it; a sentence says it. ``asked_by``:
    see :func:`_asker`. ``beside``: whether also what is judged beside topics; unless said where no topic is named."""
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
    wanted = not topics if beside is None else beside
    judged = judge_all(JudgedSpan(from_ms, to_ms, time.now_ms(), context.raise_if_stopped)) if wanted else []
    took_ms = round((time.monotonic() - began) * 1000)
    number = int(context.call.run)
    asked = AskedAudit(took_ms, _asker(number, asked_by), number, from_ms, to_ms)
    made = keep_report(report, asked, findings_parquet(report, judged), judged)
    return f"Audit {made.pk}: {told(report, judged)}"


def _asker(run: int, said: str) -> str:
    """Who asked for the run, empty for its schedule. Who it is ``said`` to be counts where hbus triggered it itself,
    for somebody whose rights it had looked at: whoever may trigger or change the job says there what they like."""
    found = JobRun.objects.filter(pk=run, kind=JobRun.Kind.MANUAL).values_list("asked_by", flat=True).first() or ""
    # No person and no shell can bear the name.
    return said if found == SYSTEM.name else found[:_LONGEST_NAME]


def told(report: Report, judged: Sequence[JudgedByCheck] = ()) -> str:
    """In one sentence, and what is wrong beside topics."""
    messages = sum(topic.archived.messages for topic in report.topics)
    verdict = whole_verdict(report.verdict, judged)
    return f"{verdict}: {messages:,} messages of {counted(len(report.topics), 'topic')}.{told_beside(judged)}"
