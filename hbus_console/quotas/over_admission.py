"""What was admitted in each window of time, held against what the rules in force allowed.

Let *r* be the limit of a bucket, *b* what it holds, and *T* the length of the window, a minute or a quarter of an hour.
What is booked in it was spent at most :data:`TELLING_S` before it began, with permits that were sold at most
:data:`~engine.quota.protocol.LIFETIME_S` before that; so it is *r·(T + 15) + b* at most. While nodes were cut off each
may have spent *φ·r·D + 1* beside that: among how many that share is divided is not on record. Of a calendar period the
limit is the most, its first window left out, which may have what was spent before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeVar

from engine.quota import Period
from engine.quota.periods import period_at
from engine.quota.protocol import LIFETIME_S
from hbus_console.quotas.cut_offs import CutOff
from hbus_console.quotas.held_rules import BooksInForce, HeldBucket, HeldRules
from hbus_console.quotas.models import QuotaUse, QuotaUseRollup
from hbus_console.quotas.sums import QUARTER_S, UsesReach

#: A process tells what it admitted at least so often, in seconds.
TELLING_S = 10
SLACK_S = TELLING_S + int(LIFETIME_S)
#: Rows of uses that are looked at, the newest.
MOST_ROWS = 2_000_000
_HOUR_S = 3_600
#: Windows that are remembered of each policy and kind, those that are furthest over.
_REMEMBERED = 5
#: The minute, service, resource, tenant, and what was admitted.
_Row = tuple[int, str, str, str, int]


class Over(NamedTuple):
    """A window in which more was admitted than a bucket allows."""

    from_s: int
    to_s: int
    #: Whose bucket; empty: all share it.
    owner: str
    admitted: int
    most: float


@dataclass
class PolicyWindows:
    """Of one policy."""

    judged: int = 0
    #: Over by more than anything explains, by no more than nodes that were cut off may spend, and while they let
    #: everything pass.
    wrong: list[Over] = field(default_factory=list)
    fallback: list[Over] = field(default_factory=list)
    opened: list[Over] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    #: Nodes that were cut off, where that explains it.
    nodes: set[str] = field(default_factory=set)

    def tell(self, kind: str, over: Over, nodes: Iterable[str]) -> None:
        self.nodes.update(nodes)
        kept: list[Over] = getattr(self, kind)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept.append(over)
        kept.sort(key=lambda it: it.most - it.admitted)
        del kept[_REMEMBERED:]


@dataclass(slots=True)
class _Sum:
    bucket: HeldBucket
    admitted: int = 0


_Cell = TypeVar("_Cell", bound=Hashable)
#: A bucket, and when its period began.
_Which = tuple[str, str, int]


class OverAdmission:
    """Walks the uses, the newest first. Reads an hour at a time, outside any transaction."""

    def __init__(
        self, books: BooksInForce, cut: Sequence[CutOff], kept: UsesReach, go_on: Callable[[], None] = lambda: None
    ) -> None:
        self.policies: dict[str, PolicyWindows] = {}
        #: Before this some were left out, for there are too many; 0: none were.
        self.left_out_s = 0
        self._books = books
        self._cut = cut
        self._kept = kept
        self._go_on = go_on
        self._periods: dict[_Which, _Sum] = {}
        self._ends: dict[tuple[Period, str], tuple[int, int]] = {}

    def walk(self, from_s: int, to_s: int) -> None:
        """From one minute to another."""
        left = MOST_ROWS
        for begin in range((to_s - 1) // _HOUR_S * _HOUR_S, from_s // _HOUR_S * _HOUR_S - 1, -_HOUR_S):
            self._go_on()
            if left <= 0:
                self.left_out_s = begin + _HOUR_S
                break
            left -= self._hour(max(begin, from_s), min(begin + _HOUR_S, to_s))
        for (_, _, began_s), its in self._periods.items():
            _, ends_ms = period_at(its.bucket.period, its.bucket.zone, began_s * 1000)
            self._judge(its, began_s, ends_ms // 1000, its.bucket.limit)

    def _hour(self, begin: int, end: int) -> int:
        """How many rows it has."""
        uses: type[QuotaUse] | type[QuotaUseRollup] = QuotaUse if begin >= self._kept.minutes else QuotaUseRollup
        span_s = uses.SPAN_S
        rows = uses._default_manager.filter(minute__gte=begin, minute__lte=end - span_s, admitted__gt=0)
        found: list[_Row] = list(
            rows.order_by("minute").values_list("minute", "service", "resource", "tenant", "admitted")
        )
        quarters: dict[tuple[int, str, str], _Sum] = {}
        told: set[tuple[int, str, str]] = set()
        for minute, same in groupby(found, key=lambda row: row[0]):
            for its in self._window(same, self._books.at(minute, minute + span_s)):
                if its.bucket.period is not Period.NONE:
                    self._add_to_period(its, minute)
                    continue
                cell = minute // QUARTER_S * QUARTER_S, its.bucket.rule, its.bucket.owner
                if self._judge(its, minute, minute + span_s, _most(its.bucket, span_s)) == "wrong":
                    # Its quarter would say the same once more.
                    told.add(cell)
                if span_s < QUARTER_S:
                    _add(quarters, cell, its)
        for cell, its in quarters.items():
            begin_s, rule, _ = cell
            end_s, most = begin_s + QUARTER_S, _most(its.bucket, QUARTER_S)
            if cell not in told and (its.admitted <= most or self._books.is_in_all(rule, begin_s, end_s)):
                self._judge(its, begin_s, end_s, most)
        return len(found)

    @staticmethod
    def _window(rows: Iterable[_Row], held: HeldRules) -> Iterable[_Sum]:
        """What each bucket admitted."""
        sums: dict[tuple[str, str], _Sum] = {}
        for _, service, resource, tenant, admitted in rows:
            for bucket in held.buckets((service, resource, tenant)):
                _add(sums, (bucket.rule, bucket.owner), _Sum(bucket, admitted))
        return sums.values()

    def _add_to_period(self, its: _Sum, minute: int) -> None:
        bucket, at_ms = its.bucket, minute * 1000
        began_ms, ends_ms = self._ends.get((bucket.period, bucket.zone), (0, 0))
        if not began_ms <= at_ms < ends_ms:
            began_ms, ends_ms = period_at(bucket.period, bucket.zone, at_ms)
            self._ends[bucket.period, bucket.zone] = began_ms, ends_ms
        if at_ms > began_ms:
            _add(self._periods, (bucket.rule, bucket.owner, began_ms // 1000), its)

    def _judge(self, its: _Sum, from_s: int, to_s: int, most: float) -> str:
        """As what it is told where it is over; else empty."""
        bucket = its.bucket
        policy = self.policies.setdefault(bucket.policy, PolicyWindows())
        policy.judged += 1
        if its.admitted <= most:
            return ""
        over = Over(from_s, to_s, bucket.owner, its.admitted, most)
        within = (from_s - SLACK_S) * 1000, (to_s + SLACK_S) * 1000
        cut = [(each, each.overlap_s(*within)) for each in self._cut if each.overlap_s(*within) > 0]
        kind = "wrong"
        if cut and bucket.lets_all:
            kind = "opened"
        elif its.admitted <= most + sum(bucket.alone * seconds + 1 for _, seconds in cut):
            kind = "fallback"
        policy.tell(kind, over, [] if kind == "wrong" else [each.node for each, _ in cut])
        return kind


def _most(bucket: HeldBucket, span_s: int) -> float:
    """Of one that counts no period, in a window of that length."""
    return bucket.limit * (span_s + SLACK_S) + bucket.room


def _add(sums: dict[_Cell, _Sum], cell: _Cell, its: _Sum) -> None:
    known = sums.get(cell)
    if known is None:
        sums[cell] = _Sum(its.bucket, its.admitted)
        return
    known.admitted += its.admitted
    if known.bucket is not its.bucket:
        known.bucket = known.bucket.or_larger(its.bucket)
