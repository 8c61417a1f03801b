"""Subscriptions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.bus.errors import UNANSWERED
from engine.bus.transport import Lag
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.access.scopes import namespace_q
from hbus_console.accounts.api import ShownOnce
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import DeleteBody, ReasonBody
from hbus_console.api.idempotency import HEADER, Repeat
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.api import bodies, shapes
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.subscriptions.standing import waiting_letters
from hbus_console.topics import lookup

_ROWS = Subscription.objects.select_related("topic", "team")
_PAGE = {(200, "application/json"): page_of(described(shapes.SubscriptionOut)), **REFUSED}


class AllSubscriptions(ApiView):
    @extend_schema(
        operation_id="subscriptions_list_all",
        summary="Subscriptions across topics",
        tags=["subscriptions"],
        parameters=[OpenApiParameter("owner"), OpenApiParameter("group"), *PAGES],
        responses=_PAGE,
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = _ROWS.filter(namespace_q(self.actor, "topic__name"))
        if (owner := request.GET.get("owner")) is not None:
            rows = rows.filter(team__name=owner) if owner else rows.filter(team=None)
        if group := request.GET.get("group"):
            rows = rows.filter(group=group)
        return self.page(rows, partial(shapes.subscription, reader=self.actor))


class Subscriptions(ApiView):
    @extend_schema(
        operation_id="subscriptions_list",
        summary="Subscriptions of one topic",
        tags=["subscriptions"],
        parameters=PAGES,
        responses=_PAGE,
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        return self.page(
            _ROWS.filter(topic=lookup.topic(topic)), partial(shapes.subscription, reader=self.actor), ordering="group"
        )

    @extend_schema(
        operation_id="subscriptions_create",
        summary="Subscribe to a topic",
        description="The answer holds a webhook's secret, given this once. With an Idempotency-Key it does not, since "
        "it is kept for a repeat: ask for the secret with `rotate-secret` then.",
        tags=["subscriptions"],
        request=takes(bodies.NewSubscription),
        responses=answers(shapes.SubscriptionMade, 201),
    )
    def post(self, request: Request, topic: str) -> Response:
        body = read(request, bodies.NewSubscription)
        draft = SubscriptionDraft(topic=topic, **body.settings())
        made = subscriptions.create_subscription(self.actor, draft, body.reason)
        secret = "" if HEADER in request.headers else made.webhook_secret
        return Response(
            {**shapes.subscription(made, reader=self.actor), "webhook_secret": secret}, status=status.HTTP_201_CREATED
        )


class OneSubscription(RevisedView):
    @extend_schema(
        operation_id="subscriptions_read",
        summary="One subscription, and where it stands now",
        description="`lag` is null while the store cannot be asked.",
        tags=["subscriptions"],
        parameters=TAGGED,
        responses=answers(shapes.SubscriptionOut),
    )
    def get(self, request: Request, topic: str, group: str) -> Response:
        require(self.actor, VIEW, topic)
        row = subscriptions.subscription(topic, group)
        return self.tagged(shapes.subscription(row, _lag(row), reader=self.actor), row.revision)

    @extend_schema(
        operation_id="subscriptions_change",
        summary="Change a subscription",
        description="A policy set here holds against the declaration in code until `follow-code`. Another owner "
        "takes a governor and a reason.",
        tags=["subscriptions"],
        parameters=CONDITIONAL,
        request=takes(bodies.SubscriptionChange),
        responses=answers(shapes.SubscriptionOut),
    )
    def patch(self, request: Request, topic: str, group: str) -> Response:
        body, revision = self.change(request, bodies.SubscriptionChange)
        changed = subscriptions.change_subscription(
            self.actor, topic, group, body.changes(), body.reason, revision=revision
        )
        return self.tagged(shapes.subscription(changed, reader=self.actor), changed.revision)

    @extend_schema(
        operation_id="subscriptions_delete",
        summary="Delete a subscription",
        description="What it has not settled is lost to it; its dead letters stay as evidence.",
        tags=["subscriptions"],
        request=takes(DeleteBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, topic: str, group: str) -> Response:
        body = read(request, DeleteBody)
        subscriptions.delete_subscription(self.actor, topic, group, body.typed_name, body.reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


Pause = reason_act(
    subscriptions.pause_subscription,
    operation_id="subscriptions_pause",
    summary="Hand out nothing more; what is in flight ends",
    description="Needs a reason.",
    tag="subscriptions",
    gives=answers(shapes.SubscriptionOut),
    shown=shapes.subscription,
)
Resume = reason_act(
    subscriptions.resume_subscription,
    operation_id="subscriptions_resume",
    summary="Hand out deliveries again",
    tag="subscriptions",
    gives=answers(shapes.SubscriptionOut),
    shown=shapes.subscription,
)
FollowCode = reason_act(
    subscriptions.follow_code,
    operation_id="subscriptions_follow_code",
    summary="Let the declaration in code set all policies again",
    tag="subscriptions",
    gives=answers(shapes.SubscriptionOut),
    shown=shapes.subscription,
)
RotateSecret = reason_act(
    subscriptions.rotate_secret,
    operation_id="subscriptions_rotate_secret",
    summary="Give a webhook a new secret",
    description="Calls are signed with it at once. The answer is given once; no Idempotency-Key is taken.",
    tag="subscriptions",
    gives=answers(shapes.WebhookSecretOut),
    shown=lambda secret: {"webhook_secret": secret},
    base=ShownOnce,
)


class Drain(ApiView):
    @extend_schema(
        operation_id="subscriptions_drain_status",
        summary="Does a paused subscription stand still yet?",
        tags=["subscriptions"],
        responses=answers(shapes.DrainOut),
    )
    def get(self, request: Request, topic: str, group: str) -> Response:
        return Response(shapes.drain(subscriptions.drain_status(self.actor, topic, group)))

    @extend_schema(
        operation_id="subscriptions_drain",
        summary="Pause until it stands still",
        description="202 while something is still in flight: ask with GET until `drained` is true. 200 when it stands "
        "still already. Resume it as after a pause. Needs a reason.",
        tags=["subscriptions"],
        request=takes(ReasonBody),
        responses={**answers(shapes.DrainOut), **answers(shapes.DrainOut, 202)},
    )
    def post(self, request: Request, topic: str, group: str) -> Response:
        subscriptions.drain(self.actor, topic, group, read(request, ReasonBody).reason)
        found = subscriptions.drain_status_if_known(self.actor, topic, group)
        code = status.HTTP_200_OK if found.drained else status.HTTP_202_ACCEPTED
        return Response(shapes.drain(found), status=code)


class Breaker(ApiView):
    def repeat(self, first_tried: datetime) -> Repeat:
        return Repeat.KNOWN_BY_ITS_EFFECT

    @extend_schema(
        operation_id="subscriptions_breaker",
        summary="How the breaker stands",
        tags=["subscriptions"],
        responses=answers(shapes.BreakerOut),
    )
    def get(self, request: Request, topic: str, group: str) -> Response:
        return Response(shapes.breaker(subscriptions.breaker(self.actor, topic, group)))

    @extend_schema(
        operation_id="subscriptions_set_breaker",
        summary="Open or close the breaker, or try one message",
        description=(
            "One that a person opened stays so until a person closes it. `try` lets one message through an open one: "
            "handled it closes the breaker, failed it opens it again, for longer unless the message had failed before. "
            "Needs a reason."
        ),
        tags=["subscriptions"],
        request=takes(bodies.BreakerBody),
        responses=answers(shapes.BreakerOut),
    )
    def post(self, request: Request, topic: str, group: str) -> Response:
        body = read(request, bodies.BreakerBody)
        return Response(shapes.breaker(subscriptions.set_breaker(self.actor, topic, group, body.act, body.reason)))


def _lag(row: Subscription) -> Lag | None:
    try:
        lag = subscriptions.lag_of(row)
    except UNANSWERED:
        return None
    # The store has only those that the keeper has not taken over.
    return replace(lag, dead=lag.dead + waiting_letters(row.topic.name, row.group))
