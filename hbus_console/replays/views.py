"""The form of a replay, and its button that tries a filter."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock, to_rfc3339
from engine.core.errors import BadInput
from engine.pipeline.lake.errors import LakeDamaged
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.messages.feature import PAYLOAD_READ
from hbus_console.pipelines.replaying import ArchiveReach, reach_of
from hbus_console.publishing.feature import PUBLISH
from hbus_console.replays import spec as specs
from hbus_console.replays.feature import REPLAY
from hbus_console.replays.kind import KIND
from hbus_console.replays.trying import try_filter
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.leaving import may_call, may_move
from hbus_console.topics.models import Topic
from hbus_console.topics.pages import found_topic
from hbus_console.ui.timerange import time_range
from hbus_console.wiring import bus

#: What the button of the form adds to its address.
DRY_RUN = "dry"
_clock = SystemClock()


@require_GET
@console_view(VIEW, resource="{topic}")
def form(request: HttpRequest, topic: str) -> HttpResponse:
    """The form. Asked for its dry run it leads there, or says at its fields why there is none."""
    who, row = actor(request), found_topic(topic)
    span = time_range(request)
    given = specs.from_address(request.GET)
    if specs.IN_ADDRESS["from"] not in request.GET:
        given["from"] = to_rfc3339(span.start_ms)
    refused: BadInput | None = None
    if DRY_RUN in request.GET:
        try:
            KIND.check(who, {**KIND.from_query(request.GET), "topic": topic})
        except BadInput as error:
            refused = error
        else:
            asked = request.GET.copy()
            del asked[DRY_RUN]
            asked["topic"] = topic
            return redirect(f"{reverse('operations:plan', args=[KIND.name])}?{asked.urlencode()}")
    others = Topic.objects.filter(namespace_q(who, "name", PUBLISH)).exclude(pk=row.pk).order_by("name")
    groups = Subscription.objects.filter(topic=row).order_by("group")
    if not may_call(who, row):
        groups = groups.exclude(handler=Subscription.Handler.WEBHOOK)
    readable = bus.transport(row.transport).capabilities.browse
    context = {
        "nav": "topics",
        "topic": row,
        "given": given,
        # What is read from the archive is chosen by time.
        "by_position": readable and given["read_from"] != specs.ARCHIVE,
        "dry_run": DRY_RUN,
        "errors": {
            name.removeprefix("spec."): said for name, said in (field_errors(refused) if refused else {}).items()
        },
        # What would be refused is not offered.
        "groups": groups.values_list("group", flat=True),
        "others": may_move(who, row, others),
        "archive": _archive(row.name),
        "archive_name": specs.ARCHIVE,
        "readable": readable,
        "may_replay": allows(who, REPLAY, row.name),
        "may_read": allows(who, PAYLOAD_READ, row.name),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return render(request, "replays/form.html", context, status=status)


def _archive(topic: str) -> ArchiveReach | LakeDamaged | None:
    """How far it reaches, or why it cannot be asked."""
    try:
        return reach_of(topic)
    except LakeDamaged as error:
        return error


@require_GET
@console_view(PAYLOAD_READ, resource="{topic}")
def test(request: HttpRequest, topic: str) -> HttpResponse:
    """Tries the filter on the chosen range: how much was looked at, how much matches, and why it stopped."""
    given = {name: value for name, value in specs.from_address(request.GET).items() if value}
    context: dict[str, object]
    try:
        wanted = specs.read_range(who := actor(request), {**given, "topic": topic}, _clock.now_ms())
        context = {"plan": try_filter(who, wanted)}
    except BadInput as refused:
        context = {"refused": refused}
    return render(request, "replays/_test.html", context)
