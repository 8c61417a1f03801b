"""What a policy would have done with the last day's traffic, before anybody is held to it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.quota.preview import Foreseen, foresee
from engine.quota.terms import Name
from hbus_console.evidence.totals import total
from hbus_console.quotas.models import QuotaUse
from hbus_console.quotas.services.draft import checked
from hbus_console.quotas.services.rules import rules_of
from hbus_console.quotas.sight import uses_q
from hbus_console.quotas.use_chart import covered_q
from hbus_console.quotas.wording import limit_words, together

#: How far is looked back, in seconds; tenants that are looked at, those that asked most, and those that are listed.
DAY_S, MOST_TENANTS, MOST_LISTED = 86_400, 500, 8


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
    since = now_ms // 60_000 * 60 - DAY_S
    rows = QuotaUse.objects.filter(covered_q(settings), uses_q(scopes), minute__gte=since).order_by()
    by_tenant = rows.values_list("tenant").annotate(a=total("admitted"), r=total("refused"))
    sums = {tenant: admitted + refused for tenant, admitted, refused in by_tenant}
    chosen = sorted(sums, key=lambda tenant: (-sums[tenant], tenant))[:MOST_TENANTS]
    asked: dict[str, Counter[int]] = defaultdict(Counter)
    shared = together(settings)
    minutes = (
        rows.filter(tenant__in=chosen).values_list("tenant", "minute").annotate(a=total("admitted"), r=total("refused"))
    )
    # Times with other limits are not what is asked about: whoever reads the answer has the limit beside it.
    (rule, *_) = rules_of("tried", {**settings, "overrides": ""}, now_ms)
    lost_by = Counter[str]()
    for tenant, minute, admitted, refused in minutes:
        # As the rule sees it: whose buckets are not told apart.
        subject = "" if shared else rule.subject(Name("", "", tenant))
        asked[subject][minute] += admitted + refused
        lost_by[subject] += refused
    found = [TenantForeseen(tenant, foresee(rule, came), lost_by[tenant]) for tenant, came in asked.items()]
    whole = Foreseen()
    for each in found:
        whole.add(each.foreseen)
    touched = [each for each in found if each.foreseen.least < each.foreseen.asked]
    touched.sort(key=lambda each: (each.foreseen.least - each.foreseen.asked, each.tenant))
    listed = touched[:MOST_LISTED]
    lost = sum(lost_by.values())
    return PolicyPreview(
        limit_words(settings), _without(settings), whole, lost, listed, len(touched), len(touched) - len(listed),
        len(sums) - len(chosen),
    )  # fmt: skip


def _without(settings: Mapping[str, Any]) -> str:
    left_out = [
        *(["other limits at times"] if settings["overrides"].strip() else []),
        *([f"the trial at {settings['canary_percent']} % of the tenants"] if settings["canary_percent"] else []),
    ]
    return " and ".join(left_out)
