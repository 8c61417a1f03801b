"""What was used over a time: its whole quarters of an hour from the roll-up, and the rest of it by the minute.

With thousands of limiters that are many times fewer rows, and the same sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import F, Field, Q, QuerySet, Sum

from engine.quota.uses import Key
from hbus_console.evidence.totals import mass, total
from hbus_console.quotas.models import QuotaUse, QuotaUseRollup, UsesTrimmed
from hbus_console.quotas.retention import USES_S

MINUTE_S, QUARTER_S = QuotaUse.SPAN_S, QuotaUseRollup.SPAN_S

#: From when to when, in seconds since the epoch; the last second is not in it.
_Span = tuple[int, int]


@dataclass(frozen=True)
class UsesReach:
    """Since when uses are kept whole, in seconds since the epoch: those of single minutes, and those of quarters."""

    minutes: int
    quarters: int


def reach(now_ms: int) -> UsesReach:
    """How far uses reach back. One query."""
    trimmed = dict(UsesTrimmed.objects.values_list("uses", "since"))
    oldest = now_ms // 1000 - USES_S

    def since(uses: type[QuotaUse] | type[QuotaUseRollup]) -> int:
        return max(trimmed.get(uses._meta.db_table, 0), -(-oldest // uses.SPAN_S) * uses.SPAN_S)

    return UsesReach(since(QuotaUse), since(QuotaUseRollup))


def used_over(of: Q, start: int, end: int, kept: UsesReach) -> tuple[int, int]:
    """Tokens that were admitted and refused. Where single minutes are kept no longer, whole quarters are counted."""
    admitted = refused = 0
    for rows in _read(of, start, end, kept):
        sums = rows.aggregate(**_sums(rows))
        admitted, refused = admitted + round(sums["a"] or 0), refused + round(sums["r"] or 0)
    return admitted, refused


def used_by_tenant(of: Q, start: int, end: int, kept: UsesReach) -> dict[str, tuple[int, int]]:
    """Likewise, by tenant."""
    admitted, refused = Counter[str](), Counter[str]()
    for rows in _read(of, start, end, kept):
        for tenant, passed, lost in rows.order_by().values_list("tenant").annotate(**_sums(rows)):
            admitted[tenant] += round(passed)
            refused[tenant] += round(lost)
    return {tenant: (passed, refused[tenant]) for tenant, passed in admitted.items()}


def used_by_slot(of: Q, start: int, end: int, step: int, limiter: Key | None = None) -> dict[int, tuple[int, int]]:
    """Likewise, by the second at which a slot of ``step`` begins, of those in which something was. ``start`` and
    ``end`` are such seconds. Long slots are made of quarters, short ones of minutes.

    ``limiter`` is the one that ``of`` is about, if it is one.
    """
    rows: QuerySet[QuotaUse] | QuerySet[QuotaUseRollup]
    if step % QUARTER_S:
        rows = _minutes(of, start, end)
    elif limiter is None:
        rows = _quarters(of, start, end)
    else:
        # One by one: their index begins with them, and of a range those of all limiters would be read.
        rows = QuotaUseRollup.objects.filter(of, minute__in=range(start, end, QUARTER_S))
    admitted, refused = Counter[int](), Counter[int]()
    # By what the index is in the order of: by slots a database would sort all that it reads.
    for minute, passed, lost in rows.order_by().values_list("minute").annotate(**_sums(rows)):
        admitted[minute // step * step] += round(passed)
        refused[minute // step * step] += round(lost)
    return {slot: (passed, refused[slot]) for slot, passed in admitted.items()}


def used_by_minute(of: Q, start: int, end: int) -> dict[int, tuple[int, int]]:
    """Likewise, by the second at which a minute begins: for times of which these are kept."""
    rows = _minutes(of, start, end).order_by()
    found = rows.values_list("minute").annotate(**_sums(rows))
    return {minute: (passed, lost) for minute, passed, lost in found}


def asked_by_minute(of: Q, start: int, end: int, tenants: Sequence[str]) -> Iterable[tuple[int, str, int]]:
    """The minute, the tenant, and what was asked, admitted or not: of each of ``tenants``, likewise."""
    rows = _minutes(of, start, end).filter(tenant__in=tenants).order_by()
    # One sum, as bare as can be: there are a hundred thousand of them. The minute first, as the index has it.
    asked = Sum(F("admitted") + F("refused"), output_field=Field())
    for minute, tenant, count in rows.values_list("minute", "tenant").annotate(asked=asked).iterator(chunk_size=5_000):
        yield minute, tenant, int(count)


def _read(of: Q, start: int, end: int, kept: UsesReach) -> Iterator[QuerySet[QuotaUse] | QuerySet[QuotaUseRollup]]:
    quarters, minutes = parts(start, end, kept)
    if quarters is not None:
        yield _quarters(of, *quarters)
    for span in minutes:
        yield _minutes(of, *span)


def parts(start: int, end: int, kept: UsesReach) -> tuple[_Span | None, list[_Span]]:
    """The quarters that a time is read from, and the minutes: those that no whole quarter of it has. Where these are
    not kept the quarter that they are in stands for them.
    """
    floor, ceiling = start // QUARTER_S * QUARTER_S, -(-start // QUARTER_S) * QUARTER_S
    first = max(ceiling if start >= kept.minutes else floor, kept.quarters)
    last = end // QUARTER_S * QUARTER_S
    if last < kept.minutes and last < end:
        last += QUARTER_S
    begin = max(start, kept.minutes)
    if first >= last:
        return None, [(begin, end)] if begin < end else []
    return (first, last), [span for span in ((begin, first), (last, end)) if span[0] < span[1]]


def _minutes(of: Q, start: int, end: int) -> QuerySet[QuotaUse]:
    # One by one, of a day and some at most: of a range SQLite may think that it is found faster in the index of
    # limiters, and read all that is kept of a service.
    return QuotaUse.objects.filter(of, minute__in=range(-(-start // MINUTE_S) * MINUTE_S, end, MINUTE_S))


def _quarters(of: Q, start: int, end: int) -> QuerySet[QuotaUseRollup]:
    return QuotaUseRollup.objects.filter(of, minute__gte=start, minute__lt=end)


def _sums(rows: QuerySet[QuotaUse] | QuerySet[QuotaUseRollup]) -> dict[str, Sum]:
    # A quarter may have more than what is taken of a row, and a float runs over no end.
    add = mass if rows.model is QuotaUseRollup else total
    return {"a": add("admitted"), "r": add("refused")}
