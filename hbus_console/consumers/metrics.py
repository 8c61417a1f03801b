"""The breaker of every subscription, as a gauge."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Gauge

from hbus_console.metrics import Gauges

_STATES = ("closed", "open", "probing")
_STATE = Gauge(
    "hbus_breaker_state",
    "1 for the state in which the subscription's breaker is, 0 for the others.",
    ("topic", "subscription", "state"),
    multiprocess_mode="mostrecent",
)
#: Of those that are not told apart: how many are in the state.
_GAUGES = Gauges({_STATE: sum})


def show_breakers(states: Mapping[tuple[str, str], str]) -> None:
    """Set the gauge from each (topic, subscription)'s state; one that is no longer there becomes NaN."""
    _GAUGES.show(
        ((*subscription, each), (float(each == state),)) for subscription, state in states.items() for each in _STATES
    )
