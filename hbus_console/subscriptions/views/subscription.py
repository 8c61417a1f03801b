"""One subscription: how it stands, who consumes, what failed, and the acts."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from engine.bus.subjects import subscription_subject
from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import allows
from hbus_console.access.web import actor, console_view
from hbus_console.api.form_posts import carried_out_elsewhere
from hbus_console.api.idempotency import Repeat
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.subjects import about
from hbus_console.audit.telling import tell_all
from hbus_console.audit.trail import visible
from hbus_console.operations.reading import reached_by
from hbus_console.subscriptions import services, subscription_page
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT, SUBSCRIPTION_GOVERN, SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.draft import FAILED_HEADS
from hbus_console.topics.leaving import sent_whole
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act, clock, reason_act, refuse_act
from hbus_console.ui.timerange import time_range

#: How many audit entries the page shows.
ENTRIES = 6
#: And how many operations that reached it.
OPERATIONS = 3


def frame(request: HttpRequest, row: Subscription) -> dict[str, Any]:
    """What all pages of a subscription show."""
    who, name = actor(request), row.topic.name
    path = f"/api/v1/topics/{name}/subscriptions/{row.group}"
    return {
        "nav": "subscriptions",
        "subscription": row,
        "topic": row.topic,
        "address": services.address(row, who),
        "sent_whole": row.group in sent_whole(row.topic),
        "failed_head": f"{row.on_failed_head}: {FAILED_HEADS[row.on_failed_head]}",
        "may_operate": allows(who, SUBSCRIPTION_OPERATE, name),
        "may_edit": allows(who, SUBSCRIPTION_EDIT, name),
        "may_govern": allows(who, SUBSCRIPTION_GOVERN, name),
        "may_audit": allows(who, AUDIT_READ, name),
        "pause_curl": CurlRequest("POST", f"{path}/pause", {"reason": "why"}, idempotent=True),
        "drain_curl": CurlRequest("POST", f"{path}/drain", {"reason": "why"}, idempotent=True),
        "resume_curl": CurlRequest("POST", f"{path}/resume", {"reason": "why"}, idempotent=True),
        "breaker_open_curl": CurlRequest("POST", f"{path}/breaker", {"act": "open", "reason": "why"}),
        "breaker_try_curl": CurlRequest("POST", f"{path}/breaker", {"act": "try", "reason": "why"}),
        "breaker_close_curl": CurlRequest("POST", f"{path}/breaker", {"act": "close", "reason": "why"}),
        "change_curl": CurlRequest("PATCH", path, {"concurrency": row.concurrency, "reason": "why"}),
        "delete_curl": CurlRequest("DELETE", path, {"typed_name": row.group, "reason": "why"}),
        "rotate_curl": CurlRequest("POST", f"{path}/rotate-secret", {"reason": "why"}),
    }


@require_GET
@console_view(VIEW, resource="{topic}")
def detail(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    who, row = actor(request), services.subscription(topic, group)
    context = frame(request, row)
    if context["may_audit"]:
        entries = visible(who).filter(about(subscription_subject(topic, group))).order_by("-seq")
        context["told"] = tell_all(entries[:ENTRIES])
    context["reached"] = reached_by(who, subscription_subject(topic, group), OPERATIONS, clock.now_ms())
    context["page"] = page = subscription_page.build(who, row, time_range(request), clock.now_ms())
    if (row.paused or row.topic.paused) and page.lag is not None:
        context["drain"] = services.drain_status_if_known(who, topic, group)
    return render(request, "subscriptions/detail.html", context)


pause = reason_act(
    services.pause_subscription,
    said="{group} is paused. What is in flight ends.",
    needs=SUBSCRIPTION_OPERATE,
    of="topic",
    back="subscriptions:detail",
)
drain = reason_act(
    services.drain,
    said="{group} drains: nothing more is handed out, and this page says when it stands still.",
    needs=SUBSCRIPTION_OPERATE,
    of="topic",
    back="subscriptions:detail",
)
resume = reason_act(
    services.resume_subscription,
    said="{group} is handed messages again.",
    needs=SUBSCRIPTION_OPERATE,
    of="topic",
    back="subscriptions:detail",
)
follow_code = reason_act(
    services.follow_code,
    said="The code sets all policies of {group} again, from the consumers' next look on.",
    needs=SUBSCRIPTION_EDIT,
    of="topic",
    back="subscriptions:settings",
)


@never_cache
@require_GET
@console_view(VIEW, resource="{topic}")
def drain_state(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    """The line of the page that tells how far a drain is; it asks for itself again until that is done."""
    found = services.drain_status_if_known(actor(request), topic, group)
    row = services.subscription(topic, group)
    answer = render(request, "subscriptions/_drain.html", {"drain": found, "subscription": row})
    if found.drained:
        # Once, for whatever else the page says of it.
        answer["HX-Refresh"] = "true"
    return answer


@carried_out_elsewhere(Repeat.KNOWN_BY_ITS_EFFECT)
@require_POST
@console_view(VIEW, post=SUBSCRIPTION_OPERATE, resource="{topic}")
def breaker(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    wanted, reason = request.POST.get("act", ""), request.POST.get("reason", "")
    said = {
        "open": f"The breaker of {group} is open until somebody closes it: nothing is delivered.",
        "try": f"One message of {group} is tried within a second, and handled it closes the breaker. "
        "What came of it stands under Breaker.",
    }.get(wanted, f"The breaker of {group} is closed; its consumers go on within a second.")
    return act(
        request,
        said,
        lambda: services.set_breaker(actor(request), topic, group, wanted, reason),
        "subscriptions:detail",
        topic,
        group,
    )


@never_cache
@require_POST
@console_view(VIEW, post=SUBSCRIPTION_EDIT, resource="{topic}")
def rotate_secret(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    """The answer is the only page that shows the new secret."""
    row = services.subscription(topic, group)
    try:
        secret = services.rotate_secret(actor(request), topic, group, request.POST.get("reason", ""))
    except BadInput as refused:
        return refuse_act(request, refused, "subscriptions:settings", topic, group)
    return render(request, "subscriptions/secret.html", {**frame(request, row), "secret": secret})


@require_POST
@console_view(VIEW, post=SUBSCRIPTION_EDIT, resource="{topic}")
def delete(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    try:
        services.delete_subscription(
            actor(request),
            topic,
            group,
            request.POST.get("typed_name", "").strip(),
            request.POST.get("reason", ""),
        )
    except BadInput as refused:
        return refuse_act(request, refused, "subscriptions:settings", topic, group)
    messages.success(request, f"{group} on {topic} is deleted; its dead letters stay as evidence.")
    return redirect("topics:detail", topic)
