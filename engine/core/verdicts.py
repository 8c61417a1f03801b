"""What an audit concludes: how bad a finding is, the sentence it is told by, and the verdict of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    #: Somebody has to look at it.
    WRONG = "wrong"
    #: It is not as one would expect, and something that was recorded says why.
    EXPLAINED = "explained"
    #: As it may be; told because one may want to know.
    NOTICE = "notice"


class AuditVerdict(StrEnum):
    CLEAN = "clean"
    #: What is not as it should be has a reason that was recorded.
    EXPLAINED = "explained"
    WRONG = "wrong"
    #: Nothing is wrong so far, and not everything is there yet.
    OPEN = "open"

    def says_anything(self, messages: int) -> bool:
        """Of something with so many messages that are judged. Of what is open and has none nobody knows yet what
        happened."""
        return self is not AuditVerdict.OPEN or messages > 0


WORST_FIRST = (AuditVerdict.WRONG, AuditVerdict.OPEN, AuditVerdict.EXPLAINED, AuditVerdict.CLEAN)


@dataclass(frozen=True, slots=True)
class FindingForm:
    severity: Severity
    #: Of several, with ``{count}``; and of one.
    several: str
    one: str

    def says(self, count: int) -> str:
        """The sentence."""
        return self.one if count == 1 else self.several.format(count=f"{count:,}")


def worst_of(verdicts: Iterable[AuditVerdict]) -> AuditVerdict:
    """Of several things together; of none it is clean."""
    said = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in said), AuditVerdict.CLEAN)


def verdict_of(severities: Iterable[Severity], *, is_open: bool) -> AuditVerdict:
    """Of one thing with these findings; ``is_open``: not all of it could be judged yet."""
    said = set(severities)
    if Severity.WRONG in said:
        return AuditVerdict.WRONG
    if is_open:
        return AuditVerdict.OPEN
    return AuditVerdict.EXPLAINED if Severity.EXPLAINED in said else AuditVerdict.CLEAN
