"""The order of a subscription: partitions, owners, parked keys, one key's sequence, and unparking."""

from __future__ import annotations

from datetime import datetime

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.errors import Unavailable
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import require
from hbus_console.api.answers import answers, plain, read, takes
from hbus_console.api.idempotency import Repeat
from hbus_console.api.views import ApiView
from hbus_console.subscriptions import order_page, services
from hbus_console.subscriptions.api import bodies
from hbus_console.topics.handler_errors import told_whole_from


class PartitionOut(msgspec.Struct):
    """One partition. ``consumer`` is empty while nobody owns it; ``moved_ms`` is when it last changed hands."""

    partition: int
    consumer: str
    epoch: int
    moved_ms: int
    unsettled: int | None
    in_flight: int
    retrying: int
    parked: int
    oldest_ms: int | None


class ParkedOut(msgspec.Struct):
    """A key that was set aside because the message at ``position`` failed for good."""

    key: str
    partition: int
    position: str
    messages: int
    since_ms: int
    attempts: int
    error: str


class AttemptOut(msgspec.Struct):
    """One attempt of a message."""

    number: int
    at_ms: int
    duration_us: int
    node: str
    error: str


class StepOut(msgspec.Struct):
    """One message of the key and what became of it in this subscription."""

    message_id: str
    position: str
    published_ms: int
    state: str
    due_ms: int
    attempts: list[AttemptOut]


class KeyOut(msgspec.Struct):
    """One key, its newest messages in the order of publishing; ``more`` says that older ones are left out."""

    key: str
    partition: int
    state: str
    steps: list[StepOut]
    more: bool


class OrderOut(msgspec.Struct):
    """Where the order of a subscription stands; ``key`` is there when one was asked for."""

    ordering: str
    on_failed_head: str
    partitions: list[PartitionOut]
    parked: list[ParkedOut]
    key: KeyOut | None = None
    #: More keys are parked than are listed.
    more_parked: bool = False


class UnparkedOut(msgspec.Struct):
    """``messages`` come again; ``head`` is the position of the message that was retried, skipped or buried."""

    key: str
    messages: int
    partition: int
    head: str | None


class Order(ApiView):
    @extend_schema(
        operation_id="subscriptions_order",
        summary="Partitions with their owners, parked keys, and the sequence of one key",
        tags=["subscriptions"],
        parameters=[OpenApiParameter("key", description="Show the sequence of this key.")],
        responses=answers(OrderOut),
    )
    def get(self, request: Request, topic: str, group: str) -> Response:
        require(self.actor, VIEW, topic)
        row = services.subscription(topic, group)
        table, trouble = order_page.partitions(row)
        if trouble:
            raise Unavailable(trouble, remedy="Try again when the store answers.")
        told_from = told_whole_from(self.actor, topic, row.topic)
        parked = order_page.parked_keys(row, told_from=told_from)
        key = request.GET.get("key", "").strip()
        out = OrderOut(
            ordering=row.topic.ordering,
            on_failed_head=row.on_failed_head,
            partitions=[PartitionOut(**msgspec.structs.asdict(owned)) for owned in table],
            parked=[
                ParkedOut(
                    each.key,
                    each.partition,
                    each.position,
                    each.messages,
                    each.record.died_ms,
                    each.record.attempts,
                    each.reason,
                )
                for each in parked[: order_page.KEYS]
            ],
            key=_key(order_page.key_view(row, key, table, parked, told_from=told_from)) if key else None,
            more_parked=len(parked) > order_page.KEYS,
        )
        return Response(plain(out))


class Unpark(ApiView):
    def repeat(self, first_tried: datetime) -> Repeat:
        return Repeat.KNOWN_BY_ITS_EFFECT

    @extend_schema(
        operation_id="subscriptions_unpark",
        summary="Decide about a parked key",
        description="`head` is `retry` (its attempts begin anew), `skip` (settled without having been handled) or "
        "`dead` (to the dead letters); what waits behind it comes again in order. Needs a reason.",
        tags=["subscriptions"],
        request=takes(bodies.UnparkBody),
        responses=answers(UnparkedOut),
    )
    def post(self, request: Request, topic: str, group: str) -> Response:
        body = read(request, bodies.UnparkBody)
        done = services.unpark(self.actor, topic, group, body.key, head=body.head, reason=body.reason)
        head = done.head.position if done.head else None
        return Response(plain(UnparkedOut(body.key, done.messages, done.partition, head)))


def _key(view: order_page.KeyView) -> KeyOut:
    steps = [
        StepOut(
            step.message.message_id,
            step.message.position,
            step.message.published_ms,
            step.state,
            step.due_ms,
            [
                AttemptOut(event.attempt, event.at_ms, event.duration_us, event.node, event.shown_error)
                for event in step.attempts
            ],
        )
        for step in view.steps
    ]
    return KeyOut(view.key, view.partition, view.state, steps, view.more)
