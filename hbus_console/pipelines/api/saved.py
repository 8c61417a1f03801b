"""Saved queries over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import to_rfc3339
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import Body, ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.pipelines.models import SavedQuery
from hbus_console.pipelines.queries.saving import WantedSaved, delete_saved, save_query, saved_queries, saved_query
from hbus_console.ui.formats import epoch_ms


class SavedQueryBody(Body):
    """What is kept; ``owner`` is the team that answers for it, if any does. What is left out of description and owner
    stays as one of that name has it."""

    sql: str
    description: str | None = None
    owner: str | None = None
    reason: str = ""


class SavedQueryOut(msgspec.Struct):
    """A query under its name."""

    name: str
    description: str
    sql: str
    owner: str
    saved_by: str
    saved_at: str


def shape(query: SavedQuery) -> dict[str, Any]:
    return plain(
        SavedQueryOut(
            name=query.name,
            description=query.description,
            sql=query.sql,
            owner=query.team.name if query.team else "",
            saved_by=query.saved_by,
            saved_at=to_rfc3339(epoch_ms(query.saved_at)),
        )
    )


class SavedQueries(ApiView):
    @extend_schema(
        operation_id="saved_queries_list",
        summary="Saved queries",
        tags=["queries"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(SavedQueryOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return self.page(saved_queries(self.actor), shape, ordering="name")


class OneSavedQuery(ApiView):
    @extend_schema(
        operation_id="saved_queries_read", summary="One of them", tags=["queries"], responses=answers(SavedQueryOut)
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(shape(saved_query(self.actor, name)))

    @extend_schema(
        operation_id="saved_queries_save",
        summary="Save a query, in place of one of that name",
        tags=["queries"],
        request=takes(SavedQueryBody),
        responses=answers(SavedQueryOut),
    )
    def put(self, request: Request, name: str) -> Response:
        body = read(request, SavedQueryBody)
        # A PUT says which it is to replace: that of its address.
        wanted = WantedSaved(body.sql, body.description, body.owner, body.reason, replace=True)
        return Response(shape(save_query(self.actor, name, wanted)))

    @extend_schema(
        operation_id="saved_queries_delete",
        summary="Delete one",
        tags=["queries"],
        request=takes(ReasonBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, name: str) -> Response:
        delete_saved(self.actor, name, read(request, ReasonBody).reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


urlpatterns = [
    path("queries/saved", SavedQueries.as_view(), name="saved-queries"),
    path("queries/saved/<str:name>", OneSavedQuery.as_view(), name="saved-query"),
]
