"""Adds up what limits admitted and refused, by the minute, by the quarter of an hour and by the day."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import add

from engine.core.facts import MOST_THINGS, FactBatch
from engine.quota.facts import QuotaFields
from hbus_console.evidence.columns import Row, each, numbers, texts
from hbus_console.evidence.inserting import Insert
from hbus_console.evidence.rows import EvidenceRows
from hbus_console.quotas.models import TENANT_MOST, QuotaUse, QuotaUseDay, QuotaUseRollup

MINUTE_MS = 60_000
#: By the kinds of facts, where their amounts are added.
_COLUMNS = {"quota_admitted": 0, "quota_delayed": 1, "quota_refused": 2, "quota_shadowed": 3}
_NAMES = ("admitted", "delayed", "refused", "shadowed")
#: A span with its limiter, and what it counts.
_Sums = dict[tuple[int, str, str, str], list[int]]


def _adding_to(table: str) -> Insert:
    return Insert(
        table,
        ("minute", "service", "resource", "tenant", *_NAMES),
        "ON CONFLICT (minute, service, resource, tenant) DO UPDATE SET "
        + ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in _NAMES),
    )


_MINUTES, _ROLLUP, _DAYS = (_adding_to(uses._meta.db_table) for uses in (QuotaUse, QuotaUseRollup, QuotaUseDay))


class QuotaProjection:
    """A :class:`~hbus_console.evidence.booking.Projection`; what is no use of a limit becomes a row of evidence."""

    engine = "quota"

    def __init__(self, per_fact: bool = True) -> None:
        self._rest = EvidenceRows(per_fact)
        self._uses: _Sums = {}

    def add(self, batch: FactBatch) -> None:
        """Take in one batch."""
        column = _COLUMNS.get(batch.kind)
        if column is None:
            self._rest.add(batch)
            return
        for minute, name, amount in _rows(batch):
            self._uses.setdefault((minute, *name), [0, 0, 0, 0])[column] += amount

    def write(self) -> None:
        """Insert everything into the ledger database. The caller opens the transaction."""
        bounded = {key: [min(count, MOST_THINGS) for count in counts] for key, counts in self._uses.items()}
        _MINUTES.run(_cells(bounded))
        quarters = _rolled_up(bounded, QuotaUseRollup.SPAN_S)
        _ROLLUP.run(_cells(quarters))
        _DAYS.run(_cells(_rolled_up(quarters, QuotaUseDay.SPAN_S)))
        self._rest.write()


def _rolled_up(uses: _Sums, span_s: int) -> _Sums:
    """In longer spans: mostly one for each limiter."""
    found: _Sums = {}
    for (minute, *name), counts in uses.items():
        service, resource, tenant = name
        cell = minute - minute % span_s, service, resource, tenant
        known = found.get(cell)
        found[cell] = counts if known is None else list(map(add, known, counts))
    return found


def _cells(uses: _Sums) -> list[Row]:
    return [(*key, *counts) for key, counts in uses.items()]


def _rows(batch: FactBatch) -> Iterable[tuple[int, tuple[str, str, str], int]]:
    count, fields = batch.count, batch.fields
    if not isinstance(fields, QuotaFields):
        return []
    minutes = (at_ms // MINUTE_MS * 60 for at_ms in each(batch.at_ms, count))
    names = zip(
        texts(fields.service, count, TENANT_MOST),
        texts(fields.resource, count, TENANT_MOST),
        texts(fields.tenant, count, TENANT_MOST),
        strict=False,
    )
    # The columns that are one value for all go on for ever.
    return islice(zip(minutes, names, numbers(fields.amount, count, MOST_THINGS), strict=False), count)
