"""A topic's schema: its versions, what changed between them, and whether a new one would be accepted."""

from __future__ import annotations

import difflib
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput, NotThere
from hbus_console.access.acts import VIEW
from hbus_console.access.web import actor, console_view
from hbus_console.schemas import services
from hbus_console.schemas.models import SchemaVersion
from hbus_console.schemas.modes import MODES
from hbus_console.schemas.services import parse
from hbus_console.topics.pages import found_topic, frame
from hbus_console.ui.control_characters import escaped, json_to_send
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import form_page

#: Unchanged lines around a change.
CONTEXT = 4


@require_http_methods(["GET", "POST"])
@console_view(VIEW, resource="{name}")
def schema(request: HttpRequest, name: str) -> HttpResponse:
    topic = found_topic(name)
    versions = list(topic.schemas.select_related("topic").order_by("-version"))
    shown = _chosen(versions, request.GET.get("version", ""))
    against = _chosen(versions, request.GET["against"]) if request.GET.get("against") else None
    page: dict[str, Any] = {
        **frame(request, topic, "schema"),
        "rows": versions,
        "shown": shown,
        "against": against,
        "uri": shown.uri if shown else "",
        "diff": diff(against.body, shown.body) if against and shown else [],
        "mode_words": MODES[topic.compatibility],
        "draft": _pretty(versions[0].body) if versions else _pretty(_FIRST),
        "note": "",
        "check_curl": CurlRequest("POST", f"/api/v1/topics/{name}/schemas/check", {"body": {"type": "object"}}),
    }
    if request.method == "GET":
        return form_page(request, "schemas/schema.html", page)
    page |= {"draft": escaped(request.POST.get("body", "")), "note": request.POST.get("note", "").strip()}
    who = actor(request)
    try:
        body = parse(page["draft"])
        if request.POST.get("act") == "add":
            made = services.add_schema(who, name, body, page["note"])
            new = not versions or made.version > versions[0].version
            said = f"Version {made.version} holds from now on." if new else "That is the present version already."
            messages.success(request, said)
            return redirect("schemas:schema", name)
        page["verdict"] = services.would_accept(who, name, body)
        page["draft_diff"] = diff(versions[0].body, body) if versions else []
    except BadInput as refused:
        return form_page(request, "schemas/schema.html", page, refused)
    return form_page(request, "schemas/schema.html", page)


_FIRST = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


def diff(old: Any, new: Any) -> list[tuple[str, str]]:
    """What changed between two schemas: lines with ``same``, ``added``, ``removed`` or ``gap``."""
    before, after = _pretty(old).splitlines(), _pretty(new).splitlines()
    lines: list[tuple[str, str]] = []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=CONTEXT))[2:]:
        if line.startswith("@@"):
            if lines:
                lines.append(("gap", "…"))
            continue
        lines.append(({"+": "added", "-": "removed"}.get(line[0], "same"), line[1:]))
    return lines


def _chosen(versions: list[SchemaVersion], asked: str) -> SchemaVersion | None:
    if not asked:
        return versions[0] if versions else None
    for row in versions:
        if str(row.version) == asked:
            return row
    raise NotThere(f"There is no version {asked[:20]!r}.", remedy="Choose one from the list.", field="version")


def _pretty(body: Any) -> str:
    return json_to_send(body)
