"""What one tenant used by the minute, hour and day, as far as one may see what it was used of.

Minutes are read as they are, hours from the quarters that they have, and days from those that are kept for ever. Of
days before these were kept the quarters tell, as far as they reach.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from engine.core.resolution import Resolution
from engine.quota.terms import Name
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.evidence.totals import mass
from hbus_console.quotas.models import QuotaUse, QuotaUseDay, QuotaUseRollup, UsesTrimmed
from hbus_console.quotas.sight import uses_q
from hbus_console.quotas.sums import UsesReach, reach

_COUNTS = ("admitted", "delayed", "refused", "shadowed")
_DAY_S = Resolution.DAY.seconds
#: The longest time that is told by it unless said.
_LONGEST_S = {Resolution.MINUTE: _DAY_S, Resolution.HOUR: 31 * _DAY_S}


@dataclass(frozen=True, slots=True)
class TenantPoint:
    """Tokens in one span, which begins at that second since the epoch."""

    at: int
    admitted: int
    delayed: int
    refused: int
    #: What a policy that only counts would have refused.
    shadowed: int


@dataclass(frozen=True)
class TenantReach:
    """Since when points are told, in seconds since the epoch."""

    kept: UsesReach
    #: The first day that was booked whole as a day.
    days: int

    def since(self, resolution: Resolution) -> int:
        """The first span of a resolution that is told whole; 0: all are."""
        if resolution is not Resolution.DAY:
            kept = self.kept.minutes if resolution is Resolution.MINUTE else self.kept.quarters
            return -(-kept // resolution.seconds) * resolution.seconds
        return min(self.days, -(-self.kept.quarters // _DAY_S) * _DAY_S)


def tenant_named(said: str) -> str:
    """The tenant in an address; raises ``BadInput`` for what can be none."""
    return Name("", "", said).tenant


def tenant_reach(now_ms: int) -> TenantReach:
    """How far back what tenants used is known."""
    trimmed = UsesTrimmed.objects.filter(uses=QuotaUseDay._meta.db_table).values_list("since", flat=True).first()
    return TenantReach(reach(now_ms), trimmed or 0)


def tenant_resolution(start_s: int, end_s: int, known: TenantReach) -> Resolution:
    """The finest that a chart of a time shows, and that is kept of all of it."""
    for resolution, longest_s in _LONGEST_S.items():
        if end_s - start_s <= longest_s and start_s >= known.since(resolution):
            return resolution
    return Resolution.DAY


def tenant_points(
    who: Actor, tenant: str, resolution: Resolution, steps: range, known: TenantReach
) -> list[TenantPoint]:
    """Those of the spans in which anything was used, the first first, of what ``who`` may see. None of what begins
    before :meth:`TenantReach.since`."""
    of = Q(tenant=tenant) & uses_q(visible_scopes(who, VIEW))
    start, end = max(steps.start, known.since(resolution)), steps.stop
    if resolution is Resolution.MINUTE:
        # One by one, as in :mod:`hbus_console.quotas.sums`.
        return _points(QuotaUse, of & Q(minute__in=range(start, end, QuotaUse.SPAN_S)), resolution)
    if resolution is Resolution.HOUR:
        return _points(QuotaUseRollup, of & _within(start, end), resolution)
    booked = max(start, known.days)
    before = _points(QuotaUseRollup, of & _within(start, min(booked, end)), resolution) if start < booked else []
    return before + _points(QuotaUseDay, of & _within(booked, end), resolution)


def _within(start: int, end: int) -> Q:
    return Q(minute__gte=start, minute__lt=end)


def _points(
    uses: type[QuotaUse] | type[QuotaUseRollup] | type[QuotaUseDay], of: Q, resolution: Resolution
) -> list[TenantPoint]:
    sums: dict[int, list[int]] = {}
    rows = uses.objects.filter(of).order_by().values_list("minute")
    # A float runs over no end, whatever releases of before booked.
    for minute, *counts in rows.annotate(**{f"of_{name}": mass(name) for name in _COUNTS}):
        span = sums.setdefault(minute // resolution.seconds * resolution.seconds, [0] * len(_COUNTS))
        for place, count in enumerate(counts):
            span[place] += round(count)
    return [TenantPoint(at, *counts) for at, counts in sorted(sums.items())]
