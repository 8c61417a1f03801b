"""Turns facts of engines that have no ledger of their own into rows: evidence that any of them can be asked about."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import msgspec

from engine.core.fact_kinds import FACTS
from engine.core.facts import MOST_THINGS, CoreFields, FactBatch, Fields
from hbus_console.evidence.columns import Row, each, numbers, texts
from hbus_console.evidence.inserting import Insert
from hbus_console.evidence.kinds import kinds

NOTICES = Insert("ledger_notice", ("kind", "at_ms", "topic", "subscription", "node", "count", "detail"))
_EVIDENCE = Insert(
    "ledger_evidence", ("kind", "subject", "namespace", "at_ms", "node", "correlation_id", "detail", "fields")
)
#: The longest text of a field.
_LONGEST = 500

_OF_NOBODY = frozenset(kind.name for kind in FACTS.kinds)
_json = msgspec.json.Encoder()


class EvidenceRows:
    """What facts amount to whose engine has no projection of its own: a row each; without ``per_fact`` only notices.

    Those that belong to no engine are notices of hbus about itself.
    """

    engine = ""

    def __init__(self, per_fact: bool = True) -> None:
        self._per_fact = per_fact
        self._evidence: list[Row] = []
        self._notices: list[Row] = []

    def add(self, batch: FactBatch) -> None:
        """Make rows of one batch; one of a kind that nobody declares is passed over."""
        kind = kinds().get(batch.kind)
        if kind is None:
            return
        if batch.kind in _OF_NOBODY:
            self._notices += _notices(batch)
        elif self._per_fact and kind.booked:
            self._evidence += _rows(batch)

    def write(self) -> None:
        """Insert everything into the ledger database. The caller opens the transaction."""
        _EVIDENCE.run(self._evidence)
        NOTICES.run(self._notices)


def _rows(batch: FactBatch) -> Iterable[Row]:
    count = batch.count
    return zip(
        repeat(batch.kind, count),
        repeat("" if batch.subject is None else str(batch.subject), count),
        repeat("" if batch.subject is None else batch.subject.namespace, count),
        each(batch.at_ms, count),
        texts(batch.node, count, 100),
        texts(batch.correlation_id, count, 128),
        texts(batch.detail, count, 500),
        _documents(batch.fields, count),
        strict=True,
    )


def _documents(fields: Fields, count: int) -> Iterable[str]:
    """Each fact's own fields as JSON, without those that do not apply."""
    columns = msgspec.structs.asdict(fields)
    if not any(isinstance(column, list) for column in columns.values()):
        return repeat(_document(columns), count)
    return [
        _document({name: column[index] if isinstance(column, list) else column for name, column in columns.items()})
        for index in range(count)
    ]


def _document(values: dict[str, str | int]) -> str:
    cleaned = {
        name: value[:_LONGEST].replace("\x00", "") if isinstance(value, str) else value
        for name, value in values.items()
        if value not in ("", 0)
    }
    return _json.encode(cleaned).decode()


def _notices(batch: FactBatch) -> Iterable[Row]:
    count = batch.count
    amounts = batch.fields.amount if isinstance(batch.fields, CoreFields) else 0
    return zip(
        repeat(batch.kind, count),
        each(batch.at_ms, count),
        repeat("", count),
        repeat("", count),
        texts(batch.node, count, 100),
        numbers(amounts, count, MOST_THINGS),
        texts(batch.detail, count, 500),
        strict=True,
    )
