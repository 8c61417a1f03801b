"""An audit that is made here and now by whoever asks, and kept as those of the job are. It brings numpy, pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.pipeline.audit.report import Report
from engine.pipeline.audit.tasks import ExecuteSides
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record_all
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.audits.asking import audits_told
from hbus_console.pipelines.audits.judged import JudgedByCheck, judge_all
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.audits.table import findings_parquet
from hbus_console.pipelines.feature import AUDIT_RUN
from hbus_console.pipelines.models import BusAudit
from hbus_console.registry.judging import JudgedSpan


@dataclass(frozen=True, slots=True)
class KeptAudit:
    """What it says, and the row that keeps it."""

    report: Report
    judged: Sequence[JudgedByCheck]
    row: BusAudit


def audit_at_once(
    actor: Actor,
    topics: Sequence[str],
    from_ms: int | None = None,
    to_ms: int | None = None,
    *,
    reason: str,
    execute: ExecuteSides | None = None,
    clock: Clock | None = None,
) -> KeptAudit:
    """Of these topics; of all that the lake has, and of what is judged beside them, where none is named. Raises
    ``Forbidden`` for one that ``actor`` may not have audited, and as
    :func:`~hbus_console.pipelines.auditing.run_audit`."""
    for name in topics or [""]:
        require(actor, AUDIT_RUN, name)
    reason = checks.reason(reason)
    time = clock or SystemClock()
    began = time.monotonic()
    report = run_audit(topics, from_ms, to_ms, execute=execute, clock=time)
    span = JudgedSpan(from_ms, to_ms, time.now_ms())
    judged = [] if topics else judge_all(span)
    took_ms = round((time.monotonic() - began) * 1000)
    findings = findings_parquet(report, judged)
    with transaction.atomic():
        row = keep_report(report, AskedAudit(took_ms, actor.name, None, from_ms, to_ms), findings, judged)
        record_all(actor, "bus-audit.run", audits_told(topics, {"audit": row.pk}), reason=reason)
    return KeptAudit(report, judged, row)
