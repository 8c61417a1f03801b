"""Where subscriptions stood at the newest sample, as the measures of alert rules read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.db.models import Max

from hbus_console.alerts.round import Round
from hbus_console.evidence.freshness import Freshness
from hbus_console.messages.models import LagSample


class Sampled(NamedTuple):
    """One subscription at that instant."""

    #: ``None``: the store could not tell.
    unsettled: int | None
    #: When the longest-waiting message was published; epoch milliseconds.
    oldest_ms: int | None
    parked: int


def newest_sample(now: Round) -> Mapping[tuple[str, str], Sampled]:
    """By topic and group, in two queries; empty when nobody has sampled lately."""
    newest = LagSample.objects.aggregate(newest=Max("at_ms"))["newest"]
    if not Freshness.at(newest, now.now_ms).known:
        return {}
    # One tick of the sampler stamps all its rows with the same instant.
    rows = LagSample.objects.filter(at_ms=newest).values_list(
        "topic", "subscription", "waiting", "in_flight", "retrying", "parked", "oldest_ms"
    )
    return {
        (topic, group): Sampled(None if waiting is None else waiting + in_flight + retrying + parked, oldest, parked)
        for topic, group, waiting, in_flight, retrying, parked, oldest in rows
    }
