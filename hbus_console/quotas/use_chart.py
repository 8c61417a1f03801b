"""The data of a policy's chart: what was asked and admitted, the limit as it was at each moment, and who changed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from engine.core.clock import to_datetime
from engine.quota.uses import Key
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import about
from hbus_console.audit.trail import visible
from hbus_console.quotas.matching import fits, having, tenant_fits
from hbus_console.quotas.models import PolicyVersion, QuotaPolicy, TenantPlan
from hbus_console.quotas.overrides import override_at, read_overrides
from hbus_console.quotas.retention import MOST_USES
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.sight import uses_q
from hbus_console.quotas.sums import MINUTE_S, QUARTER_S, UsesReach, used_by_slot, used_over
from hbus_console.ui.formats import epoch_ms, num
from hbus_console.ui.timerange import TimeRange

#: Slots of a chart, and how long each may be, in seconds.
MOST_SLOTS, STEPS = 200, (60, 300, 900, 3_600, 21_600, 86_400, 604_800)
#: What was used reaches the ledger within so many seconds of the end of its minute.
BOOKED_S = 10
#: Acts that change what a policy allows, and how a mark calls them.
MARKED = {
    "quota.create": "created",
    "quota.change": "changed",
    "quota.restore": "restored",
    "quota.promote": "promoted",
    "quota.delete": "deleted",
}
#: Tenants of a plan whose uses are added up.
MOST_PLANNED = 1_000
#: More marks than this are a wall; the newest are kept.
MOST_MARKS = 24


@dataclass(frozen=True)
class Shortened:
    """That not all is told of a time: since when it is, or since when by the minute."""

    since_ms: int
    #: Else it is told by the quarter of an hour.
    gone: bool
    most_rows: int = MOST_USES


def shortened(chosen: TimeRange, kept: UsesReach) -> Shortened | None:
    """What a page says of a range that begins before what is kept; ``None``: all is told."""
    start = _start(chosen)
    if start >= kept.minutes:
        return None
    gone = start // QUARTER_S * QUARTER_S < kept.quarters
    return Shortened((kept.quarters if gone else kept.minutes) * 1000, gone)


def use_chart(who: Actor, chosen: TimeRange, row: QuotaPolicy, limiter: Key | None, kept: UsesReach) -> dict[str, Any]:
    """What charts.js draws, of one limiter or of all that share the policy, as far as ``who`` may see. Nothing is told
    of slots that begin before what is kept.
    """
    step_s, t = _slots(chosen, kept)
    since = kept.quarters if step_s % QUARTER_S == 0 else kept.minutes
    told = [second for second in t if second >= since]
    asked: list[float | None] = [None] * len(t)
    admitted = list(asked)
    if told:
        of = _of(who, row, limiter)
        sums = used_by_slot(of, told[0], told[-1] + step_s, step_s, limiter)
        for place, second in enumerate(t):
            if second >= since:
                passed, lost = sums.get(second, (0, 0))
                asked[place], admitted[place] = round((passed + lost) / step_s, 2), round(passed / step_s, 2)
    series = [
        {"name": "asked", "tone": "warn", "values": asked},
        {"name": "admitted", "tone": "accent", "values": admitted, "area": True},
    ]
    limits = _limits(row, t, step_s)
    if any(limit is not None for limit in limits):
        series.append({"name": "limit", "tone": "neutral", "values": limits, "steps": True})
    return {"t": t, "unit": "/s", "series": series, "marks": _marks(who, chosen, row)}


def chart_url(policy: str, limiter: Key | None) -> str:
    """Where the data is of a policy's chart, of one limiter or of all."""
    named = dict(zip(("service", "resource", "tenant"), limiter, strict=True)) if limiter else {}
    return f"{reverse('quotas:chart')}?{urlencode({'policy': policy, **named})}"


