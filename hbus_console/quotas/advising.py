"""How much a policy would have to allow for the last day's traffic: a curve, and what it advises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.quota.advising import RateAdvice, advise
from hbus_console.quotas.foreseeing import DAY_S, subject_of
from hbus_console.quotas.services.rules import rules_of
from hbus_console.quotas.sight import uses_q
from hbus_console.quotas.sums import QUARTER_S, asked_by_minute, reach, used_by_minute, used_by_tenant
from hbus_console.quotas.use_chart import covered_q
from hbus_console.quotas.wording import together

#: Tenants that are looked at, those that asked most: the busiest says how large a limit has to be.
MOST_TENANTS = 50


@dataclass(frozen=True, slots=True)
class PolicyAdvice:
    """Of the last day, as far as it is known by the minute."""

    since_ms: int
    #: ``None``: nothing was asked, or it counts by days, months or seats.
    rates: RateAdvice | None
    tenants: int
    #: Further ones that are not looked at.
    unseen: int


def advice_for(settings: Mapping[str, Any], now_ms: int, scopes: tuple[str, ...]) -> PolicyAdvice:
    """For what a policy covers, of what ``scopes`` may see, each tenant, or all together, by a bucket of its own, as
    the policy has it."""
    kept = reach(now_ms)
    since = max(now_ms // 60_000 * 60 - DAY_S, kept.minutes)
    # Whose clock is ahead books ahead.
    span = since, (now_ms // 1000 // QUARTER_S + 2) * QUARTER_S
    of = covered_q(settings) & uses_q(scopes)
    (rule, *_) = rules_of("tried", {**settings, "overrides": ""}, now_ms)
    came: dict[str, dict[int, float]] = {}
    unseen = 0
    if together(settings):
        came[""] = {minute: float(sum(counts)) for minute, counts in used_by_minute(of, *span).items()}
    else:
        by_tenant = used_by_tenant(of, *span, kept)
        chosen = sorted(by_tenant, key=lambda tenant: (-sum(by_tenant[tenant]), tenant))[:MOST_TENANTS]
        unseen = len(by_tenant) - len(chosen)
        for minute, tenant, count in asked_by_minute(of, *span, chosen) if chosen else ():
            minutes = came.setdefault(subject_of(rule, tenant), {})
            minutes[minute] = minutes.get(minute, 0) + count
    return PolicyAdvice(since * 1000, advise(rule, list(came.values())), len(came), unseen)
