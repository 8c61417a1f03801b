"""Topics and their schemas."""

from __future__ import annotations

from django.db.models import Max, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.access.scopes import namespace_q
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import DeleteBody
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView
from hbus_console.topics import asyncapi
from hbus_console.topics import services as topics
from hbus_console.topics.api import bodies, shapes
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft

_FILTERS = [
    OpenApiParameter("owner", description="Name of a team; empty for topics nobody owns."),
    OpenApiParameter("classification", enum=Topic.Classification.values),
    OpenApiParameter("q", description="Part of the name."),
]


def visible(actor: Actor, request: Request) -> QuerySet[Topic]:
    """The topics the actor may see, narrowed as the request's filters say."""
    require(actor, VIEW, SOMEWHERE)
    rows = Topic.objects.filter(namespace_q(actor, "name")).select_related("team")
    if (owner := request.GET.get("owner")) is not None:
        rows = rows.filter(team__name=owner) if owner else rows.filter(team=None)
    if classification := request.GET.get("classification"):
        rows = rows.filter(classification=classification)
    if part := request.GET.get("q"):
        rows = rows.filter(name__contains=part)
    return rows


class Topics(ApiView):
    @extend_schema(
        operation_id="topics_list",
        summary="Topics",
        tags=["topics"],
        parameters=[*_FILTERS, *PAGES],
        responses={(200, "application/json"): page_of(described(shapes.TopicOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        rows = visible(self.actor, request).annotate(schema_version=Max("schemas__version"))
        rows = rows.prefetch_related("subscriptions")
        return self.page(rows, shapes.topic, ordering="name")

    @extend_schema(
        operation_id="topics_create",
        summary="Create a topic with its owner",
        tags=["topics"],
        request=takes(bodies.NewTopic),
        responses=answers(shapes.TopicOut, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, bodies.NewTopic)
        made = topics.create_topic(self.actor, TopicDraft(**body.settings()), body.reason)
        return Response(shapes.topic(made), status=status.HTTP_201_CREATED)


class OneTopic(RevisedView):
    @extend_schema(
        operation_id="topics_read",
        summary="One topic",
        tags=["topics"],
        parameters=TAGGED,
        responses=answers(shapes.TopicOut),
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        row = topics.topic(topic)
        return self.tagged(shapes.topic(row), row.revision)

    @extend_schema(
        operation_id="topics_change",
        summary="Change a topic",
        description="Owner, classification, masking, retention, compatibility and transport take a governor and a "
        "reason. Webhooks go on being sent whole what is masked from now on: `sent_whole_to` names them.",
        tags=["topics"],
        parameters=CONDITIONAL,
        request=takes(bodies.TopicChange),
        responses=answers(shapes.TopicOut),
    )
    def patch(self, request: Request, topic: str) -> Response:
        body, revision = self.change(request, bodies.TopicChange)
        changed = topics.change_topic(self.actor, topic, body.changes(), body.reason, revision=revision)
        return self.tagged(shapes.topic(changed), changed.revision)

    @extend_schema(
        operation_id="topics_delete",
        summary="Delete a topic with all its messages",
        description="Refused while a subscription reads it. What waits for its due time is cancelled with it, and each "
        "message is told as that; `GET /topics/{topic}/delayed` says beforehand how many these are.",
        tags=["topics"],
        request=takes(DeleteBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, topic: str) -> Response:
        body = read(request, DeleteBody)
        topics.delete_topic(self.actor, topic, body.typed_name, body.reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


class DelayedInTopic(ApiView):
    @extend_schema(
        operation_id="topics_delayed",
        summary="What waits for its due time in a topic",
        description="How many messages a deletion would cancel, and how many of them are due and refused.",
        tags=["topics"],
        responses=answers(shapes.DelayedOut),
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        return Response(shapes.delayed_of(topics.topic(topic).name))


PauseTopic = reason_act(
    topics.pause_topic,
    operation_id="topics_pause",
    summary="Hold the deliveries of all subscriptions of a topic",
    description="Publishing goes on. Needs a reason.",
    tag="topics",
    gives=answers(shapes.TopicOut),
    shown=shapes.topic,
)
ResumeTopic = reason_act(
    topics.resume_topic,
    operation_id="topics_resume",
    summary="Hand out deliveries again",
    tag="topics",
    gives=answers(shapes.TopicOut),
    shown=shapes.topic,
)


class AsyncApi(ApiView):
    @extend_schema(
        operation_id="asyncapi",
        summary="The topics you may see, as an AsyncAPI 3 document",
        tags=["topics"],
        parameters=[*_FILTERS, OpenApiParameter("name", description="The one topic of this name.")],
        responses={(200, "application/json"): {"type": "object"}},
    )
    def get(self, request: Request) -> Response:
        rows = visible(self.actor, request).prefetch_related("schemas", "subscriptions__team")
        if name := request.GET.get("name"):
            rows = rows.filter(name=name)
        document = asyncapi.document(rows, host=request.get_host(), protocol=request.scheme or "http")
        return Response(document, headers={"Content-Disposition": 'inline; filename="hbus-asyncapi.json"'})
