"""``manage.py audit_bus``: what became of every message that the lake has, and whether anything is wrong with it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from engine.core.clock import to_rfc3339
from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.closing import TELLING_MS
from engine.pipeline.audit.findings import Finding, FindingKind
from engine.pipeline.audit.percentiles import Percentiles
from engine.pipeline.audit.report import Report, TopicAudit
from engine.pipeline.audit.summing import SKEW_MS
from engine.pipeline.audit.tasks import ExecuteSides, run_side_task
from engine.pipeline.on_spark import on_spark
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.command_line import command_line_actor
from hbus_console.access.permissions import Actor, require
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.audits.at_once import audit_at_once
from hbus_console.ui.formats import counted
from hbus_console.wiring import store
from hbus_console.wiring.spark import spark_session

#: So long a clock may be off, and telling may take.
YOUNG_MS = TELLING_MS + SKEW_MS


class Command(BaseCommand):
    help = "Audit what the lake has of topics. Exit 1: something is wrong."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("topics", nargs="*", help="of these alone; of all that the lake has unless said")
        parser.add_argument(
            "--from", default="", metavar="INSTANT", help="RFC 3339; from the first message unless said"
        )
        parser.add_argument("--to", default="", metavar="INSTANT", help="up to what can be judged unless said")
        parser.add_argument(
            "--spark", action="store_true", help="on Spark, at HBUS_SPARK_MASTER, and not in this process"
        )
        parser.add_argument("--keep", action="store_true", help="keep it, as the page Audits shows it")
        parser.add_argument("--reason", default="", help="of --keep, for the audit log")
        parser.add_argument("--json", action="store_true", help="the whole report, as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = command_line_actor()
        require(actor, VIEW)
        try:
            report = self._report(actor, options)
        finally:
            store.close()
        if options["json"]:
            whole = {"verdict": report.verdict, **msgspec.structs.asdict(report)}
            self.stdout.write(msgspec.json.encode(whole).decode())
        else:
            self.stdout.write("\n".join(_lines(report)))
        if report.verdict is AuditVerdict.WRONG:
            sys.exit(1)

    def _report(self, actor: Actor, options: dict[str, Any]) -> Report:
        audited = options["topics"], _instant(options, "from"), _instant(options, "to")
        with _execution(spark=options["spark"]) as execute:
            if not options["keep"]:
                return run_audit(*audited, execute=execute)
            kept = audit_at_once(actor, *audited, reason=options["reason"], execute=execute)
        self.stderr.write(f"Audit {kept.row.pk} is kept.")
        return kept.report


@contextmanager
def _execution(*, spark: bool) -> Iterator[ExecuteSides | None]:
    if not spark:
        yield None
        return
    with spark_session("hbus audit") as session:
        yield on_spark(session, run_side_task)


def _instant(options: dict[str, Any], name: str) -> int | None:
    said: str = options[name]
    return checks.instant(said, f"--{name}") if said else None


def _lines(report: Report) -> Iterator[str]:
    if not report.topics:
        yield "The lake has no messages. `manage.py archive on TOPIC --reason …` has a topic archived."
        return
    for topic in report.topics:
        yield from _of_topic(topic)
    computed = f", {report.computed:,} of them looked through anew" if report.computed else ""
    yield f"{report.verdict}: {counted(len(report.topics), 'topic')}, {counted(report.files, 'file')}{computed}."


def _of_topic(topic: TopicAudit) -> Iterator[str]:
    published = "not told how many" if topic.published is None else f"{topic.published.messages:,}"
    share = "" if topic.complete is None else f" ({topic.complete:.4%})"
    yield (
        f"{topic.topic}: {topic.verdict}. From {to_rfc3339(topic.from_ms)} to {to_rfc3339(topic.to_ms)}"
        f" {published} published, {topic.archived.messages:,} archived{share}."
    )
    if topic.verdict is AuditVerdict.OPEN:
        yield (
            f"  What came later is judged once the archive has it and it has all its outcomes, or is"
            f" {YOUNG_MS // 60_000} minutes old."
        )
    for each in topic.subscriptions:
        outcomes = ", ".join(f"{count:,} {kind}" for kind, count in sorted(each.outcomes.items())) or "none handled"
        yield f"  {each.name}: {outcomes}, {each.open:,} open{_settled_after(each.settled_after)}"
    for finding in topic.findings:
        yield from _finding(finding)


def _settled_after(durations: Percentiles) -> str:
    if durations.p50 is None or durations.p99 is None:
        return ""
    return f"; settled after {durations.p50:,.0f} ms, 99 of 100 within {durations.p99:,.0f} ms"


def _finding(finding: Finding) -> Iterator[str]:
    of = f" ({finding.subscription})" if finding.subscription else ""
    why = f", {finding.why}" if finding.why else ""
    yield f"  {finding.severity}: {finding.says}{why}{of}"
    for sample in finding.samples:
        note = f", {sample.note}" if sample.note else ""
        if finding.kind is FindingKind.LOSS:
            yield f"    after {sample.named or 'the beginning'}{note}"
        elif sample.named and not sample.id:
            yield f"    at {sample.named}{note}"
        else:
            yield f"    {sample.id or 'without an id'} of {sample.source or 'an unknown source'}{note}"
