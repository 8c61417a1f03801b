"""What alert rules may watch of subscriptions: parked keys, open breakers, and that nobody serves them."""

from __future__ import annotations

from collections.abc import Mapping

from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.subscriptions.services.breaker import outages
from hbus_console.subscriptions.standing import served
from hbus_console.subscriptions.targets import SUBSCRIPTIONS
from hbus_console.traffic.lag import newest_sample

#: Who was not asked about for so long, because it was paused or nobody could tell, is seen anew.
FORGET_MS = 60_000


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


def _no_consumer(case: Case) -> float | None:
    unserved = case.round.once(_unserved)
    return None if unserved is None else unserved.seconds(case)


def _unserved(now: Round) -> Unserved | None:
    """``None`` while the store cannot be asked who runs what."""
    taken = served()
    if taken is None:
        return None
    unserved = now.kept(Unserved)
    unserved.begin(now.now_ms, taken)
    return unserved


class Unserved:
    """Since when nobody has been seen to serve a subscription, remembered from round to round. Not for several
    threads.
    """

    def __init__(self) -> None:
        self._taken: frozenset[tuple[str, str]] = frozenset()
        #: When it was first seen, and when last, by topic and group.
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}

    def begin(self, now_ms: int, taken: frozenset[tuple[str, str]]) -> None:
        """A round, in which consumers run what is ``taken``."""
        self._taken = taken
        self._seen = {
            key: seen for key, seen in self._seen.items() if key not in taken and abs(now_ms - seen[1]) <= FORGET_MS
        }

    def seconds(self, case: Case) -> float:
        """Below every threshold while a consumer runs it."""
        key = case.target.key
        if key in self._taken:
            return -1.0
        now_ms = case.round.now_ms
        since_ms = self._seen[key][0] if key in self._seen else now_ms
        if case.firing and case.value >= 0:
            # Another process may have seen it first: what fires does not begin anew when that one restarts.
            since_ms = min(since_ms, case.measured_ms - round(case.value * 1000))
        self._seen[key] = since_ms, now_ms
        return (now_ms - since_ms) / 1000


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
                "Open the order of the subscription, look why the head of each parked key failed, and unpark it:"
                " retry it, skip it or bury it.",
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
                "The handler failed too often and is not called: what it depends on is probably away. Once that is"
                " back, close the breaker on the subscription's page, or wait: one message is tried from time to time.",
                clear_s=30,
            ),
        ),
    ),
    AlertKind(
        name="no_consumer",
        title="No consumer",
        unit="seconds",
        says="has had no consumer for",
        help="How long nobody has been seen to serve a subscription: its messages wait. Paused ones are not judged.",
        targets=SUBSCRIPTIONS,
        measure=_no_consumer,
        while_paused=False,
        usual=60,
        absent="a consumer runs it",
        place=15,
        defaults=(
            DefaultRule(
                "Nobody serves a subscription",
                60,
                "Does a consumer process run, and does it know the handler? The subscription's page names who hosts"
                " consumers and why they do not run this one. What nobody needs any more: pause or delete it.",
            ),
        ),
    ),
)
