"""An audit of this installation's topics over its lake. It brings what reads files: no page imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db.models import Prefetch

from engine.core.clock import Clock, SystemClock
from engine.pipeline.audit.auditing import Auditor, TopicKnown
from engine.pipeline.audit.report import Report
from engine.pipeline.audit.tasks import ExecuteSides, in_threads
from engine.pipeline.lake.state import Kind, LakeState
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.pipelines.draining import drained_ms
from hbus_console.pipelines.payload_rules import SchemasOfTopic
from hbus_console.pipelines.standing import Standings
from hbus_console.pipelines.the_lake import lake
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.models import Topic

_TOLD_IN: dict[Kind, type[LedgerMessage] | type[LedgerEvent]] = {
    Kind.PUBLISHED: LedgerMessage,
    Kind.DELIVERIES: LedgerEvent,
}


def run_audit(
    names: Sequence[str],
    from_ms: int | None = None,
    to_ms: int | None = None,
    *,
    execute: ExecuteSides | None = None,
    window_ms: int | None = None,
    go_on: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> Report:
    """Of these topics of the lake, or of all that it has messages of. Raises as
    :meth:`~engine.pipeline.audit.auditing.Auditor.run`.
    """
    # Before the lake is looked at: what comes into it meanwhile is judged as what came before.
    now_ms = (clock or SystemClock()).now_ms()
    state = lake().state()
    wanted = list(names) or sorted({file.topic for file in state.files.values()})
    standings = Standings(state)
    # Of a schema that no file needs only the version is read.
    schemas = Prefetch("schemas", SchemaVersion.objects.defer("body"))
    rows = Topic.objects.filter(name__in=wanted).prefetch_related("subscriptions", schemas)
    known = {topic.name: _known(topic, state, standings, now_ms) for topic in rows}
    auditor = Auditor(lake(), execute or in_threads(), go_on=go_on)
    return auditor.run(wanted, from_ms, to_ms, window_ms=window_ms, known=known)


def _known(topic: Topic, state: LakeState, standings: Standings, now_ms: int) -> TopicKnown:
    subscriptions = {row.group: round(row.created_at.timestamp() * 1000) for row in topic.subscriptions.all()}
    payloads = SchemasOfTopic(topic)
    if not _has_caught_up(topic, state, standings):
        return TopicKnown(subscriptions, payloads=payloads)
    drained = {group: drained_ms(topic.name, group, now_ms) for group in subscriptions}
    return TopicKnown(subscriptions, complete_ms=now_ms, drained=drained, payloads=payloads)


def _has_caught_up(topic: Topic, state: LakeState, standings: Standings) -> bool:
    """Whether all that the topic holds, and the ledger tells of it, is in the lake."""
    booked = state.held(topic.name).booked
    return standings.waiting(topic).messages == 0 and not any(
        model.objects.filter(topic=topic.name, pk__gt=booked.get(kind, 0)).exists() for kind, model in _TOLD_IN.items()
    )
