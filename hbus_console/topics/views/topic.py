"""One topic: how it stands, how to connect to it, what was done to it, and the acts."""

from __future__ import annotations

from pprint import pformat

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.web import actor, console_view
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.telling import tell_all
from hbus_console.audit.trail import visible
from hbus_console.messages.models import DeliveryCheck, LedgerCheck
from hbus_console.pipelines.newest_audit import newest_audit
from hbus_console.schemas.sample import sample
from hbus_console.topics import asyncapi, services, topic_page
from hbus_console.topics.feature import TOPIC_DELETE, TOPIC_PAUSE
from hbus_console.topics.models import Topic
from hbus_console.topics.pages import found_topic, frame
from hbus_console.ui.control_characters import json_to_send
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.formats import counted
from hbus_console.ui.pages import clock, reason_act, refuse_act
from hbus_console.ui.timerange import time_range
from hbus_console.wiring import bus

#: How many audit entries the tab shows; the audit log has them all.
ENTRIES = 50
#: A comparison of deliveries that is so far back is held up; one that goes on is minutes behind.
HELD_MS = 900_000


@require_GET
@console_view(VIEW, resource="{name}")
def detail(request: HttpRequest, name: str) -> HttpResponse:
    topic = found_topic(name)
    page = topic_page.build(actor(request), topic, time_range(request), clock.now_ms())
    audit = newest_audit(topic.name)
    return render(request, "topics/detail.html", {**frame(request, topic, "overview"), "page": page, "audit": audit})


@require_GET
@console_view(VIEW, resource="{name}")
def connect(request: HttpRequest, name: str) -> HttpResponse:
    """How a program publishes to it and reads it; its part of the AsyncAPI document."""
    topic = found_topic(name)
    latest = topic.schemas.first()
    payload = sample(latest.body) if latest else {"id": 1}
    rows = Topic.objects.filter(pk=topic.pk).select_related("team").prefetch_related("schemas", "subscriptions__team")
    document = asyncapi.document(rows, host=request.get_host(), protocol=request.scheme or "http")
    context = {
        "publish_curl": CurlRequest("POST", f"/api/v1/topics/{name}/messages", {"data": payload}, idempotent=True),
        "asyncapi_curl": CurlRequest("GET", f"/api/v1/asyncapi?name={name}"),
        "payload": json_to_send(payload, indent=4),
        "payload_python": pformat(payload, width=84, sort_dicts=False),
        "document": {part: document[part] for part in ("channels", "operations")},
        "base": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "topics/connect.html", {**frame(request, topic, "connect"), **context})


@require_GET
@console_view(AUDIT_READ, resource="{name}")
def trail(request: HttpRequest, name: str) -> HttpResponse:
    topic = found_topic(name)
    entries = visible(actor(request)).filter(namespace=name).order_by("-seq")[:ENTRIES]
    deliveries = DeliveryCheck.objects.filter(topic=name).annotate(waiting=Count("aside"))
    context = {
        "told": tell_all(entries),
        "deliveries": deliveries.order_by("subscription"),
        "check": LedgerCheck.objects.filter(topic=name).first(),
        "comparable": bus.transport(topic.transport).capabilities.browse,
        "now_ms": clock.now_ms(),
        "held_before_ms": clock.now_ms() - HELD_MS,
    }
    return render(request, "topics/trail.html", {**frame(request, topic, "trail"), **context})


pause = reason_act(
    lambda who, name, reason: services.pause_topic(who, found_topic(name).name, reason),
    said="Deliveries of {name} are held. Publishing goes on.",
    needs=TOPIC_PAUSE,
    of="name",
    back="topics:detail",
)
resume = reason_act(
    lambda who, name, reason: services.resume_topic(who, found_topic(name).name, reason),
    said="{name} is handed out again.",
    needs=TOPIC_PAUSE,
    of="name",
    back="topics:detail",
)


@require_POST
@console_view(VIEW, post=TOPIC_DELETE, resource="{name}")
def delete(request: HttpRequest, name: str) -> HttpResponse:
    try:
        waited = services.delete_topic(
            actor(request),
            found_topic(name).name,
            request.POST.get("typed_name", "").strip(),
            request.POST.get("reason", ""),
        )
    except BadInput as refused:
        return refuse_act(request, refused, "topics:settings", name)
    cancelled = f" {counted(waited, 'message')} that waited for later: cancelled." if waited else ""
    messages.success(request, f"{name} is deleted with all its messages; the audit log keeps that it was.{cancelled}")
    return redirect("topics:list")
