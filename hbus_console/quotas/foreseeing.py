"""What a policy would have done with the last day's traffic, before anybody is held to it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from engine.quota import Period, Rule
from engine.quota.periods import period_at
from engine.quota.preview import Foreseen, foresee
from engine.quota.terms import person_of
from hbus_console.quotas.retention import MOST_USES
from hbus_console.quotas.services.draft import checked
from hbus_console.quotas.services.rules import rules_of
from hbus_console.quotas.sight import uses_q
from hbus_console.quotas.sums import QUARTER_S, UsesReach, asked_by_minute, reach, used_by_minute, used_by_tenant
from hbus_console.quotas.use_chart import covered_q
from hbus_console.quotas.wording import limit_words, together

#: How far is looked back, in seconds; tenants that are looked at by the minute, those that asked most, and those that
#: are listed.
DAY_S, MOST_TENANTS, MOST_LISTED = 86_400, 300, 8

#: From when to when, in seconds since the epoch; the last second is not in it.
_Span = tuple[int, int]


@dataclass(frozen=True)
class TenantForeseen:
    """One tenant, or all together."""

    tenant: str
    foreseen: Foreseen
    #: Tokens that were refused as it was.
    refused: int


@dataclass(frozen=True)
class PolicyPreview:
    """All figures are tokens of the last day."""

    limit: str
    #: Of what it says too, and what is not reckoned with.
    without: str
    total: Foreseen
    refused: int
    tenants: list[TenantForeseen]
    #: Tenants that would have been refused something, and those that are not listed, or not looked at.
    touched: int
    unlisted: int
    unseen: int
    #: Where minutes are not kept for a day: since when they are, in epoch milliseconds.
    since_ms: int | None = None
    most_rows: int = MOST_USES

    @property
    def least_share(self) -> float:
        return 100 * self.total.least / self.total.asked if self.total.asked else 100.0

    @property
    def most_share(self) -> float:
        return 100 * self.total.most / self.total.asked if self.total.asked else 100.0


def preview(values: Mapping[str, Any], now_ms: int, scopes: tuple[str, ...]) -> PolicyPreview:
    """Of what ``scopes`` may see, as if this policy alone had held, all day by its own limit: without its overrides
    and what is tried of it; stores nothing.

    Raises :class:`BadInput` as saving would.
    """
    settings = checked(values)
    kept = reach(now_ms)
    day = now_ms // 60_000 * 60 - DAY_S
    since = max(day, kept.minutes)
    of = covered_q(settings) & uses_q(scopes)
    # Times with other limits are not what is asked about: whoever reads the answer has the limit beside it.
    (rule, *_) = rules_of("tried", {**settings, "overrides": ""}, now_ms)
    # Whose clock is ahead books ahead.
    span = since, (now_ms // 1000 // QUARTER_S + 2) * QUARTER_S
    if together(settings):
        found, unseen = [_shared(rule, of, span)], 0
    elif rule.by_calendar:
        found, unseen = _by_period(rule, of, span, kept), 0
    else:
        found, unseen = _of_each(rule, of, span, kept)
    whole = Foreseen()
    for each in found:
        whole.add(each.foreseen)
    touched = [each for each in found if each.foreseen.least < each.foreseen.asked]
    touched.sort(key=lambda each: (each.foreseen.least - each.foreseen.asked, each.tenant))
    listed = touched[:MOST_LISTED]
    lost = sum(each.refused for each in found)
    return PolicyPreview(
        limit_words(settings), _without(settings), whole, lost, listed, len(touched), len(touched) - len(listed),
        unseen, since * 1000 if since > day else None,
    )  # fmt: skip


def _shared(rule: Rule, of: Q, span: _Span) -> TenantForeseen:
    """Of all together, however many they are."""
    came = used_by_minute(of, *span)
    asked = {minute: float(admitted + refused) for minute, (admitted, refused) in came.items()}
    return TenantForeseen("", foresee(rule, asked), sum(refused for _, refused in came.values()))


def _by_period(rule: Rule, of: Q, span: _Span, kept: UsesReach) -> list[TenantForeseen]:
    """Of each by itself, where nothing matters but how much came in each day or month."""
    came: dict[str, Counter[int]] = defaultdict(Counter)
    lost = Counter[str]()
    begin, end = span
    while begin < end:
        ends = min(end, period_at(rule.period, rule.zone, begin * 1000)[1] // 1000)
        for tenant, (admitted, refused) in used_by_tenant(of, begin, ends, kept).items():
            subject = subject_of(rule, tenant)
            came[subject][begin] += admitted + refused
            lost[subject] += refused
        begin = ends
    return [TenantForeseen(subject, foresee(rule, periods), lost[subject]) for subject, periods in came.items()]


def _of_each(rule: Rule, of: Q, span: _Span, kept: UsesReach) -> tuple[list[TenantForeseen], int]:
    """Of each by itself, and how many tenants are left out."""
    by_tenant = used_by_tenant(of, *span, kept)
    whose = {tenant: subject_of(rule, tenant) for tenant in by_tenant}
    asked, lost = Counter[str](), Counter[str]()
    for tenant, (admitted, refused) in by_tenant.items():
        asked[whose[tenant]] += admitted + refused
        lost[whose[tenant]] += refused
    # Of who asked no more in all that time than fits into a bucket, or is not held to one, no minute need be known.
    room = float("inf") if rule.period is Period.AT_ONCE else rule.room()
    found = [
        TenantForeseen(subject, Foreseen(count, count, count), lost[subject])
        for subject, count in asked.items()
        if count <= room
    ]
    doubtful = [tenant for tenant in by_tenant if asked[whose[tenant]] > room]
    doubtful.sort(key=lambda tenant: (-sum(by_tenant[tenant]), tenant))
    chosen = doubtful[:MOST_TENANTS]
    came: dict[str, dict[int, float]] = {whose[tenant]: {} for tenant in chosen}
    for minute, tenant, count in asked_by_minute(of, *span, chosen) if chosen else ():
        minutes = came[whose[tenant]]
        minutes[minute] = minutes.get(minute, 0) + count
    told = Counter[str]()
    for tenant in chosen:
        told[whose[tenant]] += by_tenant[tenant][1]
    found += [TenantForeseen(subject, foresee(rule, minutes), told[subject]) for subject, minutes in came.items()]
    return found, len(doubtful) - len(chosen)


def subject_of(rule: Rule, tenant: str) -> str:
    """The tenant as the rule sees it: whose buckets are not told apart."""
    return tenant if rule.by_program else person_of(tenant)


def _without(settings: Mapping[str, Any]) -> str:
    left_out = [
        *(["other limits at times"] if settings["overrides"].strip() else []),
        *([f"the trial at {settings['canary_percent']} % of the tenants"] if settings["canary_percent"] else []),
    ]
    return " and ".join(left_out)
