"""What teams answer for: the rows of whichever features declare that theirs have owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from django.db.models import Count, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse

from engine.core.errors import ConfigurationError
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.registry.declaration import Owned
from hbus_console.registry.loading import features, resolve
from hbus_console.registry.names import OWNED
from hbus_console.teams.models import Team

#: The list of teams shows so many of each kind.
SHOWN = 4


def kinds() -> list[Owned]:
    """What teams can answer for, in the order of the features."""
    return list(OWNED.by_name(features()).values())


def rows(owned: Owned, who: Actor) -> QuerySet[Any]:
    """All of it in what ``who`` may see, owned or not."""
    model = Team._meta.get_field(owned.relation).related_model
    if model is None:
        raise ConfigurationError(
            f"A feature says that teams own {owned.relation!r}, and no foreign key leads from there.",
            remedy="Name the related_name of the key.",
            field="owned",
        )
    found: QuerySet[Any] = model._default_manager.filter(namespace_q(who, owned.namespace))
    _, _, inner = owned.namespace.rpartition("__")
    return found.select_related(owned.namespace.removesuffix(f"__{inner}")) if inner != owned.namespace else found


@dataclass(frozen=True)
class Thing:
    """One thing that a team answers for."""

    text: str
    href: str


@dataclass(frozen=True)
class Holding:
    """What one team has of one kind, in what the reader may see: the first, and how many more."""

    things: Sequence[Thing]
    more: int
    list_url: str

    @property
    def count(self) -> int:
        return len(self.things) + self.more


@dataclass(frozen=True)
class Unowned:
    """Things of one kind that nobody answers for."""

    words: str
    count: int
    list_url: str


def teams_with_holdings(who: Actor) -> list[tuple[Team, list[Holding]]]:
    """Every team by name with what it answers for; one query, and two more for each kind."""
    known = kinds()
    # Those that are not shown are counted, and not fetched: one team may answer for thousands.
    teams = Team.objects.prefetch_related(
        *(Prefetch(owned.relation, rows(owned, who)[:SHOWN], to_attr=f"seen_{owned.relation}") for owned in known)
    )
    numbers = {
        owned.relation: dict(rows(owned, who).order_by().values_list("team").annotate(number=Count("pk")))
        for owned in known
    }
    return [
        (team, [_holding(team, owned, numbers[owned.relation].get(team.pk, 0)) for owned in known])
        for team in teams.order_by("name")
    ]


def _holding(team: Team, owned: Owned, number: int) -> Holding:
    text, address = resolve(owned.text), resolve(owned.address)
    found = [(text(row), row) for row in getattr(team, f"seen_{owned.relation}")]
    often = {name for name, times in Counter(name for name, _ in found).items() if times > 1}
    things = [Thing(_apart(owned, name, row) if name in often else name, address(row)) for name, row in found]
    return Holding(things, max(0, number - len(things)), reverse(owned.url_name))


def _apart(owned: Owned, name: str, row: Any) -> str:
    """The name with the namespace it stands in: several there have the same."""
    return f"{name} on {reduce(getattr, owned.namespace.split('__'), row)}"


def unowned(who: Actor) -> list[Unowned]:
    """The kinds of which something has no owner, with how many."""
    counted = (
        Unowned(owned.relation, rows(owned, who).filter(team=None).count(), reverse(owned.url_name))
        for owned in kinds()
    )
    return [found for found in counted if found.count]


def counts(team: Team, who: Actor) -> dict[str, int]:
    """How much of each kind it answers for, in what ``who`` may see."""
    return {owned.relation: rows(owned, who).filter(team=team).count() for owned in kinds()}


def counted(teams: QuerySet[Team], who: Actor) -> QuerySet[Team]:
    """The same teams, each annotated with :func:`counts` as ``owned_…``."""
    return teams.annotate(**{f"owned_{owned.relation}": Coalesce(_number(owned, who), 0) for owned in kinds()})


def _number(owned: Owned, who: Actor) -> Subquery:
    """A count by itself: joined to each other, two kinds would make a row for every pair of their rows."""
    of_team = rows(owned, who).order_by().filter(team=OuterRef("pk")).values("team")
    return Subquery(of_team.annotate(number=Count("pk")).values("number"))


def free() -> set[int]:
    """The teams that answer for nothing, whoever asks."""
    teams = counted(Team.objects.all(), SYSTEM)
    return set(teams.filter(**{f"owned_{owned.relation}": 0 for owned in kinds()}).values_list("pk", flat=True))


def tell_changed(team: Team) -> None:
    """Let the features know that the name or the contact of ``team`` is another one."""
    for owned in kinds():
        if owned.changed:
            resolve(owned.changed)(getattr(team, owned.relation).all())
