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
from hbus_console.topics.models import Topic
from hbus_console.traffic.flow import BUCKET_MS, LagNow, Rates
from hbus_console.traffic.standing import NOT_KNOWN, Backlog, Standing, handling, parts, standing
from hbus_console.ui import formats
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll

#: Evidence older than this is called old: three samples were not taken.
STALE_MS = 15_000
_STILL = Rates()


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """How things flow now in ``scopes``."""
    return told(
        standing(now_ms, scopes), now_ms, Topic.objects.filter(scopes_q(scopes, "name")).values_list("name", flat=True)
    )


def told(stand: Standing, now_ms: int, topics: Iterable[str] = ()) -> LiveCells:
    """``stand`` in words; of each of ``topics`` also when nothing of it moves and nobody reads it."""
    total = stand.now.total
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
        blank={"topic": {"rate": formats.rate(0), "unsettled": formats.num(0)}},
        stale=_stale(stand, now_ms),
        marks=_marks(stand, now_ms),
    )


def _marks(stand: Standing, now_ms: int) -> dict[str, Hashable]:
    """What flows or waits is marked anew with every bucket: charts go on, and what waits grows older."""
    bucket = now_ms // BUCKET_MS
    found: dict[str, Hashable] = {
        str(topic_subject(topic)): (rates, bucket) for topic, rates in stand.now.topics.items() if rates != _STILL
    }
    for topic, group in {*stand.now.subscriptions, *stand.lag, *stand.unread}:
        rates, lag = stand.now.subscriptions.get((topic, group), _STILL), stand.lag.get((topic, group))
        moves = rates != _STILL or (lag is not None and lag.unsettled != 0)
        found[str(subscription_subject(topic, group))] = (rates, _where(lag), bucket if moves else 0)
    if stand.now.total != _STILL:
        found["messages"] = (stand.now.total, bucket)
    return found


def _where(lag: LagNow | None) -> Hashable:
    """Where a subscription stands, without when that was read."""
    return lag and (lag.waiting, lag.in_flight, lag.retrying, lag.oldest_ms, lag.parked)


def _topics(stand: Standing, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    rates = stand.now.topics
    return {
        f"topic/{topic}": {
            "rate": formats.rate(rates[topic].published if topic in rates else 0),
            "unsettled": stand.backlog_of(topic).told,
        }
        for topic in {*topics, *rates, *(name for name, _ in (*stand.lag, *stand.unread))}
    }


def _subscriptions(stand: Standing) -> dict[str, dict[str, str]]:
    rows = {}
    for topic, group in {*stand.now.subscriptions, *stand.lag, *stand.unread}:
        settled, lag = stand.now.subscriptions.get((topic, group)), stand.lag.get((topic, group))
        rows[f"subscription/{topic}/{group}"] = {
            "rate": formats.rate(settled.settled if settled else 0),
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
    if newest is None or now_ms - newest < STALE_MS:
        return ""
    return f"No figure is newer than {formats.clock(newest)[:8]}: no keeper is sampling."
