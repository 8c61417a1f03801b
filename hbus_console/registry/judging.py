"""What a feature has an audit of the bus judge beside topics, and how it says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from engine.core.subject import Subject
from engine.core.verdicts import AuditVerdict, FindingForm, Severity
from hbus_console.access.permissions import GLOBAL

#: Things that one finding names, and characters of what is said of one and of why.
MOST_SAMPLES, MOST_SAID = 5, 500
#: Who sees it sees everything.
EVERYTHING = GLOBAL


class JudgedSample(msgspec.Struct, frozen=True, gc=False):
    """One thing that a finding is about."""

    says: str
    #: When it happened, or was to happen; epoch milliseconds.
    at_ms: int
    #: Whose page tells more.
    subject: Subject


class JudgedFinding(msgspec.Struct, frozen=True, gc=False):
    #: One of :attr:`AuditCheck.forms`.
    kind: str
    severity: Severity
    count: int
    #: As the form of that kind says it.
    says: str
    #: Of what is explained: by what.
    why: str = ""
    samples: Sequence[JudgedSample] = ()


class JudgedSubject(msgspec.Struct, frozen=True, gc=False):
    """What a check says of one subject."""

    subject: Subject
    #: Who sees the whole of this sees it: a namespace (``hotels.close``), all in one (``hotels.*``), or
    #: :data:`EVERYTHING`. Alerts are seen by the namespace of the subject, so that is this one, or empty.
    scope: str
    verdict: AuditVerdict
    #: What was judged of the span: from the first moment to below the second, epoch milliseconds.
    from_ms: int
    to_ms: int
    #: How many things of it were looked at, such as slots.
    judged: int
    #: Those that are wrong first.
    findings: Sequence[JudgedFinding] = ()

    def __post_init__(self) -> None:
        """Raises ``ValueError`` where an alert about it would be seen by who may not see what it says."""
        if self.subject.namespace not in ("", self.scope):
            raise ValueError(f"{self.subject} lies in another namespace than its scope {self.scope}")


@dataclass(frozen=True)
class JudgedSpan:
    """What an audit looks at."""

    #: ``None``: from the first that is kept, and to the last that can be judged.
    from_ms: int | None
    to_ms: int | None
    #: When it is looked at.
    now_ms: int
    #: To be called between pieces of the work: it raises where the audit is to stop.
    go_on: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False)
class AuditCheck:
    """One question, and who answers it."""

    name: str
    title: str
    #: The kind of its subjects, as they name it; an alert rule can watch all of that kind.
    subject_kind: str
    #: What one of its subjects is called, and several: ``job``, ``jobs``.
    one: str
    many: str
    #: What is said where nothing was found, with ``{count}`` of what was looked at and ``{subjects}``; and where
    #: nothing was looked at.
    clean: str
    nothing: str
    #: What it may find, by its kind, those that matter most first.
    forms: Mapping[str, FindingForm]
    #: One judgement for each subject that has something to be judged. It reads in small pieces, holds no lock, and
    #: takes time that does not grow without bound: what it leaves out, it says.
    judge: Callable[[JudgedSpan], Iterable[JudgedSubject]]

    def counted(self, subjects: int) -> str:
        """``3 jobs``."""
        return f"{subjects:,} {self.one if subjects == 1 else self.many}"

    def finding(self, kind: str, count: int, why: str = "", samples: Sequence[JudgedSample] = ()) -> JudgedFinding:
        """Of that kind, with the first few of ``samples``."""
        form = self.forms[kind]
        return JudgedFinding(kind, form.severity, count, form.says(count), why[:MOST_SAID], samples[:MOST_SAMPLES])
