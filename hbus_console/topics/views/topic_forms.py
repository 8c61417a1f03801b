"""Making a topic, and its settings: how it works (editors), and who answers and who sees (governors)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.schemas.services import parse
from hbus_console.teams.services import team_names
from hbus_console.topics import delayed, services
from hbus_console.topics.feature import TOPIC_EDIT
from hbus_console.topics.leaving import sent_whole
from hbus_console.topics.models import Topic
from hbus_console.topics.pages import found_topic, frame
from hbus_console.topics.payloads import MaskingRules
from hbus_console.topics.services import TopicDraft
from hbus_console.topics.services.draft import GOVERNANCE, SETTINGS, WORKINGS, settings_of, snapshot
from hbus_console.topics.services.moving import lacks_priorities, told_of_lacks
from hbus_console.topics.services.topic_rules import carrier_of
from hbus_console.ui import formats
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.forms import revision, text
from hbus_console.ui.pages import form_page
from hbus_console.wiring import bus


def _asked() -> dict[str, Any]:
    """What the forms ask for."""
    return {"teams": team_names(), "workings": SETTINGS.part(WORKINGS), "governance": SETTINGS.part(GOVERNANCE)}


@require_http_methods(["GET", "POST"])
@console_view(TOPIC_EDIT, resource=SOMEWHERE)
def new(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    fresh = Topic(name=request.GET.get("name", ""), ordering=Topic.Ordering.NONE)
    fresh_values = {**snapshot(fresh), "name": fresh.name, "partitions": None}
    page = {
        "nav": "topics",
        **_asked(),
        "values": fresh_values,
        "scopes": visible_scopes(who, TOPIC_EDIT),
        "schema_hint": '{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}',
    }
    if request.method == "GET":
        return form_page(request, "topics/new.html", page)
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    name, schema = text(request.POST, "name"), request.POST.get("schema", "").strip()
    page["values"] = {**values, "name": name, "schema": schema}
    # Only ticked or not can be told from the form; unticked leaves it to what ordering allows.
    values["priorities"] = True if values["priorities"] else None if values["ordering"] == "key" else False
    try:
        body = parse(schema) if schema else None
        made = services.create_topic(who, TopicDraft(name=name, **values, schema=body), request.POST.get("reason", ""))
    except BadInput as refused:
        return form_page(request, "topics/new.html", page, _at(refused, "body", "schema"))
    messages.success(request, f"{made.name} is there: {values['owner']} answers for it, and it takes messages.")
    return redirect("topics:detail", made.name)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=TOPIC_EDIT, resource="{name}")
def settings(request: HttpRequest, name: str) -> HttpResponse:
    topic = found_topic(name)
    shared, readers = frame(request, topic, "settings"), list(topic.subscriptions.values_list("group", flat=True))
    page = {
        **shared,
        **_asked(),
        "values": snapshot(topic),
        **_move(topic),
        "readers": readers,
        # It is read through for this, so only where it can be deleted.
        "delayed": delayed.waiting(name) if shared["may_delete"] and not readers else 0,
        "webhooks": list(topic.subscriptions.filter(handler="webhook").values_list("group", flat=True)),
        "change_curl": CurlRequest("PATCH", f"/api/v1/topics/{name}", {"ttl_s": topic.ttl_s, "reason": "why"}),
        "delete_curl": CurlRequest("DELETE", f"/api/v1/topics/{name}", {"typed_name": name, "reason": "why"}),
    }
    if request.method == "GET":
        return form_page(request, "topics/settings.html", page)
    changes = SETTINGS.typed(request.POST, settings_of(request.POST.get("part", WORKINGS)))
    page["values"] = {**snapshot(topic), **changes}
    page["sent_reason"] = request.POST.get("reason", "")
    page["part"] = request.POST.get("part", "")
    try:
        changed = services.change_topic(
            actor(request), name, changes, request.POST.get("reason", ""), revision=revision(request.POST)
        )
    except BadInput as refused:
        return form_page(request, "topics/settings.html", page, refused)
    if changed.revision == topic.revision:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"{name} is changed; consumers and producers notice within seconds.")
        if not MaskingRules.of(topic).keep(MaskingRules.of(changed)) and (hooks := sent_whole(changed)):
            go_on = formats.counted(len(hooks), "webhook goes", "webhooks go")
            messages.warning(request, f"{go_on} on being sent whole what is masked now: {', '.join(hooks)}.")
    return redirect("topics:settings", name)


def _move(topic: Topic) -> dict[str, Any]:
    """Where it may go, and what it would miss there."""
    destinations = [each for each in bus.carriers() if each not in (carrier_of(topic.transport), "memory")]
    lacks: list[str] = []
    without_priorities = False
    for each in destinations:
        try:
            lacks += told_of_lacks(topic, each)
            without_priorities |= lacks_priorities(topic, each)
        except BadInput as refused:
            # It is not set up.
            lacks.append(f"{each}: {refused.what}")
    return {"destinations": destinations, "lacks": lacks, "without_priorities": without_priorities}


def _at(refused: BadInput, named: str, here: str) -> BadInput:
    """The same refusal at the field this page has for it."""
    if refused.field == named:
        refused.field = here
    return refused
