"""The topics as the engine asks for them: every policy of the database in memory, two seconds fresh at worst."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from django.db import DatabaseError, connection, transaction
from django.db.models import Max

from engine.bus.catalog import SchemaCheck, TopicPolicy
from engine.bus.errors import UnknownTopic
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError, Unavailable
from hbus_console.schemas.checking import check_of
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from hbus_console.wiring.store import once

log = structlog.get_logger(__name__)

#: Seconds a policy may be used before the database is asked again.
FRESH_S = 2.0
#: Seconds for which known policies still hold while the database does not answer.
GRACE_S = 60.0
#: So long after a change of a topic nobody publishes by its old rules any more, with some seconds for the publish that
#: had begun.
OLD_RULES_MS = round((GRACE_S + FRESH_S) * 1000) + 3_000

_generation = 0
_generation_lock = threading.Lock()


def changed() -> None:
    """Make every catalog of this process read again: at once, and once more when the open transaction commits."""
    _next_generation()
    if connection.in_atomic_block:
        transaction.on_commit(_next_generation)


def _next_generation() -> None:
    global _generation  # noqa: PLW0603 - one number per process is exactly what is meant
    with _generation_lock:
        _generation += 1


def moved_since(topic: str, then: datetime) -> bool:
    """Whether what was published then may lie where the topic was before, which its transport of now does not know."""
    # Whoever knows old rules publishes by them for a while.
    return Topic.objects.filter(name=topic, moved_at__gt=then - timedelta(seconds=GRACE_S)).exists()


@dataclass(frozen=True)
class _Snapshot:
    policies: dict[str, TopicPolicy]
    read_at: float
    #: When the database is asked again.
    good_until: float
    generation: int


class DjangoCatalog:
    """A ``TopicCatalog`` over the database. Thread-safe.

    One query reads all topics; a second one only when a schema version appears that was not compiled before. While
    the database fails, what is known holds for :data:`GRACE_S` seconds, then ``topic`` raises ``Unavailable``.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._snapshot: _Snapshot | None = None
        self._compiled: dict[tuple[int, int], SchemaCheck] = {}

    def topic(self, name: str) -> TopicPolicy:
        """Raises :class:`UnknownTopic`, or ``Unavailable`` when nothing recent is known."""
        try:
            return self._current().policies[name]
        except KeyError:
            raise UnknownTopic(
                f"There is no topic {name!r}.",
                remedy="Create it with an owner first, under Topics or with POST /api/v1/topics.",
                field="topic",
            ) from None

    def _current(self) -> _Snapshot:
        snapshot = self._snapshot
        if snapshot is not None and self._is_fresh(snapshot):
            return snapshot
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None or not self._is_fresh(snapshot):
                snapshot = self._snapshot = self._refresh(snapshot)
            return snapshot

    def _is_fresh(self, snapshot: _Snapshot) -> bool:
        return snapshot.generation == _generation and self._clock.monotonic() < snapshot.good_until

    def _refresh(self, before: _Snapshot | None) -> _Snapshot:
        generation, now = _generation, self._clock.monotonic()
        try:
            policies = self._read()
        except DatabaseError as error:
            # A connection that died under a long-lived thread is thrown away, so that the next read opens another.
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
            if before is not None and now - before.read_at < GRACE_S:
                log.warning("topics could not be read; what is known holds", error=words_of(error))
                return replace(before, good_until=now + FRESH_S, generation=generation)
            raise Unavailable(
                "The topics could not be read from the database.", remedy="Try again when the database answers."
            ) from error
        return _Snapshot(policies, now, now + FRESH_S, generation)

    def _read(self) -> dict[str, TopicPolicy]:
        rows = list(Topic.objects.select_related("team").annotate(schema_version=Max("schemas__version")))
        self._compile({(row.pk, row.schema_version) for row in rows if row.schema_version})
        return {row.name: self._policy(row, row.schema_version) for row in rows}

    def _compile(self, wanted: set[tuple[int, int]]) -> None:
        self._compiled = {key: check for key, check in self._compiled.items() if key in wanted}
        missing = wanted - self._compiled.keys()
        if not missing:
            return
        versions = SchemaVersion.objects.select_related("topic").filter(topic_id__in={topic for topic, _ in missing})
        for row in versions:
            if (row.topic_id, row.version) in missing:
                self._compiled[row.topic_id, row.version] = check_of(row)

    def _policy(self, row: Topic, version: int | None) -> TopicPolicy:
        return TopicPolicy(
            name=row.name,
            owner=row.team.name if row.team else "",
            classification=row.classification,
            ordering=row.ordering,
            partitions=row.partitions,
            priorities=row.priorities and _able(row, "priority"),
            max_bytes=row.max_bytes,
            idempotency_window_s=row.idempotency_window_s,
            schema=self._compiled.get((row.pk, version)) if version else None,
            ttl_s=row.ttl_s or None,
            transport=row.transport,
            replicas=bus.replicas_of(row.transport),
            incarnation=str(row.pk),
        )


def shared() -> DjangoCatalog:
    """The one that everything in this process asks."""
    return once("catalog", DjangoCatalog)


def _able(row: Topic, promise: str) -> bool:
    """Whether the transport keeps a promise. The installation's default may be another than when the row was made."""
    try:
        return bool(getattr(bus.transport(row.transport).capabilities, promise))
    except ConfigurationError:
        # It cannot be opened at all: the publish itself says so.
        return True
