"""Audits as one person sees them: of the topics that they may see, and of no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Sum

from engine.core.error_text import shortened
from engine.core.errors import NotThere
from engine.core.verdicts import WORST_FIRST, AuditVerdict, Severity, worst_of
from engine.pipeline.audit.checks import CHECKS, Check
from engine.pipeline.audit.findings import FORMS, FindingKind
from engine.pipeline.audit.percentiles import Percentiles, merged
from engine.pipeline.audit.report import TopicAudit
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.database import in_batches
from hbus_console.pipelines.audits.copies_seen import copies_seen
from hbus_console.pipelines.audits.keeping import unpacked
from hbus_console.pipelines.audits.reserve import reserved_report, reserved_summary, reserved_topics, tells_of_payloads
from hbus_console.pipelines.audits.subjects import (
    SeenSubject,
    SubjectAnswer,
    answers_of,
    known_q,
    seen_q,
    seen_subjects,
)
from hbus_console.pipelines.audits.summary import SubscriptionReach, TopicSummary, read_summary
from hbus_console.pipelines.audits.verdict_words import ICONS, TONES, WORST, WithVerdict
from hbus_console.pipelines.models import AuditedSubject, AuditedTopic, BusAudit


@dataclass(frozen=True, slots=True)
class ListedAudit(WithVerdict):
    """One line of the list."""

    audit: BusAudit
    verdict: AuditVerdict
    topics: int
    archived: int
    #: Of how many topics something is wrong.
    wrong: int
    #: Of how many things beside topics it says something, and of how many that something is wrong.
    subjects: int
    wrong_subjects: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What one check found, over all topics."""

    check: Check
    #: One sentence for each kind that was found, those that are wrong first.
    says: Sequence[str]
    count: int
    tone: str
    topics: int

    @property
    def found(self) -> bool:
        return bool(self.count or self.topics)

    @property
    def icon(self) -> tuple[str, str]:
        """Its name, and what it says."""
        return ICONS[self.tone]


@dataclass(frozen=True, slots=True)
class AlsoSaid:
    """What an audit says that no check has found: it stands below their answers."""

    title: str
    says: str
    count: int
    tone: str

    @property
    def icon(self) -> tuple[str, str]:
        """Its name, and what it says."""
        return ICONS[self.tone]


@dataclass(frozen=True, slots=True)
class TopicLine(WithVerdict):
    """One topic of an audit."""

    row: AuditedTopic
    #: How many findings of it there are, and how many of its messages were replayed since.
    found: int
    copied: int

    @property
    def verdict(self) -> AuditVerdict:
        return AuditVerdict(self.row.verdict)


@dataclass(frozen=True, slots=True)
class Tier:
    """How many messages came to one place."""

    name: str
    messages: int
    #: What part of what was to come there, 0 to 1; ``None``: nobody knows.
    complete: float | None
    #: How many of what was to come are not there; copies and what is no envelope are among ``messages``.
    missing: int = 0
    #: What these are called: of a subscription they are there, and have no outcome.
    word: str = "missing"

    @property
    def tone(self) -> str:
        """``ok`` only where nothing is missing: 99.9999 % is not all."""
        return "" if self.complete is None else "ok" if self.complete >= 1 else "warn"

    @property
    def percent(self) -> str:
        """Rounded down, so that what is not whole never looks so."""
        if self.complete is None:
            return ""
        return "100 %" if self.complete >= 1 else f"{int(self.complete * 1_000_000) / 10_000:g} %"


