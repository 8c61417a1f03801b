"""What became of copies of messages, from the ledger and the dead letters: a fixed number of queries for any number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from django.conf import settings
from django.db.models import Max, Min

from engine.bus.subjects import subscription_subject
from engine.core.clock import to_datetime
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.checking import SKEW_MS
from hbus_console.messages.models import NEVER_COME, LagSample, LedgerEvent, LedgerMessage
from hbus_console.messages.reach import id_ends
from hbus_console.operations.models import UNDECIDED, OperationItem
from hbus_console.operations.outcomes import Fate, Made
from hbus_console.subscriptions.models import Subscription

Outcome = OperationItem.Outcome
#: Which kinds of facts say so, the first that happened counts.
_SAID = {
    Outcome.SETTLED: ("settled", "deduplicated"),
    Outcome.DEAD: ("dead",),
    Outcome.UNHANDLED: ("expired", "skipped", "cancelled", "lost"),
    Outcome.UNKNOWN: ("passed",),
    Outcome.RETRYING: ("retried",),
}
_KINDS = tuple(kind for kinds in _SAID.values() for kind in kinds)
#: Of a message for several subscriptions: what is not decided in one is not decided, and then the worst counts.
_WORST = (*UNDECIDED, Outcome.DEAD, Outcome.UNKNOWN, Outcome.UNHANDLED, Outcome.SETTLED)

_UNHANDLED = {
    "expired": "expired before it was handled",
    "skipped": "skipped by a person",
    "cancelled": "cancelled before its time came",
    "lost": "the store no longer has it, and nobody told what became of it before",
}

#: A subscription: topic and group.
Pair = tuple[str, str]
#: A message of that id in a subscription: topic, id and group.
Place = tuple[str, str, str]


def outcomes(made: Sequence[Made], *, later_ones_too: bool = False) -> list[Fate]:
    """What became of each message of ``made``, in its place.

    ``later_ones_too``: also in subscriptions that were made after it and, by the last sample of their lag, may have it
    before them, as one that began at the beginning has.

    A message for one subscription has the outcome that it has there; one for its whole topic is decided when all
    subscriptions that were there before it are done with it. Its ``source`` among the facets tells it from what others
    publish under its id; without one, as of operations of releases before, all of that id is taken for it.
    """
    evidence = _Evidence(made, later_ones_too=later_ones_too)
    return [evidence.fate(each) for each in made]


class _Evidence:
    def __init__(self, made: Sequence[Made], *, later_ones_too: bool) -> None:
        ids = {each.subject.name for each in made}
        topics = {each.subject.namespace for each in made}
        #: By the source they were told with; ``None``: without one.
        self._kinds: dict[Place, dict[str | None, set[str]]] = {}
        told = LedgerEvent.objects.filter(message_id__in=ids, kind__in=_KINDS).order_by()
        for *place, source, kind in told.values_list("topic", "message_id", "subscription", "source", "kind"):
            self._tell(place, source, kind)
        # They are rows of their own, and never trimmed: of a death there is evidence even when its fact was lost.
        died = DeadLetter.objects.filter(message_id__in=ids).order_by()
        for *place, source in died.values_list("topic", "message_id", "subscription", "source"):
            self._tell(place, source, "dead")
        rows = Subscription.objects.filter(topic__name__in=topics).values_list("topic__name", "group", "created_at")
        self._since: Mapping[Pair, datetime] = {(topic, group): since for topic, group, since in rows}
        self._trimmed_before = _trimmed_before()
        earliest = min((each.at for each in made), default=None)
        later = {pair for pair, since in self._since.items() if earliest is not None and since > earliest}
        #: Of those made after a message: since when what waits for them was published; ``None``: nobody knows.
        self._later: Mapping[Pair, datetime | None] = _waits_since(later) if later_ones_too and later else {}

    def _tell(self, place: Sequence[str], source: str | None, kind: str) -> None:
        topic, message_id, group = place
        self._kinds.setdefault((topic, message_id, group), {}).setdefault(source, set()).add(kind)

    def _seen(self, made: Made, topic: str, group: str) -> set[str]:
        by_source = self._kinds.get((topic, made.subject.name, group), {})
        whole = self._kinds.get((topic, made.subject.name, ""), {})
        wanted = made.facets.get("source")
        sources = {*by_source, *whole} if wanted is None else {None, wanted}
        seen = set().union(*(by_source.get(source, ()) for source in sources))
        # What is told of a message that was never published concerns every subscription.
        return seen.union(*(whole.get(source, set()) & NEVER_COME for source in sources))

    def fate(self, made: Made) -> Fate:
        topic = made.subject.namespace
        if group := made.facets.get("subscription", ""):
            return self._in_one(made, topic, group)
        groups = sorted(
            group
            for (name, group), since in self._since.items()
            if name == topic and (since <= made.at or self._may_wait((name, group), made))
        )
        found = [self._in_one(made, topic, group) for group in groups]
        if not found:
            return Fate(Outcome.UNHANDLED, f"nobody is subscribed to {topic}")
        return min(found, key=lambda each: _WORST.index(each.outcome))

    def _may_wait(self, pair: Pair, made: Made) -> bool:
        if pair not in self._later:
            return False
        since = self._later[pair]
        return since is None or made.at >= since

    def _in_one(self, made: Made, topic: str, group: str) -> Fate:
        seen = self._seen(made, topic, group)
        said = next((outcome for outcome, kinds in _SAID.items() if seen.intersection(kinds)), Outcome.WAITING)
        if said == Outcome.UNHANDLED:
            return Fate(said, _UNHANDLED[next(kind for kind in _SAID[said] if kind in seen)])
        if said == Outcome.UNKNOWN:
            return Fate(said, "the store is done with it, and nobody told what became of it")
        if said not in UNDECIDED:
            return Fate(said)
        if why := self._nothing_will_tell(made, topic, group):
            return Fate(Outcome.UNKNOWN, why)
        return Fate(said, place=subscription_subject(topic, group))

    def _nothing_will_tell(self, made: Made, topic: str, group: str) -> str:
        if (topic, group) not in self._since:
            return f"{group} is no longer subscribed to {topic}"
        if not settings.HBUS_LEDGER:
            return "the ledger keeps no messages here"
        if self._trimmed_before is not None and made.unseen_since < self._trimmed_before:
            return "the ledger no longer reaches back to it"
        return ""


def _waits_since(pairs: Collection[Pair]) -> dict[Pair, datetime | None]:
    """Of those of ``pairs`` for which anything may wait: when the oldest of it was published at the earliest."""
    newest = LagSample.objects.aggregate(newest=Max("at_ms"))["newest"]
    # One tick of the sampler stamps all its rows with the same instant.
    rows = LagSample.objects.filter(at_ms=newest, topic__in={topic for topic, _ in pairs})
    sampled = {(row.topic, row.subscription): row for row in rows}
    found: dict[Pair, datetime | None] = {}
    for pair in pairs:
        row = sampled.get(pair)
        if row is None or (row.waiting is None and row.oldest_ms is None):
            found[pair] = None
        elif row.oldest_ms is not None:
            found[pair] = to_datetime(max(0, row.oldest_ms - SKEW_MS))
    return found


def _trimmed_before() -> datetime | None:
    """Evidence from before may be gone; ``None`` while the ledger has not been full."""
    first, last = id_ends()
    if first is None or last is None or last - first + 1 < settings.LEDGER_MAX_MESSAGES:
        return None
    oldest_ms = LedgerMessage.objects.aggregate(oldest=Min("published_ms"))["oldest"]
    return None if oldest_ms is None else to_datetime(oldest_ms)
