"""The data of a flow chart: series of rates, and marks for what people did meanwhile; and of a chart of the lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core.clock import SystemClock, to_datetime
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.evidence.freshness import facts
from hbus_console.traffic import flow, history
from hbus_console.traffic.history import complete_slots
from hbus_console.ui.formats import epoch_ms
from hbus_console.ui.timerange import TimeRange

#: Acts that change what flows, and how a mark calls them.
MARKED = {
    "topic.create": "created",
    "topic.change": "changed",
    "topic.move": "moved",
    "topic.pause": "paused",
    "topic.resume": "resumed",
    "topic.delete": "deleted",
    "schema.add": "new schema",
    "subscription.create": "created",
    "subscription.change": "changed",
    "subscription.pause": "paused",
    "subscription.resume": "resumed",
    "subscription.drain": "drained",
    "subscription.delete": "deleted",
    "dead_letter.redrive": "redriven",
    "dead_letter.discard": "discarded",
    "operation.start": "started",
}
#: More marks than this are a wall; the newest are kept.
MOST_MARKS = 24

_clock = SystemClock()


def flow_chart(who: Actor, chosen: TimeRange, topic: str = "", subscription: str = "") -> dict[str, Any]:
    """What charts.js draws, for all that ``who`` may see, for one topic, or for one of its subscriptions.

    Raises ``Forbidden`` for a topic outside the actor's scopes.
    """
    if topic:
        require(who, VIEW, topic)
    scopes = visible_scopes(who)
    if topic:
        series = flow.series(chosen.start_ms, chosen.end_ms, scopes, topic, subscription)
        whole = complete_slots(series, chosen.end_ms, facts(_clock.now_ms()))
    else:
        past = history.of(scopes, chosen)
        series, whole = past.series, past.whole
    # Copies for one subscription are among them, whichever of its subscriptions that is.
    published = "published on the topic" if subscription else "published"
    lines: list[tuple[str, str, Sequence[float]]] = [
        (published, "accent", series.published),
        ("settled", "ok", series.settled),
        ("failed", "warn", series.retried),
        ("dead", "bad", series.dead),
    ]
    return {
        "t": series.t[:whole],
        "unit": "/s",
        "series": [
            {
                "name": name,
                "tone": tone,
                "values": [round(value, 2) for value in values[:whole]],
                "area": name == published,
                # Few beside the flow: a line of theirs would lie on the axis, so each slot with any has a bar.
                "quiet": name in ("failed", "dead"),
            }
            for name, tone, values in lines
        ],
        "marks": marks(who, chosen, topic, series.step_s),
    }


def lag_chart(who: Actor, chosen: TimeRange, topic: str = "", subscription: str = "") -> dict[str, Any]:
    """What charts.js draws of the messages that were not settled, likewise: the most of each slot that is over.

    Raises ``Forbidden`` for a topic outside the actor's scopes.
    """
    if topic:
        require(who, VIEW, topic)
        waiting = flow.lag_series(chosen.start_ms, chosen.end_ms, visible_scopes(who), topic, subscription)
    else:
        waiting = history.of(visible_scopes(who), chosen).waiting
    # The last one goes on: what is most in it is not known yet.
    line = {"name": "unsettled", "tone": "accent", "values": waiting.unsettled[:-1], "area": True, "quiet": False}
    return {
        "t": waiting.t[:-1],
        "unit": "",
        "series": [line],
        "marks": marks(who, chosen, topic, waiting.step_s),
    }


def marks(who: Actor, chosen: TimeRange, topic: str = "", step_s: int = 1) -> list[dict[str, Any]]:
    """Acts within ``chosen`` from the audit log, those of one slot together; none for who may not read it."""
    scopes = visible_scopes(who, AUDIT_READ)
    if not scopes:
        return []
    entries = AuditEntry.objects.filter(
        scopes_q(scopes, "namespace"),
        at__gte=to_datetime(chosen.start_ms),
        at__lt=to_datetime(chosen.end_ms),
        action__in=MARKED,
    )
    if topic:
        entries = entries.filter(namespace=topic)
    latest = list(entries.order_by("-seq")[:MOST_MARKS])
    slots: dict[int, list[AuditEntry]] = {}
    for entry in reversed(latest):
        slots.setdefault(epoch_ms(entry.at) // 1000 // step_s, []).append(entry)
    return [{"t": epoch_ms(acts[0].at) // 1000, "label": _label(acts)} for acts in slots.values()]


def _label(acts: Sequence[AuditEntry]) -> str:
    first = acts[0]
    text = f"{_thing(first)} {MARKED[first.action]} by {first.actor}"
    return text if len(acts) == 1 else f"{text}, and {len(acts) - 1} more"


def _thing(entry: AuditEntry) -> str:
    if entry.subject.kind == "operation":
        return f"operation {entry.subject.name} “{(entry.after or {}).get('title', '')}”"
    return entry.subject.name or entry.subject.namespace
