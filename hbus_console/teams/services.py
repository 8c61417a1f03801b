"""Teams: who answers for what."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.teams import owned
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.teams.models import Team


@dataclass(frozen=True)
class TeamDraft:
    """A team as somebody wants it. ``contact`` is a mail address, a channel or a pager."""

    name: str
    contact: str


@transaction.atomic
def create_team(actor: Actor, draft: TeamDraft, reason: str = "") -> Team:
    """Make a team. Raises ``Forbidden`` and :class:`BadInput`."""
    require(actor, TEAM_EDIT)
    made = Team(name=_name(draft.name), contact=_contact(draft.contact))
    _refuse_taken(made)
    made.save()
    reason = checks.reason(reason, required=False)
    record(actor, "team.create", made.subject, reason=reason, after=_snapshot(made))
    return made


@transaction.atomic
def change_team(
    actor: Actor, name: str, *, new_name: str | None = None, contact: str | None = None, reason: str = ""
) -> Team:
    """Rename a team or change its contact; what is left out stays. Changing nothing leaves no trace."""
    require(actor, TEAM_EDIT)
    changed = team(name)
    before = _snapshot(changed)
    if new_name is not None:
        changed.name = _name(new_name)
        _refuse_taken(changed)
    if contact is not None:
        changed.contact = _contact(contact)
    if before == _snapshot(changed):
        return changed
    changed.save()
    owned.tell_changed(changed)
    reason = checks.reason(reason, required=False)
    record(actor, "team.change", changed.subject, reason=reason, before=before, after=_snapshot(changed))
    return changed


@transaction.atomic
def delete_team(actor: Actor, name: str, reason: str) -> None:
    """Delete a team that answers for nothing any more."""
    require(actor, TEAM_EDIT)
    gone = team(name)
    reason = checks.reason(reason)
    left = owned.counts(gone)
    if any(left.values()):
        raise Conflict(
            f"{gone.name} still answers for {' and '.join(f'{count} {words}' for words, count in left.items())}.",
            remedy="Hand them over first.",
            field="team",
        )
    record(actor, "team.delete", gone.subject, reason=reason, before=_snapshot(gone))
    gone.delete()


def team(name: str) -> Team:
    """Raises :class:`NotThere`."""
    found = Team.objects.filter(name=name).first()
    if found is None:
        raise NotThere(f"There is no team {name!r}.", remedy="Create it under Topics, Teams.", field="team")
    return found


def owner(name: object, field: str = "owner") -> Team:
    """The team named as an owner; raises :class:`BadInput` at ``field`` when it is missing or unknown."""
    if not isinstance(name, str) or not name.strip():
        raise BadInput("An owner is needed.", remedy="Name the team that answers for it.", field=field)
    found = Team.objects.filter(name=name.strip()).first()
    if found is None:
        raise BadInput(f"There is no team {name!r}.", remedy="Create the team first, with its contact.", field=field)
    return found


def team_names() -> list[str]:
    """For the owner fields."""
    return list(Team.objects.order_by("name").values_list("name", flat=True))


def _name(value: object) -> str:
    named = checks.text(value, "name", most=80, required=True)
    if "/" in named:
        raise BadInput("A team's name has no slash: it is part of addresses.", remedy="Leave it out.", field="name")
    return named


def _contact(value: object) -> str:
    return checks.text(value, "contact", most=200, required=True)


def _refuse_taken(wanted: Team) -> None:
    if Team.objects.filter(name__iexact=wanted.name).exclude(pk=wanted.pk).exists():
        raise Conflict(f"There is already a team {wanted.name!r}.", remedy="Choose another name.", field="name")


def _snapshot(row: Team) -> dict[str, object]:
    return {"name": row.name, "contact": row.contact}