class SeenAudit(WithVerdict):
    """One audit. Not thread-safe."""

    def __init__(
        self, audit: BusAudit, rows: Sequence[AuditedTopic], who: Actor, subjects: Sequence[SeenSubject] = ()
    ) -> None:
        self.audit = audit
        self.rows = rows
        #: What it says beside topics, the worst first.
        self.subjects = subjects
        self._who = who

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Topics of which not all is told that was found."""
        rows = [row for row in self.rows if tells_of_payloads(self._summaries[row.topic].found)]
        return reserved_topics(self._who, rows) if rows else frozenset()

    @cached_property
    def _summaries(self) -> Mapping[str, TopicSummary]:
        return {row.topic: read_summary(row.summary) for row in self.rows}

    @cached_property
    def summaries(self) -> Mapping[str, TopicSummary]:
        """By topic."""
        return {
            topic: reserved_summary(summary) if topic in self.reserved else summary
            for topic, summary in self._summaries.items()
        }

    def reports(self, topics: Collection[str] | None = None) -> Iterator[tuple[AuditedTopic, TopicAudit]]:
        """The whole report of each topic, or of these alone, in their order: some are read at a time."""
        wanted = [row for row in self.rows if topics is None or row.topic in topics]
        for some in in_batches(wanted):
            named = self.audit.topics.filter(topic__in=[row.topic for row in some])
            read = dict(named.values_list("topic", "report"))
            for row in some:
                if row.topic in read:
                    report = unpacked(read[row.topic])
                    seen = msgspec.structs.replace(report, copied_into=copies_seen(self._who, report.copied_into))
                    yield row, reserved_report(seen) if row.topic in self.reserved else seen

    def found(self, check: Check) -> list[str]:
        """The topics of which it found anything."""
        kinds = set(check.kinds)
        return [topic for topic, told in self.summaries.items() if any(each.kind in kinds for each in told.found)]

    @cached_property
    def verdict(self) -> AuditVerdict:
        return worst([*(row.verdict for row in self.rows), *(each.verdict for each in self.subjects)])

    @property
    def from_ms(self) -> int:
        """Of its topics, or else of what it looked at beside them."""
        return min(each.from_ms for each in self.rows or self.subjects)

    @property
    def to_ms(self) -> int:
        return max(each.to_ms for each in self.rows or self.subjects)

    @cached_property
    def subject_answers(self) -> list[SubjectAnswer]:
        """Of every check beside those of topics."""
        return answers_of(self.subjects)

    @cached_property
    def archived(self) -> int:
        return sum(row.archived for row in self.rows)

    @cached_property
    def judged_topics(self) -> int:
        """How many of its topics it says anything of; of the others it came too early."""
        return sum(row.is_judged for row in self.rows)

    @property
    def judged_of(self) -> str:
        """``of 3 of 6 topics``; empty: of all."""
        topics = len(self.rows)
        return f"of {self.judged_topics:,} of {topics:,} topics" if self.judged_topics < topics else ""

    @cached_property
    def judged(self) -> int:
        """How many messages any of it is about."""
        return max(self.archived, sum(row.published or 0 for row in self.rows))

    @property
    def replayed(self) -> int:
        return sum(row.replayed for row in self.rows)

    @property
    def also(self) -> list[AlsoSaid]:
        """On every page and in every export for people."""
        unowned = [row.topic for row in self.rows if not row.owner]
        owners = shortened(f"nobody answers for {', '.join(unowned)}", 200) if unowned else "every topic has an owner"
        copies = "copies by replays are among what is archived, each names its cause"
        return [
            AlsoSaid("Ownership", owners, len(unowned), "warn" if unowned else "ok"),
            AlsoSaid("Replays", copies if self.replayed else "no message is a copy of a replay", self.replayed, "ok"),
            AlsoSaid("Replayed", self._replayed_into, self.copied, "ok"),
        ]

    @cached_property
    def copied(self) -> int:
        """How many of its messages were replayed since, each counted once in its topic."""
        return sum(summary.copied for summary in self.summaries.values())

    @cached_property
    def _replayed_into(self) -> str:
        into: Counter[str] = Counter()
        for summary in self.summaries.values():
            into.update(summary.copied_into)
        if not into:
            return "no message was replayed since"
        told = ", ".join(f"{count:,} into {name}" for name, count in sorted(copies_seen(self._who, into).items()))
        return shortened(f"of {self.archived:,} archived, {self.copied:,} were replayed since: {told}", 400)

    @property
    def lines(self) -> list[TopicLine]:
        return [
            TopicLine(row, len(self.summaries[row.topic].found), self.summaries[row.topic].copied) for row in self.rows
        ]

    @cached_property
    def answers(self) -> list[CheckAnswer]:
        """Of every check, also of those that found nothing."""
        every = [(topic, tally) for topic, summary in self.summaries.items() for tally in summary.found]
        found: list[CheckAnswer] = []
        for check in CHECKS:
            of_it = [(topic, tally) for topic, tally in every if tally.kind in check.kinds]
            if not of_it and not check.clean:
                continue
            counts: Counter[tuple[FindingKind, Severity]] = Counter()
            for _, tally in of_it:
                counts[tally.kind, tally.severity] += tally.count
            ordered = sorted(counts, key=lambda of: (WORST.index(of[1]), check.kinds.index(of[0])))
            says = [said(kind, severity, counts[kind, severity]) for kind, severity in ordered]
            tone = TONES[ordered[0][1]] if ordered else "ok"
            if not ordered and not self.judged:
                # What holds of nothing says nothing.
                says, tone = ["no message of the span could be judged"], "muted"
            elif self.judged_of:
                says = [*says, self.judged_of] if says else [f"{check.clean}, {self.judged_of}"]
            topics = len({topic for topic, _ in of_it})
            # Of what is worst alone: what explains a finding may be one of the same check.
            count = sum(count for (_, severity), count in counts.items() if severity is ordered[0][1])
            found.append(CheckAnswer(check, says or [check.clean], count, tone, topics))
        return found

    @cached_property
    def tiers(self) -> list[Tier]:
        """Published, each subscription by its name, archived."""
        known = [row for row in self.rows if row.published is not None]
        published = sum(row.published or 0 for row in known)
        reached: dict[str, SubscriptionReach] = {}
        for summary in self.summaries.values():
            for name, of_it in summary.subscriptions.items():
                before = reached.get(name, SubscriptionReach(0, 0))
                reached[name] = SubscriptionReach(before.done + of_it.done, before.open + of_it.open)
        subscriptions = [
            Tier(
                name,
                of_it.done,
                of_it.done / whole if (whole := of_it.done + of_it.open) else None,
                of_it.open,
                "without an outcome",
            )
            for name, of_it in reached.items()
        ]
        missing = sum(
            tally.count
            for summary in self.summaries.values()
            for tally in summary.found
            if tally.kind is FindingKind.MISSING
        )
        complete = (published - missing) / published if published and len(known) == len(self.rows) else None
        first = [Tier("published", published, 1.0 if published else None)] if known else []
        return [*first, *sorted(subscriptions, key=_least_complete), Tier("archived", self.archived, complete, missing)]

    @cached_property
    def settled_after(self) -> Percentiles:
        return merged(summary.settled_after for summary in self.summaries.values())

    @cached_property
    def archived_after(self) -> Percentiles:
        return merged(summary.archived_after for summary in self.summaries.values())


def _least_complete(tier: Tier) -> tuple[float, int, str]:
    return tier.complete if tier.complete is not None else 2.0, -tier.messages, tier.name


def said(kind: FindingKind, severity: Severity, count: int) -> str:
    """In one sentence, and whether what is wrong by itself has an explanation."""
    says = FORMS[kind].says(count)
    return f"{says}, explained" if severity is Severity.EXPLAINED else says


def worst(verdicts: Iterable[str]) -> AuditVerdict:
    """Of several topics and other things together."""
    return worst_of(map(AuditVerdict, verdicts))


def listed(who: Actor) -> QuerySet[BusAudit]:
    """Those that say something of a topic, or of another thing, which ``who`` may see."""
    topics = AuditedTopic.objects.filter(namespace_q(who, "topic"), audit=OuterRef("pk"))
    subjects = AuditedSubject.objects.filter(seen_q(who), audit=OuterRef("pk"))
    return BusAudit.objects.defer("findings").filter(Exists(topics) | Exists(subjects))


def lines(who: Actor, audits: Sequence[BusAudit]) -> list[ListedAudit]:
    """How each of these stands, for ``who``."""
    of_topics = AuditedTopic.objects.filter(namespace_q(who, "topic"), audit__in=audits).order_by()
    topics = {
        row["audit"]: row
        for row in of_topics.values("audit").annotate(
            **_counts(), sum=Sum("archived"), first=Min("from_ms"), last=Max("to_ms")
        )
    }
    of_subjects = AuditedSubject.objects.filter(seen_q(who), audit__in=audits).order_by()
    subjects = {row["audit"]: row for row in of_subjects.values("audit").annotate(**_counts())}
    alone = of_subjects.filter(audit__in=[audit for audit in audits if audit.pk not in topics])
    spans = {row["audit"]: row for row in alone.values("audit").annotate(first=Min("from_ms"), last=Max("to_ms"))}
    return [
        _line(audit, topics.get(audit.pk, {}) | spans.get(audit.pk, {}), subjects.get(audit.pk, {})) for audit in audits
    ]


def _counts() -> dict[str, Count]:
    return {
        "count": Count("pk"),
        **{verdict.value: Count("pk", filter=Q(verdict=verdict.value)) for verdict in AuditVerdict},
    }


def _line(audit: BusAudit, topics: Mapping[str, Any], subjects: Mapping[str, Any]) -> ListedAudit:
    verdict = worst(each.value for each in AuditVerdict if topics.get(each.value) or subjects.get(each.value))
    wrong = AuditVerdict.WRONG.value
    return ListedAudit(
        audit,
        verdict,
        topics.get("count", 0),
        topics.get("sum", 0),
        topics.get(wrong, 0),
        subjects.get("count", 0),
        subjects.get(wrong, 0),
        topics["first"],
        topics["last"],
    )


def seen_audit(who: Actor, number: int) -> SeenAudit:
    """One of them, its reports left out. Raises :class:`NotThere`, also where ``who`` may see nothing of it."""
    audit = listed(who).filter(pk=number).first()
    if audit is None:
        raise NotThere(f"There is no audit {number} that you may see.", remedy="Look at the list of them.")
    rows = audit.topics.defer("report").filter(namespace_q(who, "topic"))
    order = {verdict.value: place for place, verdict in enumerate(WORST_FIRST)}
    ordered = sorted(rows, key=lambda row: (order[row.verdict], -row.archived, row.topic))
    return SeenAudit(audit, ordered, who, seen_subjects(who, audit))


def seen_as(who: Actor, whole: bool) -> str:
    """Of what an audit is as ``who`` sees it, in words: whoever is handed it is not to take a part for the
    whole. How many are left out is not told."""
    return "all that was audited" if whole else f"what {who.name} may see"


def sees_whole(audit: SeenAudit) -> bool:
    """Whether nothing of it is hidden from who sees it."""
    it = audit.audit
    return it.topics.count() == len(audit.rows) and it.subjects.filter(known_q()).count() == len(audit.subjects)


def tells_all(audit: SeenAudit) -> bool:
    """Likewise, and all is told that was found of them."""
    return sees_whole(audit) and not audit.reserved
