"""What moves: rates, and what waits.

``published``, ``settled``, ``unsettled`` (with ``/note``) and ``handling`` (with ``/unit``) by themselves, ``rate`` and
``unsettled`` of ``topic/NAME`` and ``subscription/TOPIC/GROUP`` (there with ``/note``). Its marks are the subjects of
these rows, and ``messages`` for all that flows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from engine.bus.subjects import subscription_subject, topic_subject
from hbus_console.access.scopes import scopes_q
from hbus_console.cluster import probes
from hbus_console.evidence.freshness import Freshness
from hbus_console.topics.models import Topic
from hbus_console.traffic.flow import BUCKET_MS, STILL, LagNow
from hbus_console.traffic.standing import NOT_KNOWN, Backlog, Standing, handling, parts, standing
from hbus_console.ui import formats
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """How things flow now in ``scopes``."""
    return told(
        standing(now_ms, scopes), now_ms, Topic.objects.filter(scopes_q(scopes, "name")).values_list("name", flat=True)
    )


def told(stand: Standing, now_ms: int, topics: Iterable[str] = ()) -> LiveCells:
    """``stand`` in words; of each of ``topics`` also when nothing of it moves and nobody reads it."""
    total, topics = stand.now.total, list(topics)
    value, unit = handling(total.handler_us)
    return LiveCells(
        texts={
            "published": formats.rate(total.published),
            "settled": formats.rate(total.settled),
            "unsettled": stand.backlog.told,
            "unsettled/note": stand.backlog.since(now_ms),
            "handling": value,
            "handling/unit": unit,
        },
        rows=_topics(stand, topics) | _subscriptions(stand),
        blank={"topic": {"rate": formats.rate(stand.now.rest.published), "unsettled": formats.num(0)}},
        stale=_stale(stand, now_ms),
        marks=_marks(stand, now_ms, topics),
    )


def _marks(stand: Standing, now_ms: int, topics: Iterable[str]) -> dict[str, Hashable]:
    """What flows or waits is marked anew with every bucket: charts go on, and what waits grows older."""
    bucket, letters = now_ms // BUCKET_MS, stand.dead.known
    found: dict[str, Hashable] = {
        str(topic_subject(topic)): (stand.now.topic(topic), letters, bucket)
        for topic in {*stand.now.topics, *topics}
        if stand.now.topic(topic) != STILL or not letters
    }
    for topic, group in {*stand.now.subscriptions, *stand.lag, *stand.unread}:
        rates, lag = stand.now.subscription(topic, group), stand.lag.get((topic, group))
        moves = rates != STILL or (lag is not None and lag.unsettled != 0)
        found[str(subscription_subject(topic, group))] = (rates, letters, _where(lag), bucket if moves else 0)
    if stand.now.total != STILL:
        found["messages"] = (stand.now.total, bucket)
    return found


def _where(lag: LagNow | None) -> Hashable:
    """Where a subscription stands, without when that was read."""
    return lag and (lag.waiting, lag.in_flight, lag.retrying, lag.oldest_ms, lag.parked, lag.old)


def _topics(stand: Standing, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    return {
        f"topic/{topic}": {
            "rate": formats.rate(stand.now.topic(topic).published),
            "unsettled": stand.backlog_of(topic).told,
        }
        for topic in {*topics, *stand.now.topics, *(name for name, _ in (*stand.lag, *stand.unread))}
    }


def _subscriptions(stand: Standing) -> dict[str, dict[str, str]]:
    rows = {}
    for topic, group in {*stand.now.subscriptions, *stand.lag, *stand.unread}:
        lag = stand.lag.get((topic, group))
        rows[f"subscription/{topic}/{group}"] = {
            "rate": formats.rate(stand.now.subscription(topic, group).settled),
            "unsettled": Backlog.of([lag]).told,
            "unsettled/note": parts(lag) if lag else NOT_KNOWN,
        }
    return rows


def _stale(stand: Standing, now_ms: int) -> str:
    """Why the figures are old, if they are: nobody can ask the store, or nobody does."""
    newest = max((lag.at_ms for lag in stand.lag.values()), default=None)
    if why := once_a_poll(probes.obstacle):
        # Nothing is waited for: from now on they are what they were.
        return f"No figure is newer than {formats.clock(newest)[:8]}. {why}" if newest else why
    if newest is not None and not Freshness.at(newest, now_ms).known:
        return f"No figure is newer than {formats.clock(newest)[:8]}: no keeper is sampling."
    if not stand.booked.known:
        return f"What flows is {stand.booked.why}: no keeper is booking it."
    return ""
