"""Schemas of topics."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, read, takes
from hbus_console.api.views import ApiView
from hbus_console.schemas import services, shapes
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics import lookup


class Schemas(ApiView):
    @extend_schema(
        operation_id="schemas_list",
        summary="Versions of a topic's schema, the newest first",
        tags=["schemas"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(shapes.SchemaOut)), **REFUSED},
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        rows = SchemaVersion.objects.filter(topic=lookup.topic(topic)).select_related("topic")
        return self.page(rows, shapes.schema, ordering="-version")

    @extend_schema(
        operation_id="schemas_add",
        summary="Add the next version",
        description="Refused, listing what would break, when it cannot follow the version before.",
        tags=["schemas"],
        request=takes(shapes.NewSchema),
        responses=answers(shapes.SchemaOut, 201),
    )
    def post(self, request: Request, topic: str) -> Response:
        body = read(request, shapes.NewSchema)
        made = services.add_schema(self.actor, topic, body.body, body.note)
        return Response(shapes.schema(made), status=status.HTTP_201_CREATED)


class OneSchema(ApiView):
    @extend_schema(
        operation_id="schemas_read",
        summary="One version of a schema",
        tags=["schemas"],
        responses=answers(shapes.SchemaOut),
    )
    def get(self, request: Request, topic: str, version: int) -> Response:
        require(self.actor, VIEW, topic)
        return Response(shapes.schema(services.schema(topic, version)))


class CheckSchema(ApiView):
    @extend_schema(
        operation_id="schemas_check",
        summary="Would this schema be accepted?",
        description="Changes nothing.",
        tags=["schemas"],
        request=takes(shapes.SchemaQuestion),
        responses=answers(shapes.VerdictOut),
    )
    def post(self, request: Request, topic: str) -> Response:
        body = read(request, shapes.SchemaQuestion).body
        return Response(shapes.verdict(services.would_accept(self.actor, topic, body)))


urlpatterns = [
    path("topics/<str:topic>/schemas", Schemas.as_view(), name="schemas"),
    path("topics/<str:topic>/schemas/check", CheckSchema.as_view(), name="schema-check"),
    path("topics/<str:topic>/schemas/<int:version>", OneSchema.as_view(), name="schema"),
]
