"""Who may do what, asked the other way round: for pages that say whom to turn to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hbus_console.access.acts import VIEW, Act, Role
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, Actor, Forbidden, allows, visible_scopes
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.feature import ACCESS_MANAGE
from hbus_console.accounts.models import User

#: How many names a page lists.
SHOWN = 5


@dataclass(frozen=True)
class Help:
    """Who may do what was refused, and who may grant it, in words; empty where nobody may."""

    role: Role | None
    may_do_it: str
    may_grant_it: str


def who_can_help(error: Forbidden, reader: Actor) -> Help:
    """The people whom ``reader`` may ask about a refusal; at most :data:`SHOWN` of each by their names.

    Of a namespace that they do not see only those are named who may do it everywhere: others would tell that somebody
    was given rights there, and so that it is there.
    """
    seen = error.resource == SOMEWHERE or allows(reader, VIEW, error.resource)
    people = User.objects.filter(is_active=True).prefetch_related("grants").order_by("username")
    may_do, may_grant = [], []
    for person in people.iterator(chunk_size=200):
        actor = actor_of(person)
        if error.action is not None and _may(actor, error.action, error.resource, anywhere=not seen):
            may_do.append(person.username)
        if allows(actor, ACCESS_MANAGE):
            may_grant.append(person.username)
    return Help(error.action.needs if error.action else None, _named(may_do), _named(may_grant))


def _may(actor: Actor, action: Act, resource: str, *, anywhere: bool) -> bool:
    return allows(actor, action, resource) and (not anywhere or GLOBAL in visible_scopes(actor, action))


def _named(people: Sequence[str]) -> str:
    more = len(people) - SHOWN
    return ", ".join(people[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
