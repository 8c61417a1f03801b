"""Channels: who is told, how, and whether it works."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.db.models import Count, Max, OuterRef, Q, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.alerts import services
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.models import Channel, Notification
from hbus_console.alerts.services import ChannelDraft, lookup
from hbus_console.alerts.services.channel_draft import SETTINGS, asked_of, settings_for
from hbus_console.alerts.views.alerts import frame
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.forms import revision
from hbus_console.ui.pages import clock, form_page

#: Messages that a channel's page shows.
SENT = 20
#: What is asked of a new channel.
_NEW = [name for name in SETTINGS.each if name != "enabled"]


def place(row: Channel) -> str:
    """Where it leads, without what may be a secret in a path."""
    if row.kind == Channel.Kind.EMAIL:
        return f"{len(row.recipients)} address{'' if len(row.recipients) == 1 else 'es'}"
    return urlsplit(row.url).hostname or ""


@never_cache
@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=ALERT_CHANNEL, resource=SOMEWHERE)
def channels(request: HttpRequest) -> HttpResponse:
    """The list; a POST adds one, and its answer is the only page that shows a webhook's secret."""
    who = actor(request)
    used = Counter(channel.pk for rule in lookup.rules(who) for channel in rule.channels.all())
    # What waits is of every namespace.
    everything = GLOBAL in visible_scopes(who)
    rows = Channel.objects.annotate(
        waiting=Count("notifications", filter=Q(notifications__state=Notification.State.WAITING), distinct=True),
        last_ms=Max("notifications__sent_ms"),
    )
    last = _last_of_each()
    page: dict[str, Any] = {
        **frame(who, "channels", clock.now_ms()),
        "channels": [
            # Which rules use it is told for the reader's scope.
            {"row": row, "place": place(row), "last": last.get(row.pk), "used": used[row.pk]}
            for row in rows
        ],
        "everything": everything,
        "mail": bool(settings.EMAIL_HOST),
        "asked": [SETTINGS[name] for name in _NEW if settings.EMAIL_HOST or name != "recipients"],
        "values": {"kind": Channel.Kind.WEBHOOK, "recipients": ""},
        "create_curl": CurlRequest(
            "POST", "/api/v1/alert-channels", {"name": "on-call", "kind": "webhook", "url": "https://…"}
        ),
    }
    if request.method == "GET":
        return form_page(request, "alerts/channels.html", page)
    page["values"] = {**page["values"], **request.POST.dict()}
    kind = request.POST.get("kind", "")
    try:
        # One that is made on the page is on.
        values = {**SETTINGS.typed(request.POST, settings_for(kind)), "enabled": True}
        made = services.create_channel(who, ChannelDraft(kind=kind, **values), request.POST.get("reason", ""))
    except BadInput as refused:
        return form_page(request, "alerts/channels.html", page, refused, SETTINGS.labels)
    if made.secret:
        return render(request, "alerts/secret.html", {**page, "channel": made, "secret": made.secret, "fresh": True})
    messages.success(request, f"{made.name} is ready. Send a test before you rely on it.")
    return redirect("alerts:channel", made.pk)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=ALERT_CHANNEL, resource=SOMEWHERE)
def channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    who = actor(request)
    row = services.channel(who, channel_id)
    everything = GLOBAL in visible_scopes(who)
    path = f"/api/v1/alert-channels/{row.pk}"
    page: dict[str, Any] = {
        **frame(who, "channels", clock.now_ms()),
        "channel": row,
        "place": place(row),
        "asked": asked_of(row.kind),
        "values": SETTINGS.snapshot(row),
        "rules": row.rules.all() if everything else [],
        # They name targets of every namespace.
        "messages_sent": row.notifications.order_by("-made_ms", "-pk")[:SENT] if everything else [],
        "test_curl": CurlRequest("POST", f"{path}/test", {}),
        "delete_curl": CurlRequest("DELETE", path, {"reason": "why"}),
        "rotate_curl": CurlRequest("POST", f"{path}/rotate-secret", {"reason": "why"}),
    }
    if request.method == "GET":
        return form_page(request, "alerts/channel.html", page)
    page["values"] = {**page["values"], **request.POST.dict(), "enabled": "enabled" in request.POST}
    try:
        changed = services.change_channel(
            who,
            channel_id,
            SETTINGS.typed(request.POST, settings_for(row.kind)),
            request.POST.get("reason", ""),
            revision=revision(request.POST),
        )
    except BadInput as refused:
        return form_page(request, "alerts/channel.html", page, refused)
    if changed.revision == row.revision:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"{changed.name} is changed.")
    return redirect("alerts:channel", channel_id)


@require_POST
@console_view(VIEW, post=ALERT_CHANNEL)
def test(request: HttpRequest, channel_id: int) -> HttpResponse:
    tried = services.try_channel(actor(request), channel_id)
    tell = messages.success if tried.taken else messages.error
    tell(request, f"Test through {tried.channel}: {tried.said}")
    return redirect("alerts:channel", channel_id)


@never_cache
@require_POST
@console_view(VIEW, post=ALERT_CHANNEL)
def rotate_secret(request: HttpRequest, channel_id: int) -> HttpResponse:
    """The answer is the only page that shows the new secret."""
    who = actor(request)
    row = services.channel(who, channel_id)
    try:
        secret = services.rotate_secret(who, channel_id, request.POST.get("reason", ""))
    except BadInput as refused:
        messages.error(request, str(refused))
        return redirect("alerts:channel", channel_id)
    return render(
        request, "alerts/secret.html", {**frame(who, "channels", clock.now_ms()), "channel": row, "secret": secret}
    )


@require_POST
@console_view(VIEW, post=ALERT_CHANNEL)
def delete(request: HttpRequest, channel_id: int) -> HttpResponse:
    who = actor(request)
    row = services.channel(who, channel_id)
    try:
        services.delete_channel(who, channel_id, request.POST.get("reason", ""))
    except BadInput as refused:
        messages.error(request, str(refused))
        return redirect("alerts:channel", channel_id)
    messages.success(request, f"{row.name} is deleted; nobody is told through it any more.")
    return redirect("alerts:channels")


def _last_of_each() -> dict[int, Notification]:
    """The newest message of every channel that has any, in one query."""
    newest = Notification.objects.filter(channel=OuterRef("pk")).order_by("-made_ms", "-pk").values("pk")[:1]
    chosen = Channel.objects.order_by().annotate(last=Subquery(newest)).values("last")
    return {row.channel_id: row for row in Notification.objects.filter(pk__in=chosen).defer("body")}
