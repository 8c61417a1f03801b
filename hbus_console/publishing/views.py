"""Publishing a message by hand: checked first if wanted, and audited."""

from __future__ import annotations

import hashlib
import json
import re
from secrets import token_urlsafe
from typing import Any

import msgspec
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods

from engine.bus.message import encode
from engine.bus.producer import Receipt, ReceiptStatus
from engine.bus.subjects import MESSAGE
from engine.core.errors import BadInput, OutcomeUnknown, Unavailable
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import FORM_MARK, actor, console_view
from hbus_console.api import idempotency
from hbus_console.api.form_posts import carried_out_elsewhere
from hbus_console.publishing import forms
from hbus_console.publishing import services as publishing
from hbus_console.publishing.feature import PUBLISH
from hbus_console.registry import subjects
from hbus_console.schemas.sample import sample
from hbus_console.subjects import readable
from hbus_console.topics.models import Topic
from hbus_console.ui import formats
from hbus_console.ui.control_characters import escaped, json_to_send
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.forms import Form, text
from hbus_console.ui.pages import form_page

_URN = re.compile(r"urn:hbus:schema:[^:\s]+:([0-9]+)")
_OPTIONS = ("type", "key", "headers", "delay_s", "due", "priority", "ttl_s", "idempotency_key")


# Its own key is remembered for the topic's window, which may be shorter than a form's.
@carried_out_elsewhere(idempotency.Repeat.TOLD_BY_THE_AUDIT_LOG)
@require_http_methods(["GET", "POST"])
@console_view(PUBLISH, resource=SOMEWHERE)
def publish(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    topics = Topic.objects.filter(namespace_q(who, "name", PUBLISH)).select_related("team")
    asked = (request.POST if request.method == "POST" else request.GET).get("topic", "").strip()
    topic = topics.filter(name=asked).first() if asked else None
    page: dict[str, Any] = {
        "nav": "messages",
        "topics": topics.order_by("name"),
        "topic": topic,
        "asked": asked,
        # To whom no topic is closed, none that is missing is: there is none.
        "everywhere": allows(who, PUBLISH, GLOBAL),
    }
    if request.method == "GET":
        page |= {"values": {"priority": "normal", "payload": _sample(topic)}, **_about(topic)}
        return form_page(request, "publishing/publish.html", page)
    typed = {**request.POST.dict(), "payload": escaped(request.POST.get("payload", ""))}
    page |= {"values": typed, **_about(topic)}
    try:
        payload, options = forms.payload(request.POST), forms.publish_options(request.POST)
        page["curl"] = _curl(asked, payload, request.POST)
        if request.POST.get("act") == "check":
            message = publishing.check(who, asked, payload, options)
            page |= {"checked": json.loads(encode(message)), "size": len(encode(message))}
            return form_page(request, "publishing/publish.html", page)
        if not options.idempotency_key:
            # Should the answer be lost, the form has it, or makes it again: sending it again stores nothing twice.
            options = msgspec.structs.replace(options, idempotency_key=_own_key(request, who))
        receipt = publishing.publish_by_hand(who, asked, payload, options)
    except BadInput as refused:
        page |= _broken_schema(asked, refused)
        return form_page(request, "publishing/publish.html", page, _at_field(refused))
    except Unavailable as error:
        if isinstance(error, OutcomeUnknown):
            page["values"]["idempotency_key"] = options.idempotency_key
        if isinstance(error, publishing.MaybePublished) and allows(who, VIEW, asked):
            page["maybe"] = subjects.address(readable(MESSAGE, asked, error.message_id))
        return form_page(request, "publishing/publish.html", page, error)
    messages.success(request, _told(who, receipt))
    return redirect(f"{reverse('publishing:publish')}?{urlencode({'topic': asked})}")


def _own_key(request: HttpRequest, who: Actor) -> str:
    """Of a form that is sent under a key the same each time."""
    if FORM_MARK in request.headers and (key := request.headers.get(idempotency.HEADER)):
        parts = f"{who.name}\n{key}".encode()
        return f"by-hand:{hashlib.sha256(parts).hexdigest()}"
    return f"by-hand:{token_urlsafe(16)}"


def _about(topic: Topic | None) -> dict[str, Any]:
    """What the form and its aside say about the chosen topic."""
    if topic is None:
        return {}
    latest = topic.schemas.first()
    return {"schema": latest, "readers": topic.subscriptions.count()}


def _sample(topic: Topic | None) -> str:
    latest = topic.schemas.first() if topic else None
    return json_to_send(sample(latest.body) if latest else {})


def _curl(topic: str, payload: Any, form: Form) -> CurlRequest:
    """The same publish as a request to the API."""
    body: dict[str, Any] = {"data": payload}
    for name in _OPTIONS:
        value = text(form, name)
        if value and (name, value) != ("priority", "normal"):
            body[name] = value
    options = forms.publish_options(form)
    body |= {name: getattr(options, name) for name in ("delay_s", "ttl_s", "headers") if name in body}
    if options.due is not None:
        body["due"] = options.due.isoformat()
    return CurlRequest("POST", f"/api/v1/topics/{topic}/messages", body, idempotent=True)


def _at_field(refused: BadInput) -> BadInput:
    """The refusal at the field of the form: ``payload.guest.name`` is shown at the payload, named in full."""
    field, _, inner = refused.field.partition(".")
    where = {"message_id": "", "subject": "", "source": ""}.get(field, field)
    # The page leads to the schema itself; its URN is for programs.
    remedy = _URN.sub(r"version \1 of its schema", refused.remedy)
    if inner and where == "payload" and inner not in refused.what:
        return BadInput(f"{inner}: {refused.what}", remedy=remedy, field=where)
    return BadInput(refused.what, remedy=remedy, field=where)


def _broken_schema(topic: str, refused: BadInput) -> dict[str, Any]:
    """Where the schema stands that the payload breaks, for a link."""
    found = _URN.search(refused.remedy)
    if found is None:
        return {}
    return {
        "broken_schema": f"{reverse('schemas:schema', args=[topic])}?version={found[1]}",
        "broken_version": found[1],
    }


def _told(who: Actor, receipt: Receipt) -> SafeString:
    link = _link(receipt) if allows(who, VIEW, receipt.topic) else receipt.message_id
    if receipt.status is ReceiptStatus.DUPLICATE:
        return format_html("That key was used before: {} is the message it stands for. Nothing was stored again.", link)
    if receipt.status is ReceiptStatus.DELAYED:
        return format_html("{} waits until {}.", link, formats.exact(receipt.due_ms))
    if not receipt.position:
        # Its transport keeps no log with places in it.
        return format_html("{} is stored in {}.", link, receipt.topic)
    return format_html("{} is stored in {} at {}.", link, receipt.topic, receipt.position)


def _link(receipt: Receipt) -> SafeString | str:
    address = subjects.address(readable(MESSAGE, receipt.topic, receipt.message_id))
    if not address:
        return receipt.message_id
    return format_html('<a class="mono" href="{}">{}</a>', address, receipt.message_id)
