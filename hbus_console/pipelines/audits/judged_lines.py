"""What an audit says beside topics, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.core.clock import to_rfc3339
from hbus_console.pipelines.audits.judged import JudgedByCheck
from hbus_console.pipelines.audits.subjects import answers_of, seen
from hbus_console.registry.judging import JudgedSubject


def lines_beside(judged: Iterable[JudgedByCheck]) -> Iterator[str]:
    """Of each check what it found, then each job, policy or the like of which there is something to tell."""
    for by in judged:
        for answer in answers_of(seen(by.check, each) for each in by.judgements):
            yield f"{answer.check.title}: {'; '.join(answer.says)}."
        for each in by.judgements:
            if each.findings:
                yield from _of_one(each)


def _of_one(its: JudgedSubject) -> Iterator[str]:
    span = f"From {to_rfc3339(its.from_ms)} to {to_rfc3339(its.to_ms)}"
    yield f"  {its.subject}: {its.verdict}. {span} {its.judged:,} judged."
    for finding in its.findings:
        why = f": {finding.why}" if finding.why else ""
        yield f"    {finding.severity}: {finding.says}{why}"
        for sample in finding.samples:
            yield f"      {to_rfc3339(sample.at_ms)} {sample.says}, {sample.subject}"
