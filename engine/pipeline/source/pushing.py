"""Filters that Spark hands down: instants of storing become places, texts are compared before Spark sees a row."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from engine.pipeline.source.columns import COLUMNS

_US = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(slots=True)
class Wanted:
    """What of the filters is seen to here; the rest is :attr:`left` to Spark."""

    #: Stored from then on, and before then, epoch milliseconds.
    from_ms: int | None = None
    before_ms: int | None = None
    #: Column and the texts that it may have.
    texts: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    left: list[Filter] = field(default_factory=list)

    @classmethod
    def by(cls, filters: Iterable[Filter], columns: Sequence[str]) -> Wanted:
        made = cls()
        for each in filters:
            if not (made._takes_instant(each) or made._takes_text(each, columns)):
                made.left.append(each)
        return made

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those rows that are wanted by their texts."""
        if not self.texts:
            return batch
        masks = [pc.is_in(batch.column(name), pa.array(texts, pa.string())) for name, texts in self.texts]
        return batch.filter(functools.reduce(pc.and_, masks))

    def _takes_instant(self, each: Filter) -> bool:
        if not isinstance(each, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            return False
        if tuple(each.attribute) != ("stored_at",) or not _is_instant(each.value):
            return False
        us = (each.value - _EPOCH) // _US
        # Messages are stored at whole milliseconds.
        if isinstance(each, GreaterThan | GreaterThanOrEqual):
            bound = us // 1000 + 1 if isinstance(each, GreaterThan) else -(-us // 1000)
            self.from_ms = bound if self.from_ms is None else max(self.from_ms, bound)
        else:
            bound = us // 1000 + 1 if isinstance(each, LessThanOrEqual) else -(-us // 1000)
            self.before_ms = bound if self.before_ms is None else min(self.before_ms, bound)
        return True

    def _takes_text(self, each: Filter, columns: Sequence[str]) -> bool:
        if not isinstance(each, EqualTo | In):
            return False
        values = each.value if isinstance(each, In) else (each.value,)
        name = ".".join(each.attribute)
        if name not in columns or COLUMNS[name] != pa.string() or not all(isinstance(value, str) for value in values):
            return False
        self.texts.append((name, tuple(values)))
        return True


def _is_instant(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None
