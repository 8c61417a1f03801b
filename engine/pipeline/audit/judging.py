"""What was found of one topic, judged: what explains an absence, which findings are told, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.core.clock import from_rfc3339
from engine.core.verdicts import AuditVerdict, Severity, verdict_of
from engine.pipeline.audit.amounts import amount_of, share_of, summed, total_of
from engine.pipeline.audit.copying import Copied
from engine.pipeline.audit.findings import FORMS, Finding, FindingKind, Sample
from engine.pipeline.audit.fitting import PayloadRules, unfit_places, unfit_samples
from engine.pipeline.audit.gathering import Gathered, Topic
from engine.pipeline.audit.histogram import Durations
from engine.pipeline.audit.history import LostSpan, TopicHistory, in_a_span
from engine.pipeline.audit.matching import Matched
from engine.pipeline.audit.ordering import Gaps, Order, joined_gaps
from engine.pipeline.audit.outcomes import TOLD_OF, SubscriptionMatched
from engine.pipeline.audit.places import Places, addresses, at_addresses, joined
from engine.pipeline.audit.report import SubscriptionAudit, TopicAudit, Window, WindowOutcomes
from engine.pipeline.audit.rereading import OF_DELIVERIES, OF_MESSAGES, OF_PUBLISHED, rows_at
from engine.pipeline.audit.sampling import copy_samples, loss_samples, malformed_samples
from engine.pipeline.audit.scope import Counted, Scope
from engine.pipeline.audit.summing import SKEW_MS
from engine.pipeline.lake.schema import KEY_HASH
from engine.pipeline.lake.state import Kind, LakeState

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: A message that is being handled while later ones are done with is no finding for so long, milliseconds.
PATIENCE_MS = 3_600_000
#: Why something is not there.
RETENTION, LOSS, BEFORE, ERASED = (
    "retention of the lake",
    "a loss that is known",
    "it is from before the archive",
    "an erasure",
)


@dataclass(frozen=True, slots=True)
class TopicFound:
    """All that was compared of one topic."""

    root: Path
    state: LakeState
    name: str
    topic: Topic
    scope: Scope
    matched: Sequence[Matched]
    ordered: Sequence[Order]
    history: TopicHistory
    subscriptions: Mapping[str, int]
    #: See :class:`~engine.pipeline.audit.auditing.TopicKnown`.
    drained: Mapping[str, int]
    samples: int
    copied: Copied
    payloads: PayloadRules | None
    #: See :meth:`~engine.pipeline.audit.fitting.Fitting.look`.
    unfit: Mapping[str, Mapping[str, NDArray[np.generic]]]


def judge(found: TopicFound, *, told: bool) -> TopicAudit:
    """``told``: what the ledger tells of it is in the lake.

    Raises :class:`~engine.pipeline.lake.errors.LakeDamaged` where a file cannot be read again.
    """
    findings = _Findings(found)
    findings.of_messages(told=told)
    findings.of_order()
    subscriptions = [
        findings.of_subscription(name, [part.delivered.by_subscription[name] for part in found.matched])
        for name in sorted(found.topic.subscriptions)
    ]
    return findings.audit([each for each in subscriptions if each is not None], told=told)


@dataclass(frozen=True, slots=True)
class _Subscription:
    """Of all ranges."""

    name: str
    parts: Sequence[SubscriptionMatched]
    open: Counter[int]

    def outcomes(self) -> dict[str, Ints]:
        """By kind, in each window."""
        made: dict[str, Ints] = {}
        for part in self.parts:
            for kind, counts in part.outcomes.items():
                made[kind] = made[kind] + counts if kind in made else counts
        return dict(sorted(made.items()))


class _Findings:
    def __init__(self, found: TopicFound) -> None:
        self.found = found
        self.topic, self.scope = found.topic, found.scope
        self.held = found.state.held(found.name)
        self.all: list[Finding] = []
        self._copies = np.empty(0, np.int64)
        self._repeated: Sequence[Sample] = ()

    def audit(self, subscriptions: Sequence[_Subscription], *, told: bool) -> TopicAudit:
        found, scope = self.found, self.scope
        published = summed(part.published for part in found.matched)
        archived = summed(part.stored for part in found.matched)
        replayed = summed(part.replayed for part in found.matched)
        odd = self._odd()
        archived = Counted(
            archived.count + scope.counts(odd[0].at),
            archived.bytes + scope.counted(odd[0].at, odd[1], scope.holds(odd[0].at)).bytes,
        )
        both = sum((part.both for part in found.matched), np.zeros(scope.windows, np.int64))
        archived_after = Durations()
        archived_after.merge(part.archived for part in found.matched)
        of_windows = [(each.name, each.outcomes(), each.open) for each in subscriptions]
        windows = [
            Window(
                scope.from_ms + number * scope.window_ms,
                number < scope.closed_windows,
                amount_of(published, number) if told else None,
                amount_of(archived, number),
                amount_of(replayed, number),
                share_of(int(both[number]), int(published.count[number])),
                {
                    name: WindowOutcomes(
                        {kind: int(counts[number]) for kind, counts in outcomes.items() if counts[number]},
                        open_[number],
                    )
                    for name, outcomes, open_ in of_windows
                },
            )
            for number in range(scope.windows)
            if archived.count[number] or published.count[number]
        ]
        of_topic: Counter[str] = Counter()
        for part in found.matched:
            of_topic.update(part.delivered.of_topic)
        order = list(Severity)
        held = [side.file for files in (self.topic.messages, self.topic.published) for side in files.sides]
        return TopicAudit(
            topic=found.name,
            verdict=self._verdict(judged=int(archived.count.sum() + published.count.sum())),
            from_ms=scope.from_ms,
            to_ms=scope.to_ms,
            closed_ms=scope.closed_ms,
            window_ms=scope.window_ms,
            published=total_of(published) if told else None,
            archived=total_of(archived),
            replayed=total_of(replayed),
            complete=share_of(int(both.sum()), int(published.count.sum())),
            archived_after=archived_after.percentiles(),
            subscriptions=[self._subscription(each) for each in subscriptions],
            told=dict(sorted(of_topic.items())),
            findings=sorted(self.all, key=lambda finding: order.index(finding.severity)),
            windows=windows,
            copied=found.copied.messages,
            copied_into=found.copied.into,
            repeated=self._repeated,
            held_from_ms=min((file.first_ms for file in held), default=0),
            held_until_ms=max((file.last_ms for file in held), default=0),
        )

    def of_messages(self, *, told: bool) -> None:
        parts, files = self.found.matched, self.topic.messages
        if told:
            missing = joined([part.missing for part in parts])
            self._absent(FindingKind.MISSING, missing, missing.at, self.topic.published, OF_PUBLISHED)
            untold = joined([part.untold for part in parts])
            stored = np.concatenate([part.untold_stored for part in parts])
            self._absent(FindingKind.UNTOLD, untold, stored, files, OF_MESSAGES)
        self._losses()
        copies, owners, conflicting = self._confirmed()
        self._copies = addresses(copies.file, copies.row)
        self._again(FindingKind.DUPLICATE, copies.take(~conflicting), owners[~conflicting])
        self._again(FindingKind.CONFLICTING, copies.take(conflicting), owners[conflicting])
        # Chosen without a look at the payloads: which they are tells nothing of these.
        self._repeated = self._copy_samples(copies, owners)
        self._sampled(FindingKind.MALFORMED, self._odd()[0], partial(malformed_samples, self.found.root, files))
        if rules := self.found.payloads:
            sample = partial(unfit_samples, self.found.root, files, rules)
            self._sampled(FindingKind.UNFIT, unfit_places(files, self.found.unfit, self.scope), sample)
        self._tell(FindingKind.FOREIGN, joined([part.foreign for part in parts]), files, OF_MESSAGES)
        self._tell(FindingKind.SKEWED, joined([part.skewed for part in parts]), files, OF_MESSAGES)
        if self._is_from_the_beginning():
            orphans = joined([part.delivered.orphans for part in parts])
            self._tell(FindingKind.ORPHAN, orphans, self.topic.deliveries, OF_DELIVERIES)

    def of_order(self) -> None:
        """A copy stands where it stands: it is told as that, and not as being out of order."""
        files = self.topic.messages
        for kind, late in (
            (FindingKind.OUT_OF_ORDER, joined([part.late for part in self.found.ordered])),
            (FindingKind.OUT_OF_TIME, joined([part.late_by_time for part in self.found.ordered])),
        ):
            counted = self.scope.holds(late.at) & ~np.isin(addresses(late.file, late.row), self._copies)
            self._tell(kind, late.take(counted), files, OF_MESSAGES)
        gaps = joined_gaps(part.gaps for part in self.found.ordered)
        judged = self.scope.holds(gaps.behind.at) & (gaps.behind_stored < self.scope.closed_ms)
        lost = np.zeros(len(gaps.first), bool)
        for span in self._lost_spans():
            lost |= (gaps.behind_stored >= span.from_ms - SKEW_MS) & (gaps.before_stored <= span.until_ms + SKEW_MS)
        self._gaps(gaps, judged & ~lost, "")
        self._gaps(gaps, judged & lost, LOSS)

    def of_subscription(self, name: str, parts: Sequence[SubscriptionMatched]) -> _Subscription | None:
        since = self.found.subscriptions.get(name)
        if since is None:
            had = [part.first_ms for part in parts if part.first_ms]
            if not had:
                # Messages were aimed at it, and it had none.
                return None
            since = min(had)
        open_ = joined([part.open for part in parts])
        stored = np.concatenate([part.open_stored for part in parts])
        log = np.concatenate([part.open_log for part in parts])
        tried = np.concatenate([part.open_tried for part in parts])
        front = np.max([part.front_ms for part in parts], axis=0)
        mine = stored >= since
        passed_over = mine & ~tried & (stored < front[log]) & (stored < self.scope.closed_ms - PATIENCE_MS)
        files = self.topic.messages
        self._absent(
            FindingKind.NO_OUTCOME, open_.take(passed_over), stored[passed_over], files, OF_MESSAGES, subscription=name
        )
        done = mine & ~passed_over & (stored < self.found.drained.get(name, 0))
        self._tell(FindingKind.DONE_UNTOLD, open_.take(done), files, OF_MESSAGES, subscription=name)
        waiting = mine & ~passed_over & ~done
        self._tell(FindingKind.WAITING, open_.take(waiting), files, OF_MESSAGES, subscription=name)
        for kind in TOLD_OF:
            told = joined([part.told[kind] for part in parts if kind in part.told])
            self._tell(FindingKind(kind), told, self.topic.deliveries, OF_DELIVERIES, subscription=name)
        for kind, rows in (
            (FindingKind.HANDLED_AGAIN, joined([part.again for part in parts])),
            (FindingKind.INTERRUPTED, joined([part.interrupted for part in parts])),
        ):
            self._tell(kind, rows, self.topic.deliveries, OF_DELIVERIES, subscription=name)
        return _Subscription(name, parts, Counter(self._windows_of(open_.at[mine])))

    def _windows_of(self, at: Ints) -> list[int]:
        found: list[int] = ((at - self.scope.from_ms) // self.scope.window_ms).tolist()
        return found

    def _verdict(self, judged: int) -> AuditVerdict:
        # Of a span in which nothing can be judged yet nobody knows that it is clean.
        has_any = bool(self.topic.messages.sides or self.topic.published.sides)
        is_open = has_any and not (self.scope.is_closed and judged)
        return verdict_of((finding.severity for finding in self.all), is_open=is_open)

    def _subscription(self, each: _Subscription) -> SubscriptionAudit:
        outcomes = {kind: int(counts.sum()) for kind, counts in each.outcomes().items()}
        told: Counter[str] = Counter()
        attempts: Counter[int] = Counter()
        settled = Durations()
        for part in each.parts:
            told.update(part.rows)
            attempts.update(part.attempts)
        settled.merge(part.settled for part in each.parts)
        done, open_ = sum(outcomes.values()), each.open.total()
        return SubscriptionAudit(
            name=each.name,
            outcomes={kind: count for kind, count in outcomes.items() if count},
            open=open_,
            complete=share_of(done, done + open_),
            told=dict(sorted(told.items())),
            attempts=dict(sorted(attempts.items())),
            settled_after=settled.percentiles(),
        )

    def _odd(self) -> tuple[Places, Ints]:
        """What is no envelope, and how much each weighs."""
        places, sizes = [], [np.empty(0, np.int64)]
        for number, side in enumerate(self.topic.messages.sides):
            at, row = side.columns["odd_at"], side.columns["odd_row"]
            within = self.scope.holds(at)
            if within.any():
                file = np.full(len(row), number, np.int32)
                # It has no id: the place where it lies does not outlast a compaction, and so it orders nothing.
                places.append(Places(at, np.zeros(len(at), np.int64), file, row).take(within))
                sizes.append(side.columns["odd_size"][within])
        return joined(places), np.concatenate(sizes)

    def _confirmed(self) -> tuple[Places, Ints, Bools]:
        """Further copies, each with the address of the first one; only those that do have the id, and not one that
        hashes alike. Whoever makes an id that does would learn by what is kept whether the payload is the same, if
        it were asked of those with another payload alone."""
        parts = self.found.matched
        copies = joined([part.copies for part in parts])
        owners = np.concatenate([part.copied for part in parts])
        conflicting = np.concatenate([part.conflicting for part in parts])
        files, columns = self.topic.messages, OF_MESSAGES[:2]
        pairs = zip(
            rows_at(self.found.root, files, copies, columns),
            rows_at(self.found.root, files, at_addresses(copies, owners), columns),
            strict=True,
        )
        kept = np.fromiter((copy == original for copy, original in pairs), bool, len(copies))
        return copies.take(kept), owners[kept], conflicting[kept]

    def _lost_spans(self) -> list[LostSpan]:
        """Of messages."""
        return [span for span in self.found.history.lost if span.log not in (Kind.PUBLISHED, Kind.DELIVERIES)]

    def _is_from_the_beginning(self) -> bool:
        """Whether no older messages were left aside, or taken by retention: what is told may be of one of them."""
        looked_at = {side.file.path for files in (self.topic.messages, self.topic.published) for side in files.sides}
        first = min((side.file.date for side in self.topic.messages.sides), default="")
        older = [
            file
            for kind in (Kind.MESSAGES, Kind.PUBLISHED)
            for file in self.found.state.files_of(self.found.name, to_date=first, kind=kind)
            if file.path not in looked_at
        ]
        return not older and not self.held.kept_from

    def _losses(self) -> None:
        """The commits tell of losses in the order in which they are kept; of the newest the history may be ahead."""
        within = [
            known
            for known, span in zip(self.held.losses, self.found.history.lost, strict=False)
            if span.from_ms < self.scope.to_ms and span.until_ms >= self.scope.from_ms
        ]
        if not within:
            return
        count = sum(known.loss.messages or 0 for known in within)
        says = _says(FindingKind.LOSS, count)
        if uncounted := sum(known.loss.messages is None for known in within):
            says += f"; of {uncounted} losses nobody knows how many"
        elif len(within) > 1:
            says += f", in {len(within):,} losses"
        form, samples = FORMS[FindingKind.LOSS], loss_samples(within[: self.found.samples])
        self.all.append(Finding(FindingKind.LOSS, form.severity, count, says, samples=samples))

    def _absent(
        self,
        kind: FindingKind,
        places: Places,
        stored: Ints,
        files: Gathered,
        columns: Sequence[str],
        *,
        subscription: str = "",
    ) -> None:
        """Told apart by what explains it."""
        left = np.ones(len(places), bool)
        for why, explained in self._explanations(kind, places, stored):
            self._tell(kind, places.take(left & explained), files, columns, why=why, subscription=subscription)
            left &= ~explained
        self._tell(kind, places.take(left), files, columns, subscription=subscription)

    def _explanations(self, kind: FindingKind, places: Places, stored: Ints) -> Iterable[tuple[str, Bools]]:
        """Each with those that it explains."""
        if not len(places):
            return
        absent_from = {FindingKind.MISSING: Kind.MESSAGES, FindingKind.UNTOLD: Kind.PUBLISHED}.get(
            kind, Kind.DELIVERIES
        )
        if self.held.kept_from:
            # A message and what is told of it may be of different days.
            yield RETENTION, stored < from_rfc3339(f"{self.held.kept_from}T00:00:00Z") + SKEW_MS
        spans = [span for span in self.found.history.lost if span.log == absent_from]
        yield LOSS, in_a_span(stored, self._lost_spans() if absent_from is Kind.MESSAGES else spans, SKEW_MS)
        first = min((f.first_ms for f in self.found.state.files_of(self.found.name, kind=absent_from)), default=0)
        if kind is not FindingKind.NO_OUTCOME:
            yield BEFORE, stored < first
        if kind is FindingKind.MISSING and self.held.erased:
            keys = rows_at(self.found.root, self.topic.published, places, (KEY_HASH,))
            erased = {each.key_hash: each.at_ms for each in self.held.erased}
            before = [at < erased.get(key, 0) for (key,), at in zip(keys, stored.tolist(), strict=True)]
            yield ERASED, np.array(before, np.bool_)

    def _tell(
        self,
        kind: FindingKind,
        places: Places,
        files: Gathered,
        columns: Sequence[str],
        *,
        why: str = "",
        subscription: str = "",
    ) -> None:
        if not len(places):
            return
        severity = Severity.EXPLAINED if why else FORMS[kind].severity
        samples = self._samples(places.first(self.found.samples), files, columns)
        self.all.append(Finding(kind, severity, len(places), _says(kind, len(places)), subscription, why, samples))

    def _again(self, kind: FindingKind, copies: Places, owners: Ints) -> None:
        """Told by where each lies, and where the first one does."""
        if not len(copies):
            return
        samples = self._copy_samples(copies, owners)
        self.all.append(Finding(kind, FORMS[kind].severity, len(copies), _says(kind, len(copies)), samples=samples))

    def _copy_samples(self, copies: Places, owners: Ints) -> Sequence[Sample]:
        return copy_samples(self.found.root, self.topic.messages, copies, owners, self.found.samples)

    def _sampled(self, kind: FindingKind, places: Places, sample: Callable[[Places], Sequence[Sample]]) -> None:
        """``sample`` tells of the first few."""
        if not len(places):
            return
        samples = sample(places.first(self.found.samples))
        self.all.append(Finding(kind, FORMS[kind].severity, len(places), _says(kind, len(places)), samples=samples))

    def _gaps(self, gaps: Gaps, which: Bools, why: str) -> None:
        places = gaps.behind.take(which)
        if not len(places):
            return
        order = np.lexsort((places.ident, places.at))[: self.found.samples]
        first, last = gaps.first[which], gaps.last[which]
        notes = [
            f"before it {start} to {end} are missing" if end > start else f"before it {start} is missing"
            for start, end in zip(first[order].tolist(), last[order].tolist(), strict=True)
        ]
        samples = self._samples(places.take(order), self.topic.messages, OF_MESSAGES, notes)
        count = int((last - first + 1).sum())
        says = f"{_says(FindingKind.GAP, count)}, in {len(places):,} ranges"
        severity = Severity.EXPLAINED if why else FORMS[FindingKind.GAP].severity
        self.all.append(Finding(FindingKind.GAP, severity, count, says, "", why, samples))

    def _samples(
        self, places: Places, files: Gathered, columns: Sequence[str], notes: Sequence[str] = ()
    ) -> list[Sample]:
        rows = rows_at(self.found.root, files, places, columns)
        made = []
        for row, at, note in zip(rows, places.at.tolist(), notes or [""] * len(rows), strict=True):
            # What happened to a message is told without its key.
            id_, source, key = (str(value or "") for value in (*row, "")[:3])
            made.append(Sample(id_, source, key, at, note))
        return made


def _says(kind: FindingKind, count: int) -> str:
    return FORMS[kind].says(count)
