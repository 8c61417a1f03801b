"""The order of a subscription: partitions and owners, keys that wait, one key's sequence, and the decisions."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from hbus_console.access.acts import VIEW
from hbus_console.access.web import actor, console_view
from hbus_console.api.form_posts import carried_out_elsewhere
from hbus_console.api.idempotency import Repeat
from hbus_console.subscriptions import order_page, services
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.services.order import HEADS
from hbus_console.subscriptions.views.subscription import frame
from hbus_console.topics.handler_errors import told_whole_from
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act, clock


@require_GET
@console_view(VIEW, resource="{topic}")
def order(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    row = services.subscription(topic, group)
    key = request.GET.get("key", "").strip()
    path = f"/api/v1/topics/{topic}/subscriptions/{group}"
    context = {
        **frame(request, row),
        "key": key,
        "page": order_page.build(row, key, clock.now_ms(), told_from=told_whole_from(actor(request), topic, row.topic)),
        "unpark_curl": CurlRequest(
            "POST", f"{path}/unpark", {"key": key, "head": "retry", "reason": "why"}, idempotent=True
        ),
    }
    return render(request, "subscriptions/order.html", context)


@carried_out_elsewhere(Repeat.KNOWN_BY_ITS_EFFECT)
@require_POST
@console_view(VIEW, post=SUBSCRIPTION_OPERATE, resource="{topic}")
def unpark(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    key, head = request.POST.get("key", ""), request.POST.get("head", "")
    reason = request.POST.get("reason", "")
    return act(
        request,
        f"{key} is unparked: {HEADS.get(head, '')}.",
        lambda: services.unpark(actor(request), topic, group, key, head=head, reason=reason),
        "subscriptions:order",
        topic,
        group,
    )
