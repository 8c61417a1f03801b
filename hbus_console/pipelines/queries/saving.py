"""Queries that are kept under a name, for everybody who may see its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from django.db import transaction
from django.db.models import QuerySet

from engine.core.errors import BadInput, Conflict, NotThere, Outdated, Unavailable
from engine.pipeline.query.running import run_query
from engine.pipeline.query.spec import MOST_SQL, QuerySpec
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.services import record
from hbus_console.pipelines.feature import QUERY_SAVE
from hbus_console.pipelines.models import SavedQuery
from hbus_console.pipelines.queries.working import CHILD
from hbus_console.teams.models import Team

#: Each takes a process: one at a time.
_parsing = Lock()


@dataclass(frozen=True, slots=True)
class WantedSaved:
    """``owner``: the team that answers for it; empty: whoever saves it. ``None``: as one of that name has it.

    ``replace``: in place of one of that name; ``was``: only while that is what it was, as :func:`mark_of` told."""

    sql: str
    description: str | None = None
    owner: str | None = None
    reason: str = ""
    replace: bool = False
    was: str = ""


def saved_queries(actor: Actor) -> QuerySet[SavedQuery]:
    """Those that ``actor`` may see, by name."""
    return SavedQuery.objects.filter(namespace_q(actor, "name")).select_related("team")


def saved_query(actor: Actor, name: str) -> SavedQuery:
    """One of them. Raises ``Forbidden`` and :class:`NotThere`."""
    require(actor, VIEW, name)
    found = saved_queries(actor).filter(name=name).first()
    if found is None:
        raise NotThere(f"No query is saved as {name}.", remedy="Look at the list of them.", field="name")
    return found


def mark_of(query: SavedQuery) -> str:
    """Another one after each time it is saved."""
    return query.saved_at.isoformat()


def save_query(actor: Actor, name: str, wanted: WantedSaved) -> SavedQuery:
    """Keep it. Raises ``Forbidden``, :class:`BadInput` naming the field, also for what would never be run and for a
    name that is taken, ``Outdated`` where what it is to replace was saved meanwhile, ``Conflict`` while another is
    saved, and ``Unavailable`` where nobody could look at it."""
    name = checks.name(name, "name")
    require(actor, QUERY_SAVE, name)
    values: dict[str, object] = {"saved_by": actor.name}
    values["sql"] = sql = checks.text(wanted.sql, "sql", most=MOST_SQL, required=True, lines=True)
    if wanted.description is not None:
        values["description"] = checks.text(wanted.description, "description", most=500)
    if wanted.owner is not None:
        values["team"] = _team(wanted.owner)
    reason = checks.reason(wanted.reason, required=False)
    if refused := _why_not(sql):
        raise BadInput(refused, remedy="Run it before it is saved.", field="sql")
    with transaction.atomic():
        made, new = SavedQuery.objects.select_for_update().get_or_create(name=name, defaults=values)
        was = None if new else _told(made)
        if not new:
            _refuse_unmeant(made, wanted)
            for field, value in values.items():
                setattr(made, field, value)
            made.save()
        record(actor, "query.save", made.subject, reason=reason, before=was, after=_told(made))
    return made


def _refuse_unmeant(there: SavedQuery, wanted: WantedSaved) -> None:
    if not wanted.replace:
        whose = there.team.name if there.team else there.saved_by
        raise BadInput(
            f"{there.name} is the name of a query of {whose}.",
            remedy="Give another name, or open that one and save it over.",
            field="name",
        )
    if wanted.was and wanted.was != mark_of(there):
        raise Outdated(
            f"{there.name} was saved by {there.saved_by} meanwhile.",
            remedy="Open it again, and save it over then.",
            field="name",
        )


def _team(name: str) -> Team | None:
    team = Team.objects.filter(name=name).first() if name else None
    if name and team is None:
        raise BadInput(f"There is no team {name}.", remedy="Name one, or none.", field="owner")
    return team


def _why_not(sql: str) -> str:
    if not _parsing.acquire(blocking=False):
        raise Conflict("Somebody saves a query at this moment.", remedy="Try again.")
    try:
        answer = run_query(QuerySpec(sql, parse_only=True), CHILD)
    finally:
        _parsing.release()
    if not answer.begun:
        raise Unavailable("Nobody has looked at the query: its process did not begin.", remedy="Try again.")
    return answer.error


def delete_saved(actor: Actor, name: str, reason: str) -> None:
    """Raises ``Forbidden`` and :class:`NotThere`."""
    require(actor, QUERY_SAVE, name)
    found = saved_query(actor, name)
    with transaction.atomic():
        record(actor, "query.delete", found.subject, reason=checks.reason(reason, required=False), before=_told(found))
        found.delete()


def _told(query: SavedQuery) -> dict[str, str]:
    return {"description": query.description, "sql": query.sql, "owner": query.team.name if query.team else ""}
