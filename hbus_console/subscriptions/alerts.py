"""What alert rules may watch of how subscriptions handle failure: parked keys and open breakers."""

from __future__ import annotations

from collections.abc import Mapping

from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.evidence.models import Notice
from hbus_console.subscriptions.targets import SUBSCRIPTIONS
from hbus_console.traffic.lag import newest_sample

#: How far back an opened breaker is looked for.
BREAKER_MS = 7 * 24 * 3_600_000


def _parked(case: Case) -> float | None:
    sampled = case.round.once(newest_sample).get(case.target.key)
    return None if sampled is None else float(sampled.parked)


def _breaker_open(case: Case) -> float:
    """Seconds since it opened; below every threshold while it is closed."""
    opened_ms = case.round.once(_opened).get(case.target.key)
    return -1.0 if opened_ms is None else max(0, case.round.now_ms - opened_ms) / 1000


def _opened(now: Round) -> Mapping[tuple[str, str], int]:
    """The open breakers, and since when."""
    rows = (
        Notice.objects.filter(
            at_ms__gte=now.now_ms - BREAKER_MS, kind__in=("breaker_opened", "breaker_closed"), subscription__gt=""
        )
        .order_by("at_ms", "pk")
        .values_list("kind", "topic", "subscription", "at_ms")
    )
    opened: dict[tuple[str, str], int] = {}
    for kind, topic, group, at_ms in rows:
        if kind == "breaker_closed":
            opened.pop((topic, group), None)
        else:
            opened.setdefault((topic, group), at_ms)
    return opened


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
