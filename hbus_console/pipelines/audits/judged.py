"""What an audit judges beside topics: whatever the features declare, each in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from engine.core.verdicts import AuditVerdict, worst_of
from hbus_console.registry.judging import AuditCheck, JudgedSpan, JudgedSubject
from hbus_console.registry.loading import features
from hbus_console.registry.names import AUDITS


@dataclass(frozen=True, slots=True)
class JudgedByCheck:
    """What one check says of its subjects."""

    check: AuditCheck
    judgements: Sequence[JudgedSubject]


@cache
def audit_checks() -> Mapping[str, AuditCheck]:
    """Every declared check by its name. Raises ``ConfigurationError`` for two of one name."""
    return AUDITS.by_name(features())


def judge_all(span: JudgedSpan) -> list[JudgedByCheck]:
    """Have each judge. No transaction may be open: it takes its time. Raises what one of them does."""
    return [JudgedByCheck(check, list(check.judge(span))) for check in audit_checks().values()]


def whole_verdict(topics: AuditVerdict, judged: Iterable[JudgedByCheck]) -> AuditVerdict:
    """That of topics, and of what is judged beside them."""
    return worst_of([topics, *(each.verdict for by in judged for each in by.judgements)])
