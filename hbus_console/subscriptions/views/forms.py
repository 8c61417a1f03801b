"""Subscribing to a topic, and a subscription's settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.web import actor, console_view
from hbus_console.drafts.setting import Setting
from hbus_console.subscriptions import services
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.subscriptions.services.draft import POLICIES, POLICY, SETTINGS, settings_for, snapshot
from hbus_console.subscriptions.views.subscription import frame
from hbus_console.teams.services import team_names
from hbus_console.topics.models import Topic
from hbus_console.topics.pages import found_topic
from hbus_console.topics.pages import frame as topic_frame
from hbus_console.ui.forms import revision, text
from hbus_console.ui.pages import form_page


def _policies(topic: Topic) -> list[Setting]:
    """The settings of how failures are met, as far as they mean something on that topic."""
    return [one for one in SETTINGS.part(POLICIES) if one.name != "on_failed_head" or topic.ordering == "key"]


@never_cache
@require_http_methods(["GET", "POST"])
@console_view(SUBSCRIPTION_EDIT, resource="{topic}")
def new(request: HttpRequest, topic: str) -> HttpResponse:
    row, who = found_topic(topic), actor(request)
    fresh = SubscriptionDraft(topic=topic, group="", owner=row.team.name if row.team else "", handler="webhook")
    page: dict[str, Any] = {
        **topic_frame(request, row, ""),
        "nav": "subscriptions",
        "teams": team_names(),
        "policies": _policies(row),
        "values": asdict(fresh),
    }
    if request.method == "GET":
        return form_page(request, "subscriptions/new.html", page)
    group, handler = text(request.POST, "group"), text(request.POST, "handler")
    start = text(request.POST, "start") or "beginning"
    page["values"] = {**page["values"], **request.POST.dict(), "transactional": "transactional" in request.POST}
    try:
        values = SETTINGS.typed(request.POST, settings_for(handler))
        draft = SubscriptionDraft(topic=topic, group=group, handler=handler, start=start, **values)
        made = services.create_subscription(who, draft, request.POST.get("reason", ""))
    except BadInput as refused:
        return form_page(request, "subscriptions/new.html", page, refused)
    if made.webhook_secret:
        return render(
            request, "subscriptions/secret.html", {**frame(request, made), "secret": made.webhook_secret, "fresh": True}
        )
    messages.success(request, f"{group} subscribes to {topic}; it runs once a consumer has its handler.")
    return redirect("subscriptions:detail", topic, group)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=SUBSCRIPTION_EDIT, resource="{topic}")
def settings(request: HttpRequest, topic: str, group: str) -> HttpResponse:
    row = services.subscription(topic, group)
    webhook = row.handler == Subscription.Handler.WEBHOOK
    page: dict[str, Any] = {
        **frame(request, row),
        "teams": team_names(),
        "policies": _policies(row.topic),
        "webhook": webhook,
        "values": {**snapshot(row), "webhook_url": services.address(row, actor(request))},
        "held": [name for name in POLICY if name in row.held_fields],
    }
    if request.method == "GET":
        return form_page(request, "subscriptions/settings.html", page)
    page["values"] = {**page["values"], **request.POST.dict(), "transactional": "transactional" in request.POST}
    # Who may not choose the owner is not asked for it.
    asked = [name for name in settings_for(row.handler) if name != "owner" or name in request.POST]
    try:
        changed = services.change_subscription(
            actor(request),
            topic,
            group,
            SETTINGS.typed(request.POST, asked),
            request.POST.get("reason", ""),
            revision=revision(request.POST),
        )
    except BadInput as refused:
        return form_page(request, "subscriptions/settings.html", page, refused)
    if changed.revision == row.revision:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"{group} is changed; its consumers start anew with it within seconds.")
    return redirect("subscriptions:settings", topic, group)
