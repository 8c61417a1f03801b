"""Alerts and silences."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import SystemClock
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.alerts import services, standing
from hbus_console.alerts.api import shapes
from hbus_console.alerts.kinds import URGENCY
from hbus_console.alerts.models import Alert
from hbus_console.alerts.silences import Silenced
from hbus_console.alerts.standing import AlertFilters
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView

_clock = SystemClock()


class Alerts(ApiView):
    @extend_schema(
        operation_id="alerts_list",
        summary="Alerts, the newest first",
        tags=["alerts"],
        parameters=[
            OpenApiParameter("state", enum=standing.STATES, description="`open` unless given."),
            OpenApiParameter("severity", enum=list(URGENCY)),
            OpenApiParameter("rule"),
            OpenApiParameter("topic"),
            *PAGES,
        ],
        responses={(200, "application/json"): page_of(described(shapes.AlertOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = AlertFilters.read(request.GET.dict()).rows(self.actor)
        silenced = Silenced(_clock.now_ms())
        return self.page(rows, lambda row: shapes.alert(standing.AlertRow(row, silenced.of(row))))


class EvaluationState(ApiView):
    @extend_schema(
        operation_id="alerts_evaluation",
        summary="Whether, and when last, the rules were evaluated",
        tags=["alerts"],
        responses=answers(shapes.EvaluationOut),
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return Response(shapes.evaluation(standing.health(self.actor, _clock.now_ms())))


class OneAlert(ApiView):
    @extend_schema(operation_id="alerts_read", summary="One alert", tags=["alerts"], responses=answers(shapes.AlertOut))
    def get(self, request: Request, alert_id: int) -> Response:
        return Response(_shown(services.alert(self.actor, alert_id)))


class Acknowledge(ApiView):
    @extend_schema(
        operation_id="alerts_acknowledge",
        summary="Say that somebody looks at it",
        tags=["alerts"],
        request=takes(shapes.AcknowledgeBody),
        responses=answers(shapes.AlertOut),
    )
    def post(self, request: Request, alert_id: int) -> Response:
        note = read(request, shapes.AcknowledgeBody).note
        services.acknowledge(self.actor, alert_id, note)
        return Response(_shown(services.alert(self.actor, alert_id)))


class SilenceAlert(ApiView):
    @extend_schema(
        operation_id="alerts_silence",
        summary="Tell nobody of it for a while",
        tags=["alerts"],
        request=takes(shapes.SilenceBody),
        responses=answers(shapes.SilenceOut, 201),
    )
    def post(self, request: Request, alert_id: int) -> Response:
        body = read(request, shapes.SilenceBody)
        made = services.silence(
            self.actor,
            alert_id,
            until_ms=_clock.now_ms() + body.minutes * 60_000,
            reason=body.reason,
            every_rule=body.every_rule,
        )
        return Response(shapes.silence(made), status=status.HTTP_201_CREATED)


class Silences(ApiView):
    @extend_schema(
        operation_id="alert_silences_list",
        summary="Silences that hold now",
        tags=["alerts"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(shapes.SilenceOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return self.page(standing.silences(self.actor, _clock.now_ms()), shapes.silence)


class OneSilence(ApiView):
    @extend_schema(
        operation_id="alert_silences_end",
        summary="End a silence now",
        tags=["alerts"],
        request=takes(ReasonBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, silence_id: int) -> Response:
        services.end_silence(self.actor, silence_id, read(request, ReasonBody).reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _shown(row: Alert) -> dict[str, object]:
    return shapes.alert(standing.shown([row], _clock.now_ms())[0])
