"""Dead letters as a person reads them: one line for each cause, with when its letters came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from urllib.parse import urlencode

from django.db import connections
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet

from engine.core.clock import to_datetime
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.deadletters.group_mark import mark
from hbus_console.deadletters.models import DeadLetter, place_of
from hbus_console.deadletters.samples import OneCause, tellings
from hbus_console.deadletters.telling import Telling
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics.scopes import topic_filter

#: The page lists so many groups, those with the newest letters first; filters find the others.
MOST_GROUPS = 50
#: Slots of an arrivals strip.
SLOTS = 32


@dataclass(frozen=True)
class LetterFilters:
    """What the address asks for; empty means any."""

    state: str = DeadLetter.State.DEAD.value
    topic: str = ""
    subscription: str = ""
    #: Name of the team that owns the subscription.
    owner: str = ""
    #: Part of the cause.
    cause: str = ""
    fingerprint: str = ""

    @classmethod
    def read(cls, values: Mapping[str, str]) -> LetterFilters:
        """From query parameters; raises ``BadInput`` for an unknown state."""
        found = {name: values.get(name, "").strip() for name in cls.__dataclass_fields__}
        found["state"] = found["state"] or DeadLetter.State.DEAD.value
        if found["state"] not in DeadLetter.State.values:
            raise BadInput(
                f"{found['state'][:20]!r} is not a state of a dead letter.",
                remedy=f"Use one of {', '.join(DeadLetter.State.values)}.",
                field="state",
            )
        return cls(**found)

    def letters(self, actor: Actor) -> QuerySet[DeadLetter]:
        """The letters that fit and that ``actor`` may see, newest first."""
        seen = topic_filter(visible_scopes(actor))
        return DeadLetter.objects.filter(seen, self.narrowed, state=self.state)

    @property
    def narrowed(self) -> Q:
        """What fits, but for the state and for who may see it."""
        exact = {"topic": self.topic, "subscription": self.subscription, "fingerprint": self.fingerprint}
        fits = Q(**{name: value for name, value in exact.items() if value})
        if self.cause:
            fits &= Q(cause__icontains=self.cause)
        if self.owner:
            # One question for any number of subscriptions: a term for each would be more than a database reads.
            its = Subscription.objects.filter(topic__name=OuterRef("topic"), group=OuterRef("subscription"))
            fits &= Q(Exists(its.filter(team__name=self.owner)))
        return fits


@dataclass
class LetterGroup:
    """Letters of one cause in one subscription of one topic."""

    fingerprint: str
    topic: str
    subscription: str
    count: int
    first: datetime
    last: datetime
    #: How it is named, and what varies among its letters.
    telling: Telling = field(default_factory=Telling)
    owner: Team | None = None
    #: How many died in each slot of the time range.
    arrivals: Sequence[int] = ()

    @property
    def cause(self) -> str:
        """The class and words of the error, without what differs from letter to letter."""
        return self.telling.cause

    @property
    def mark(self) -> str:
        """See :func:`hbus_console.deadletters.group_mark.mark`."""
        return mark(self)

    @property
    def place(self) -> str:
        """See :func:`hbus_console.deadletters.models.place_of`: that of its newest letter."""
        return place_of(self.last)

    @property
    def query(self) -> str:
        """The filter that finds its letters, for an address."""
        return urlencode({"topic": self.topic, "subscription": self.subscription, "fingerprint": self.fingerprint})


@dataclass(frozen=True)
class Listing:
    """The groups of a page, and how much lies behind them."""

    groups: list[LetterGroup]
    #: How many groups fit, and how many letters they have, listed or not.
    found: int
    letters: int
    oldest: datetime | None

    @property
    def more(self) -> bool:
        """Whether more groups fit than are listed."""
        return self.found > len(self.groups)

    def named(self, asked: str) -> LetterGroup | None:
        """The listed group of that mark. A fingerprint alone means the first that has it."""
        listed = {group.mark: group for group in self.groups}
        return listed.get(asked) or next((group for group in self.groups if group.fingerprint == asked), None)


def listing(actor: Actor, filters: LetterFilters, start_ms: int, end_ms: int) -> Listing:
    """The groups with the newest letters first, their arrivals between ``start_ms`` and ``end_ms``: six queries."""
    letters = filters.letters(actor)
    rows = (
        letters.order_by()
        .values_list("fingerprint", "topic", "subscription")
        .annotate(count=Count("pk"), first=Min("died_at"), last=Max("died_at"), newest=Max("pk"))
        .order_by("-last", "fingerprint", "topic", "subscription")
    )
    groups, newest = [], []
    for fingerprint, topic, subscription, count, first, last, pk in rows:
        groups.append(LetterGroup(fingerprint, topic, subscription, count, first, last))
        newest.append(pk)
    shown = groups[:MOST_GROUPS]
    told = tellings([OneCause(one.fingerprint, one.topic, one.subscription, one.count) for one in shown], filters.state)
    owners = _owners({(group.topic, group.subscription) for group in shown})
    strips = _arrivals(filters.state, newest[:MOST_GROUPS], start_ms, end_ms)
    for group, pk, telling in zip(shown, newest, told, strict=False):
        group.telling = telling
        group.owner = owners.get((group.topic, group.subscription))
        group.arrivals = strips.get(pk, [0] * SLOTS)
    return Listing(
        groups=shown,
        found=len(groups),
        letters=sum(group.count for group in groups),
        oldest=min((group.first for group in groups), default=None),
    )


def _owners(pairs: set[tuple[str, str]]) -> dict[tuple[str, str], Team]:
    rows = Subscription.objects.filter(topic__name__in={topic for topic, _ in pairs}, team__isnull=False)
    return {
        (row.topic.name, row.group): row.team for row in rows.select_related("topic", "team") if row.team is not None
    }


def _arrivals(state: str, newest: Sequence[int], start_ms: int, end_ms: int) -> dict[int, list[int]]:
    """How many letters of each group died in each slot, by the id of the group's newest letter.

    Every figure is a range of the index ``dead_group``: adding up rows by their slot would compute it for each letter.
    """
    if not newest:
        return {}
    connection = connections[DeadLetter.objects.db]
    start_s = start_ms // 1000
    slot_s = max(1, -(-(end_ms // 1000 - start_s) // SLOTS))
    edges = [start_ms, *(min(end_ms, (start_s + slot_s * slot) * 1000) for slot in range(1, SLOTS)), end_ms]
    moments = [connection.ops.adapt_datetimefield_value(to_datetime(edge)) for edge in edges]
    params = [each for begin, end in pairwise(moments) for each in (state, begin, end)]
    marks = ", ".join(["%s"] * len(newest))
    with connection.cursor() as cursor:
        cursor.execute(f"{_STRIPS} ({marks})", [*params, *newest])
        return {row[0]: list(row[1:]) for row in cursor.fetchall()}


_SLOT = """(SELECT COUNT(*) FROM deadletters_deadletter AS one
    WHERE one.state = %s AND one.fingerprint = it.fingerprint AND one.topic = it.topic
    AND one.subscription = it.subscription AND one.died_at >= %s AND one.died_at < %s)"""
_STRIPS = f"SELECT it.id, {', '.join([_SLOT] * SLOTS)} FROM deadletters_deadletter AS it WHERE it.id IN"  # noqa: S608
