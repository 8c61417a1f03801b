"""Audits as one person sees them: of the topics that they may see, and of no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from engine.core.error_text import shortened
from engine.core.errors import NotThere
from engine.core.verdicts import WORST_FIRST, AuditVerdict, Severity
from engine.pipeline.audit.checks import CHECKS, Check
from engine.pipeline.audit.findings import FORMS, FindingKind
from engine.pipeline.audit.percentiles import Percentiles, merged
from engine.pipeline.audit.report import TopicAudit
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.database import in_batches
from hbus_console.pipelines.audits.keeping import unpacked
from hbus_console.pipelines.audits.reserve import reserved_report, reserved_summary, reserved_topics, tells_apart
from hbus_console.pipelines.audits.summary import SubscriptionReach, TopicSummary, read_summary
from hbus_console.pipelines.models import AuditedTopic, BusAudit

#: What each verdict is called, and its tone.
VERDICTS: Mapping[AuditVerdict, tuple[str, str]] = {
    AuditVerdict.WRONG: ("something is wrong", "bad"),
    AuditVerdict.OPEN: ("not all is there yet", "info"),
    AuditVerdict.EXPLAINED: ("holds, with what is explained", "warn"),
    AuditVerdict.CLEAN: ("holds", "ok"),
}
_TONES = {Severity.WRONG: "bad", Severity.EXPLAINED: "warn", Severity.NOTICE: "info"}
_ICONS = {
    "bad": ("outline/alert-circle", "wrong"),
    "warn": ("outline/alert-triangle", "explained"),
    "info": ("outline/info-circle", "worth knowing"),
    "muted": ("outline/minus", "not judged"),
    "ok": ("outline/check", "holds"),
}
_WORST = (Severity.WRONG, Severity.EXPLAINED, Severity.NOTICE)


class _HasVerdict(Protocol):
    @property
    def verdict(self) -> AuditVerdict: ...


class _Judged:
    """What a page says of a verdict."""

    __slots__ = ()

    @property
    def says(self: _HasVerdict) -> str:
        return VERDICTS[self.verdict][0]

    @property
    def tone(self: _HasVerdict) -> str:
        return VERDICTS[self.verdict][1]


@dataclass(frozen=True, slots=True)
class ListedAudit(_Judged):
    """One line of the list."""

    audit: BusAudit
    verdict: AuditVerdict
    topics: int
    archived: int
    #: Of how many topics something is wrong.
    wrong: int
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
        return _ICONS[self.tone]


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
        return _ICONS[self.tone]


@dataclass(frozen=True, slots=True)
class TopicLine(_Judged):
    """One topic of an audit."""

    row: AuditedTopic
    #: How many findings of it there are.
    found: int

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


class SeenAudit(_Judged):
    """One audit. Not thread-safe."""

    def __init__(self, audit: BusAudit, rows: Sequence[AuditedTopic], who: Actor) -> None:
        self.audit = audit
        self.rows = rows
        self._who = who

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Topics of which not all is told that was found."""
        rows = [row for row in self.rows if tells_apart(self._summaries[row.topic].found)]
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
                    yield row, reserved_report(report) if row.topic in self.reserved else report

    def found(self, check: Check) -> list[str]:
        """The topics of which it found anything."""
        kinds = set(check.kinds)
        return [topic for topic, told in self.summaries.items() if any(each.kind in kinds for each in told.found)]

    @cached_property
    def verdict(self) -> AuditVerdict:
        return worst(row.verdict for row in self.rows)

    @property
    def from_ms(self) -> int:
        return min(row.from_ms for row in self.rows)

    @property
    def to_ms(self) -> int:
        return max(row.to_ms for row in self.rows)

    @cached_property
    def archived(self) -> int:
        return sum(row.archived for row in self.rows)

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
        ]

    @property
    def lines(self) -> list[TopicLine]:
        return [TopicLine(row, len(self.summaries[row.topic].found)) for row in self.rows]

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
            ordered = sorted(counts, key=lambda of: (_WORST.index(of[1]), check.kinds.index(of[0])))
            says = [said(kind, severity, counts[kind, severity]) for kind, severity in ordered]
            tone = _TONES[ordered[0][1]] if ordered else "ok"
            if not ordered and not self.judged:
                # What holds of nothing says nothing.
                says, tone = ["no message of the span could be judged"], "muted"
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
    """Of several topics together."""
    found = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict.value in found), AuditVerdict.CLEAN)


def listed(who: Actor) -> QuerySet[BusAudit]:
    """Those that have a topic which ``who`` may see."""
    rows = AuditedTopic.objects.filter(namespace_q(who, "topic"))
    return BusAudit.objects.defer("findings").filter(pk__in=rows.values("audit"))


def lines(who: Actor, audits: Sequence[BusAudit]) -> list[ListedAudit]:
    """How each of these stands, for ``who``."""
    each = (
        AuditedTopic.objects.filter(namespace_q(who, "topic"), audit__in=audits)
        .order_by()
        .values("audit")
        .annotate(
            count=Count("pk"),
            sum=Sum("archived"),
            first=Min("from_ms"),
            last=Max("to_ms"),
            **{verdict.value: Count("pk", filter=Q(verdict=verdict.value)) for verdict in AuditVerdict},
        )
    )
    told = {row["audit"]: row for row in each}
    return [_line(audit, told[audit.pk]) for audit in audits]


def _line(audit: BusAudit, row: Mapping[str, Any]) -> ListedAudit:
    verdict = worst(verdict.value for verdict in AuditVerdict if row[verdict.value])
    wrong = row[AuditVerdict.WRONG.value]
    return ListedAudit(audit, verdict, row["count"], row["sum"], wrong, row["first"], row["last"])


def seen_audit(who: Actor, number: int) -> SeenAudit:
    """One of them, its reports left out. Raises :class:`NotThere`, also where ``who`` may see no topic of it."""
    audit = listed(who).filter(pk=number).first()
    if audit is None:
        raise NotThere(f"There is no audit {number} that you may see.", remedy="Look at the list of them.")
    rows = audit.topics.defer("report").filter(namespace_q(who, "topic"))
    order = {verdict.value: place for place, verdict in enumerate(WORST_FIRST)}
    return SeenAudit(audit, sorted(rows, key=lambda row: (order[row.verdict], -row.archived, row.topic)), who)


def seen_as(who: Actor, whole: bool) -> str:
    """Of which topics an audit is as ``who`` sees it, in words: whoever is handed it is not to take a part for the
    whole. How many are left out is not told."""
    return "all its topics" if whole else f"the topics that {who.name} may see"


def sees_whole(audit: SeenAudit) -> bool:
    """Whether none of its topics is hidden from who sees it."""
    return audit.audit.topics.count() == len(audit.rows)


def tells_all(audit: SeenAudit) -> bool:
    """Likewise, and all is told that was found of them."""
    return sees_whole(audit) and not audit.reserved
