"""Teams: who answers for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from django.db import transaction

from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console import checks
from hbus_console.access.permissions import SYSTEM, Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.drafts.setting import Clean, Text
from hbus_console.drafts.settings import Settings
from hbus_console.teams import owned
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.teams.models import Team


@dataclass(frozen=True)
class TeamName(Text):
    """What a team is called."""

    def check(self, value: Any, clean: Clean) -> str:
        named = super().check(value, clean)
        if "/" in named:
            raise BadInput(
                "A team's name has no slash: it is part of addresses.", remedy="Leave it out.", field=self.name
            )
        return named


@dataclass(frozen=True)
class TeamDraft:
    """A team as somebody wants it. ``contact`` is a mail address, a channel or a pager."""

    name: Annotated[str, TeamName(80, label="Name", placeholder="Front desk", required=True, act=TEAM_EDIT)]
    contact: Annotated[
        str, Text(200, label="Reached at", placeholder="#front-desk, or a mail address", required=True, act=TEAM_EDIT)
    ]


SETTINGS = Settings(TeamDraft)


@transaction.atomic
def create_team(actor: Actor, draft: TeamDraft, reason: str = "") -> Team:
    """Make a team. Raises ``Forbidden`` and :class:`BadInput`."""
    require(actor, TEAM_EDIT)
    made = Team(**SETTINGS.columns(SETTINGS.checked(asdict(draft))))
    _refuse_taken(made)
    made.save()
    reason = checks.reason(reason, required=False)
    record(actor, "team.create", made.subject, reason=reason, after=SETTINGS.snapshot(made))
    return made


@transaction.atomic
def change_team(actor: Actor, name: str, changes: Mapping[str, Any], reason: str = "") -> Team:
    """Rename a team or change its contact; what is left out stays. Changing nothing leaves no trace."""
    require(actor, TEAM_EDIT)
    changed = team(name)
    before = SETTINGS.snapshot(changed)
    clean = SETTINGS.checked({**before, **changes})
    for column, value in SETTINGS.columns(clean).items():
        setattr(changed, column, value)
    if "name" in changes:
        _refuse_taken(changed)
    if before == SETTINGS.snapshot(changed):
        already(changed.subject, "is as you sent it", reason=reason)
        return changed
    changed.save()
    owned.tell_changed(changed)
    reason = checks.reason(reason, required=False)
    record(actor, "team.change", changed.subject, reason=reason, before=before, after=SETTINGS.snapshot(changed))
    return changed


@transaction.atomic
def delete_team(actor: Actor, name: str, reason: str) -> None:
    """Delete a team that answers for nothing any more."""
    require(actor, TEAM_EDIT)
    gone = team(name)
    reason = checks.reason(reason)
    # Whatever the actor may not see of it keeps it as well.
    left = owned.counts(gone, SYSTEM)
    if any(left.values()):
        raise Conflict(
            f"{gone.name} still answers for {' and '.join(f'{count} {words}' for words, count in left.items())}.",
            remedy="Hand them over first.",
            field="team",
        )
    record(actor, "team.delete", gone.subject, reason=reason, before=SETTINGS.snapshot(gone))
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


def _refuse_taken(wanted: Team) -> None:
    if Team.objects.filter(name__iexact=wanted.name).exclude(pk=wanted.pk).exists():
        raise Conflict(f"There is already a team {wanted.name!r}.", remedy="Choose another name.", field="name")
