"""Turns facts into rows of the ledger, in bulk. The caller opens the transaction.

Written in SQL that SQLite and PostgreSQL share: going through model instances costs more than the insert itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import add

from django.db import connections

from engine.core.facts import Fact
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.models import FlowRollup, FlowSample

BUCKET_MS = FlowSample.BUCKET_S * 1000
ROLLUP_MS = FlowRollup.BUCKET_S * 1000

#: Kinds that concern no single message.
_NOTICES = frozenset(
    {
        "group_lost",
        "retention_held",
        "trimmed",
        "store_lost",
        "store_back",
        "facts_dropped",
        "breaker_opened",
        "breaker_probing",
        "breaker_closed",
    }
)
#: What each kind adds to in a flow sample, and whether it is the topic's own row that counts it.
_COLUMNS = (
    "published", "deduplicated", "settled", "settled_first", "retried", "dead", "expired", "duration_us", "failed",
)  # fmt: skip
_COLUMN_OF = {
    "published": 0,
    "deduplicated": 1,
    "settled": 2,
    "retried": 4,
    "dead": 5,
    "expired": 6,
    "publish_failed": 8,
}
_SETTLED_FIRST, _DURATION, _FAILED = 3, 7, 8

# A delayed message is met twice: accepted without a position, then published with one, in either order.
_INSERT_MESSAGE = """
INSERT INTO ledger_ledgermessage (message_id, topic, type, source, key, correlation_id, causation_id, trace_id,
    position, size, published_ms, due_ms, stored_us)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (message_id, source) DO UPDATE
    SET position = excluded.position, published_ms = excluded.published_ms, stored_us = excluded.stored_us
    WHERE excluded.position <> ''
"""
_INSERT_EVENT = """
INSERT INTO ledger_ledgerevent (message_id, kind, topic, subscription, at_ms, attempt, duration_us, due_ms, node,
    error, fingerprint, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_INSERT_NOTICE = """
INSERT INTO ledger_notice (kind, at_ms, topic, subscription, node, count, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s)
"""


def _adding_to(table: str) -> str:
    return f"""
INSERT INTO {table} (topic, subscription, bucket_ms, {", ".join(_COLUMNS)})
VALUES (%s, %s, %s, {", ".join(["%s"] * len(_COLUMNS))})
ON CONFLICT (topic, subscription, bucket_ms) DO UPDATE
    SET {", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in _COLUMNS)}
"""  # noqa: S608 - names are constants of this module


_ADD_FLOW, _ADD_ROLLUP = _adding_to("ledger_flowsample"), _adding_to("ledger_flowrollup")

Row = tuple[str | int, ...]
#: The largest number of a PostgreSQL integer.
_INT4 = 2**31 - 1


@dataclass
class Rows:
    """What one batch of facts amounts to."""

    messages: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    notices: list[Row] = field(default_factory=list)
    flow: dict[tuple[str, str, int], list[int]] = field(default_factory=dict)

    def add(self, facts: Iterable[Fact], *, per_message: bool) -> None:
        """Sort ``facts`` into rows; without ``per_message`` only flow and notices."""
        messages, events, flow = self.messages.append, self.events.append, self.flow
        for fact in facts:
            kind = fact.kind
            if kind in _NOTICES:
                self.notices.append(_notice(fact))
                continue
            column = _COLUMN_OF.get(kind)
            if column is not None:
                cell = (fact.topic, fact.subscription, fact.at_ms - fact.at_ms % BUCKET_MS)
                counts = flow.get(cell)
                if counts is None:
                    counts = flow[cell] = [0] * len(_COLUMNS)
                # One fact tells of all messages that failed in one call.
                counts[column] += fact.size if column == _FAILED else 1
                if kind == "settled":
                    counts[_DURATION] += fact.duration_us
                    if fact.attempt <= 1:
                        counts[_SETTLED_FIRST] += 1
            if not per_message or not fact.message_id:
                continue
            if kind in ("published", "delayed"):
                messages(_message(fact))
            if kind != "published":
                events(_event(fact))

    def _rolled_up(self) -> dict[tuple[str, str, int], list[int]]:
        """The flow of this batch in the longer spans: mostly one for each topic and subscription."""
        found: dict[tuple[str, str, int], list[int]] = {}
        for (topic, subscription, bucket_ms), counts in self.flow.items():
            cell = (topic, subscription, bucket_ms - bucket_ms % ROLLUP_MS)
            known = found.get(cell)
            found[cell] = list(counts) if known is None else list(map(add, known, counts))
        return found

    def write(self) -> None:
        """Insert everything into the ledger database."""
        connection = connections[LEDGER]
        flow: list[Row] = [(*cell, *counts) for cell, counts in self.flow.items()]
        rollup: list[Row] = [(*cell, *counts) for cell, counts in self._rolled_up().items()]
        with connection.cursor() as cursor:
            for statement, rows in (
                (_INSERT_MESSAGE, self.messages),
                (_INSERT_EVENT, self.events),
                (_INSERT_NOTICE, self.notices),
                (_ADD_FLOW, flow),
                (_ADD_ROLLUP, rollup),
            ):
                if rows:
                    cursor.executemany(statement, rows)


def _message(fact: Fact) -> Row:
    return (
        _clean(fact.message_id, 64),
        _clean(fact.topic, 200),
        _clean(fact.type, 200),
        _clean(fact.source, 300),
        _clean(fact.key, 200),
        _clean(fact.correlation_id, 128),
        _clean(fact.causation_id, 64),
        _clean(fact.trace_id, 32),
        _clean(fact.position, 64),
        min(fact.size, _INT4),
        fact.at_ms,
        fact.due_ms,
        fact.duration_us,
    )


def _event(fact: Fact) -> Row:
    return (
        _clean(fact.message_id, 64),
        fact.kind[:20],
        _clean(fact.topic, 200),
        _clean(fact.subscription, 100),
        fact.at_ms,
        min(fact.attempt, _INT4),
        fact.duration_us,
        fact.due_ms,
        _clean(fact.node, 100),
        _clean(fact.error, 500),
        _clean(fact.fingerprint, 16),
        _clean(fact.detail, 500),
    )


def _notice(fact: Fact) -> Row:
    return (
        fact.kind,
        fact.at_ms,
        _clean(fact.topic, 200),
        _clean(fact.subscription, 100),
        _clean(fact.node, 100),
        fact.size,
        _clean(fact.detail or fact.error, 500),
    )


def _clean(text: str, limit: int) -> str:
    """What every database takes: PostgreSQL refuses NUL and, unlike SQLite, what is too long."""
    return text[:limit].replace("\x00", "") if text else ""
