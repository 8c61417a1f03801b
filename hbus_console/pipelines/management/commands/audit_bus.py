"""``manage.py audit_bus``: what became of every message that the lake has, and whether anything is wrong with it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from engine.core.clock import SystemClock, to_rfc3339
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
from hbus_console.pipelines.audits.exporting import judgement_content
from hbus_console.pipelines.audits.judged import JudgedByCheck, judge_all, whole_verdict
from hbus_console.pipelines.audits.judged_lines import lines_beside
from hbus_console.pipelines.audits.subjects import seen
from hbus_console.registry.judging import JudgedSpan
from hbus_console.ui.formats import counted
from hbus_console.wiring import store
from hbus_console.wiring.spark import spark_session

#: So long a clock may be off, and telling may take.
YOUNG_MS = TELLING_MS + SKEW_MS


class Command(BaseCommand):
    help = "Audit what the lake has of topics, the slots of jobs and the use of quotas. Exit 1: something is wrong."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "topics", nargs="*", help="of these alone; of all that the lake has, of jobs and of quotas unless said"
        )
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
            report, judged = self._audited(actor, options)
        finally:
            store.close()
        verdict = whole_verdict(report.verdict, judged)
        if options["json"]:
            beside = [judgement_content(seen(by.check, each)) for by in judged for each in by.judgements]
            whole = {"verdict": verdict, **msgspec.structs.asdict(report), "judged": beside}
            self.stdout.write(msgspec.json.encode(whole).decode())
        else:
            self.stdout.write("\n".join(_lines(report, judged)))
        if verdict is AuditVerdict.WRONG:
            sys.exit(1)

    def _audited(self, actor: Actor, options: dict[str, Any]) -> tuple[Report, Sequence[JudgedByCheck]]:
        audited = options["topics"], _instant(options, "from"), _instant(options, "to")
        with _execution(spark=options["spark"]) as execute:
            if not options["keep"]:
                report = run_audit(*audited, execute=execute)
                # Who names topics asks about these alone.
                beside = [] if audited[0] else judge_all(JudgedSpan(*audited[1:], SystemClock().now_ms()))
                return report, beside
            kept = audit_at_once(actor, *audited, reason=options["reason"], execute=execute)
        self.stderr.write(f"Audit {kept.row.pk} is kept.")
        return kept.report, kept.judged


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


def _lines(report: Report, judged: Sequence[JudgedByCheck]) -> Iterator[str]:
    if not report.topics:
        yield "The lake has no messages. `manage.py archive on TOPIC --reason …` has a topic archived."
    for topic in report.topics:
        yield from _of_topic(topic)
    yield from lines_beside(judged)
    if not report.topics and not any(by.judgements for by in judged):
        return
    computed = f", {report.computed:,} of them looked through anew" if report.computed else ""
    verdict = whole_verdict(report.verdict, judged)
    yield f"{verdict}: {counted(len(report.topics), 'topic')}, {counted(report.files, 'file')}{computed}."


def _of_topic(topic: TopicAudit) -> Iterator[str]:
    published = "not told how many" if topic.published is None else f"{topic.published.messages:,}"
    share = "" if topic.complete is None else f" ({topic.complete:.4%})"
    came = f"{published} published, {topic.archived.messages:,} archived{share}"
    span = f"From {to_rfc3339(topic.from_ms)} to {to_rfc3339(topic.to_ms)}"
    yield f"{topic.topic}: {topic.verdict}. {span} {came if topic.is_judged else 'not judged yet'}."
    if topic.verdict is AuditVerdict.OPEN:
        yield (
            f"  What came later is judged once the archive has it and it has all its outcomes, or is"
            f" {YOUNG_MS // 60_000} minutes old."
        )
    for each in topic.subscriptions:
        outcomes = ", ".join(f"{count:,} {kind}" for kind, count in sorted(each.outcomes.items())) or "none handled"
        yield f"  {each.name}: {outcomes}, {each.open:,} open{_settled_after(each.settled_after)}"
    if topic.copied:
        into = ", ".join(f"{count:,} into {name}" for name, count in topic.copied_into.items())
        yield f"  {topic.copied:,} were replayed since: {into}"
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
