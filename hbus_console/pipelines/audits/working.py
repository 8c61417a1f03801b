"""One run of the job that audits. It brings numpy and pyarrow: no page imports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.clock import Clock, SystemClock, from_rfc3339
from engine.cron.work.call import Hopeless, RunContext
from hbus_console.jobs.models import JobRun
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.audits.judged import judge_all
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.audits.table import findings_parquet
from hbus_console.pipelines.models import AskedBusAudit
from hbus_console.pipelines.the_lake import lake
from hbus_console.registry.judging import JudgedSpan

_DAY_MS = 86_400_000
#: As a report keeps it, in characters.
_LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class AuditOfRun:
    """Of these topics, of all where none is named; ``beside``: also of what is judged beside topics. ``asked_by``:
    empty, where whoever triggered the run is who asked."""

    topics: Sequence[str] = ()
    since: str = ""
    until: str = ""
    days: int = 0
    beside: bool = True
    asked_by: str = ""


def audit_asked(context: RunContext, number: int) -> str:
    """What somebody asked for, whose rights were looked at then. No run has it made but the one that was triggered for
    it: whoever may trigger the job may not name topics so."""
    asked = AskedBusAudit.objects.filter(pk=number, run=int(context.call.run)).first()
    if asked is None:
        raise Hopeless("no audit was asked for that this run makes: ask on the page of the audits, or over HTTP")
    return audit_and_keep(
        context,
        AuditOfRun(asked.topics, asked.since, asked.until, beside=asked.beside, asked_by=asked.asked_by),
    )


def audit_and_keep(context: RunContext, wanted: AuditOfRun, clock: Clock | None = None) -> str:
    """Audit it, and write down what came of it. A sentence says that it is made, and nothing of what it found: whoever
    reads of the run may not see the topics."""
    time = clock or SystemClock()
    began = time.monotonic()
    from_ms = from_rfc3339(wanted.since) if wanted.since else None
    if from_ms is None and wanted.days > 0:
        from_ms = time.now_ms() - wanted.days * _DAY_MS
    to_ms = from_rfc3339(wanted.until) if wanted.until else None
    # What was let go of since they were named, by retention or an erasure, is no reason to audit nothing.
    there = lake().state().topics
    named = [name for name in wanted.topics if name in there]
    if wanted.topics and not named:
        return "The lake has nothing any more of what was to be audited."
    report = run_audit(named, from_ms, to_ms, go_on=context.raise_if_stopped, clock=time)
    span = JudgedSpan(from_ms, to_ms, time.now_ms(), context.raise_if_stopped)
    judged = judge_all(span) if wanted.beside else []
    took_ms = round((time.monotonic() - began) * 1000)
    number = int(context.call.run)
    asked = AskedAudit(took_ms, wanted.asked_by or _asker(number), number, from_ms, to_ms)
    made = keep_report(report, asked, findings_parquet(report, judged), judged)
    return f"Audit {made.pk} is made: its page tells everybody what it found of what they may see."


def _asker(run: int) -> str:
    """Who triggered the run, empty for its schedule."""
    found = JobRun.objects.filter(pk=run, kind=JobRun.Kind.MANUAL).values_list("asked_by", flat=True).first() or ""
    return found[:_LONGEST_NAME]
