"""Channels."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows, require
from hbus_console.accounts.api import ShownOnce
from hbus_console.alerts import services
from hbus_console.alerts.api import shapes
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.models import Channel
from hbus_console.alerts.services import ChannelDraft
from hbus_console.api.answers import REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.pagination import only_page
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView


class Channels(ShownOnce):
    @extend_schema(
        operation_id="alert_channels_list",
        summary="Channels, by name",
        tags=["alerts"],
        responses={(200, "application/json"): page_of(described(shapes.ChannelOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        whole = allows(self.actor, ALERT_CHANNEL)
        return only_page([shapes.channel(row, whole=whole) for row in Channel.objects.all()])

    @extend_schema(
        operation_id="alert_channels_create",
        summary="Add a channel",
        description="The answer holds a webhook's secret, given this once; therefore no Idempotency-Key is taken.",
        tags=["alerts"],
        request=takes(shapes.NewChannel),
        responses=answers(shapes.ChannelMade, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, shapes.NewChannel)
        made = services.create_channel(self.actor, ChannelDraft(**body.settings()), body.reason)
        return Response({**shapes.channel(made, whole=True), "secret": made.secret}, status=status.HTTP_201_CREATED)


class OneChannel(RevisedView):
    @extend_schema(
        operation_id="alert_channels_read",
        summary="One channel",
        tags=["alerts"],
        parameters=TAGGED,
        responses=answers(shapes.ChannelOut),
    )
    def get(self, request: Request, channel_id: int) -> Response:
        whole = allows(self.actor, ALERT_CHANNEL)
        row = services.channel(self.actor, channel_id)
        return self.tagged(shapes.channel(row, whole=whole), row.revision)

    @extend_schema(
        operation_id="alert_channels_change",
        summary="Change a channel",
        tags=["alerts"],
        parameters=CONDITIONAL,
        request=takes(shapes.ChannelChange),
        responses=answers(shapes.ChannelOut),
    )
    def patch(self, request: Request, channel_id: int) -> Response:
        body, revision = self.change(request, shapes.ChannelChange)
        changed = services.change_channel(self.actor, channel_id, body.changes(), body.reason, revision=revision)
        return self.tagged(shapes.channel(changed, whole=True), changed.revision)

    @extend_schema(
        operation_id="alert_channels_delete",
        summary="Delete a channel",
        tags=["alerts"],
        request=takes(ReasonBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, channel_id: int) -> Response:
        services.delete_channel(self.actor, channel_id, read(request, ReasonBody).reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


class TryChannel(ApiView):
    @extend_schema(
        operation_id="alert_channels_test",
        summary="Send a marked test through the channel",
        tags=["alerts"],
        request=None,
        responses=answers(shapes.TriedOut),
    )
    def post(self, request: Request, channel_id: int) -> Response:
        tried = services.try_channel(self.actor, channel_id)
        return Response(msgspec.to_builtins(shapes.TriedOut(tried.channel, tried.taken, tried.said)))


class RotateSecret(ShownOnce):
    @extend_schema(
        operation_id="alert_channels_rotate_secret",
        summary="Give a webhook a new secret",
        description="Calls are signed with it at once. The answer is given once; no Idempotency-Key is taken.",
        tags=["alerts"],
        request=takes(ReasonBody),
        responses=answers(shapes.SecretOut),
    )
    def post(self, request: Request, channel_id: int) -> Response:
        reason = read(request, ReasonBody).reason
        return Response({"secret": services.rotate_secret(self.actor, channel_id, reason)})
