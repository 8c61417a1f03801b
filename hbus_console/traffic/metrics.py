"""The lag of every subscription, as gauges."""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client import Gauge

from hbus_console.messages.models import LagSample
from hbus_console.metrics import Gauges

_PAIR = ("topic", "subscription")
_UNSETTLED = Gauge("hbus_unsettled_messages", "Messages not settled yet.", _PAIR, multiprocess_mode="mostrecent")
_OLDEST = Gauge(
    "hbus_oldest_unsettled_seconds", "Age of the oldest unsettled message.", _PAIR, multiprocess_mode="mostrecent"
)
_GAUGES = Gauges({_UNSETTLED: sum, _OLDEST: max})


def show_lag(samples: Iterable[LagSample], now_ms: int) -> None:
    """Set the gauges; NaN for what the store could not tell, and for a subscription that is no longer sampled."""
    _GAUGES.show(
        ((sample.topic, sample.subscription), (_unsettled(sample), _oldest_s(sample, now_ms))) for sample in samples
    )


def _unsettled(sample: LagSample) -> float:
    if sample.waiting is None:
        return math.nan
    return sample.waiting + sample.in_flight + sample.retrying + sample.parked


def _oldest_s(sample: LagSample, now_ms: int) -> float:
    if sample.oldest_ms is None:
        return math.nan if sample.waiting is None else 0
    return max(0, now_ms - sample.oldest_ms) / 1000
