"""What alert rules may watch of how subscriptions handle failure: parked keys and open breakers."""

from __future__ import annotations

from collections.abc import Mapping

from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.subscriptions.services.breaker import outages
from hbus_console.subscriptions.targets import SUBSCRIPTIONS
from hbus_console.traffic.lag import newest_sample


def _parked(case: Case) -> float | None:
    sampled = case.round.once(newest_sample).get(case.target.key)
    return None if sampled is None else float(sampled.parked)


def _breaker_open(case: Case) -> float | None:
    """Seconds since it opened; below every threshold while it is closed, ``None`` while the store cannot be asked."""
    open_since = case.round.once(_outages)
    if open_since is None:
        return None
    opened_ms = open_since.get(case.target.key)
    return -1.0 if opened_ms is None else max(0, case.round.now_ms - opened_ms) / 1000


def _outages(now: Round) -> Mapping[tuple[str, str], int] | None:
    """The open breakers, and since when. The board is asked: a log of what it did forgets who opened one long ago."""
    return outages()


KINDS = (
    AlertKind(
        name="parked",
        title="Messages of parked keys",
        unit="messages",
        unit_of_one="message",
        says="has set aside",
        help="Messages that a subscription has set aside with their keys: these wait until somebody decides.",
        targets=SUBSCRIPTIONS,
        measure=_parked,
        told=lambda value: True,
        place=60,
        defaults=(
            DefaultRule(
                "Keys are parked",
                1,
                "Open the subscription's order, look why each key's head failed, and retry, skip or bury it.",
                clear_s=0,
            ),
        ),
    ),
    AlertKind(
        name="breaker_open",
        title="Breaker open",
        unit="seconds",
        says="has had its breaker open for",
        help="How long the breaker of a subscription has been open: its handler is not called meanwhile.",
        targets=SUBSCRIPTIONS,
        measure=_breaker_open,
        least=0.0,
        usual=0.0,
        absent="closed by now",
        place=80,
        defaults=(
            DefaultRule(
                "A breaker is open",
                30,
                "The handler failed too often and is not called. What it depends on is probably away.",
                clear_s=30,
            ),
        ),
    ),
)