def used(who: Actor, chosen: TimeRange, row: QuotaPolicy, limiter: Key | None, kept: UsesReach) -> tuple[int, int]:
    """Tokens that were asked and admitted in the range, as far as they are kept."""
    # The minute that it ends in is counted.
    end = chosen.end_ms // 60_000 * MINUTE_S + MINUTE_S
    admitted, refused = used_over(_of(who, row, limiter), _start(chosen), end, kept)
    return admitted + refused, admitted


def covered_q(settings: Mapping[str, Any]) -> Q:
    """The uses that a policy's patterns cover."""
    found = fits("service", settings["service"]) & fits("resource", settings["resource"])
    found &= tenant_fits(settings["tenant"])
    if settings["plan"]:
        # They lie in another database than the uses.
        planned = TenantPlan.objects.filter(until__isnull=True).exclude(plan="")
        plans = dict(planned.values_list("tenant", "plan"))
        found &= having([each for each, plan in plans.items() if plan == settings["plan"]][:MOST_PLANNED], plans)
    return found


def _of(who: Actor, row: QuotaPolicy, limiter: Key | None) -> Q:
    """The uses of one limiter, or of all that the policy covers, that ``who`` may see."""
    if limiter is None:
        return covered_q(snapshot(row)) & uses_q(visible_scopes(who, VIEW))
    service, resource, tenant = limiter
    return Q(service=service, resource=resource, tenant=tenant) & uses_q(visible_scopes(who, VIEW))


def _start(chosen: TimeRange) -> int:
    """The minute that it begins in."""
    return chosen.start_ms // 60_000 * MINUTE_S


def _slots(chosen: TimeRange, kept: UsesReach) -> tuple[int, list[int]]:
    """The length of a slot, and when each begins; the one that goes on is left out. Where minutes are kept no longer
    it is quarters at least.
    """
    start_s, end_s = chosen.start_ms // 1000, chosen.end_ms // 1000
    steps = STEPS if _start(chosen) >= kept.minutes else [step for step in STEPS if step % QUARTER_S == 0]
    step_s = next((step for step in steps if (end_s - start_s) / step <= MOST_SLOTS), STEPS[-1])
    first, last = start_s // step_s * step_s, (end_s - BOOKED_S) // step_s * step_s
    return step_s, list(range(first, last, step_s))


def _limits(row: QuotaPolicy, t: list[int], step_s: int) -> list[float | None]:
    """The limit a second in the middle of each slot; ``None`` where it did not hold, or counts days or months."""
    versions = list(
        PolicyVersion.objects.filter(policy=row.name).order_by("number").values_list("settings", "made_at")[:500]
    )
    begun = [(epoch_ms(made), settings) for settings, made in versions]
    found: list[float | None] = []
    for second in t:
        at_ms = second * 1000
        held = [settings for began, settings in begun if began <= at_ms + step_s * 500]
        found.append(_limit_at(held[-1], at_ms) if held else None)
    return found


def _limit_at(settings: Mapping[str, Any], at_ms: int) -> float | None:
    if settings.get("period"):
        return None
    override = override_at(read_overrides(settings.get("overrides", ""), settings.get("zone", "UTC")), at_ms)
    return float(override.limit if override else settings["limit"])


def _marks(who: Actor, chosen: TimeRange, row: QuotaPolicy) -> list[dict[str, Any]]:
    if not visible_scopes(who, AUDIT_READ):
        return []
    entries = visible(who).filter(
        about(row.subject),
        at__gte=to_datetime(chosen.start_ms),
        at__lt=to_datetime(chosen.end_ms),
        action__in=MARKED,
    )
    return [
        {"t": epoch_ms(entry.at) // 1000, "label": _label(entry)} for entry in entries.order_by("-seq")[:MOST_MARKS]
    ]


def _label(entry: AuditEntry) -> str:
    before, after = entry.before or {}, entry.after or {}
    if before and after and before.get("limit") != after.get("limit"):
        return f"limit {num(before.get('limit'))} → {num(after.get('limit'))} by {entry.actor}"
    return f"{MARKED.get(entry.action, entry.action)} by {entry.actor}"
