"""Teams."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.teams import owned, services, shapes
from hbus_console.teams.models import Team
from hbus_console.teams.services import TeamDraft

_TEAM = shapes.shape()


class Teams(ApiView):
    @extend_schema(
        operation_id="teams_list",
        summary="Teams, and how much each answers for of what the caller may see",
        tags=["teams"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(_TEAM)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = owned.counted(Team.objects.all(), self.actor)
        return self.page(rows, lambda row: shapes.team(row, self.actor), ordering="name")

    @extend_schema(
        operation_id="teams_create",
        summary="Add a team",
        tags=["teams"],
        request=takes(shapes.NewTeam),
        responses=answers(_TEAM, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, shapes.NewTeam)
        made = services.create_team(self.actor, TeamDraft(**body.settings()), body.reason)
        return Response(shapes.team(made, self.actor), status=status.HTTP_201_CREATED)


class OneTeam(ApiView):
    @extend_schema(operation_id="teams_read", summary="One team", tags=["teams"], responses=answers(_TEAM))
    def get(self, request: Request, team: str) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return Response(shapes.team(services.team(team), self.actor))

    @extend_schema(
        operation_id="teams_change",
        summary="Rename a team or change its contact",
        tags=["teams"],
        request=takes(shapes.TeamChange),
        responses=answers(_TEAM),
    )
    def patch(self, request: Request, team: str) -> Response:
        body = read(request, shapes.TeamChange)
        changed = services.change_team(self.actor, team, body.changes(), body.reason)
        return Response(shapes.team(changed, self.actor))

    @extend_schema(
        operation_id="teams_delete",
        summary="Delete a team that answers for nothing",
        tags=["teams"],
        request=takes(ReasonBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, team: str) -> Response:
        services.delete_team(self.actor, team, read(request, ReasonBody).reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


urlpatterns = [
    path("teams", Teams.as_view(), name="teams"),
    path("teams/<str:team>", OneTeam.as_view(), name="team"),
]
