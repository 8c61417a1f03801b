"""The page of the archive, and its two acts."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from engine.core.clock import SystemClock
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.state import LakeState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.models import Job
from hbus_console.pipelines.feature import ARCHIVE_KEEP, ARCHIVE_SET, JOB
from hbus_console.pipelines.keeping import keep
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.pipelines.standing import Standings, TopicStanding, size_told, topics_seen
from hbus_console.pipelines.the_lake import lake
from hbus_console.topics.pages import found_topic
from hbus_console.ui import forms
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act
from hbus_console.ui.rows import page_of

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def archive(request: HttpRequest) -> HttpResponse:
    who, now_ms = actor(request), _clock.now_ms()
    try:
        state, damage = lake().state(), None
    except LakeDamaged as error:
        state, damage = LakeState(), error
    told = Standings(state, in_haste=True)
    # Of a lake that nobody can read nobody knows what it has of a topic.
    every = [] if damage else sorted(map(told.of, topics_seen(who)), key=_first_what_is_kept)
    shown, more = page_of(every, [each.topic.name for each in every], request.GET.get("cursor", ""))
    sizes = [size_told(who, each) for each in every]
    context = {
        "nav": "archive",
        "rows": [
            {
                "it": each,
                "size": size_told(who, each),
                "waiting": told.waiting(each.topic) if each.archived else None,
                "may": allows(who, ARCHIVE_SET, each.topic.name),
                "may_keep": bool(each.messages) and allows(who, ARCHIVE_KEEP, each.topic.name),
                "keep_curl": CurlRequest(
                    "PATCH", f"/api/v1/archive/topics/{each.topic.name}/rules", {"keep_days": 400, "reason": "why"}
                ),
                "curl": CurlRequest(
                    "DELETE" if each.archived else "PUT", f"/api/v1/archive/topics/{each.topic.name}", {"reason": "why"}
                ),
            }
            for each in shown
        ],
        # No event tells of each message that comes: what waits is of when it was asked for.
        "asked_ms": now_ms,
        "next_cursor": more,
        "found": len(every),
        "archived": sum(each.archived for each in every),
        "lost": sum(each.lost for each in every),
        "kept": sum(each.messages for each in every),
        # With what is not told among the others, whoever knows the others would know it.
        "bytes": None if None in sizes else sum(size for size in sizes if size is not None),
        "files": sum(each.files for each in every),
        "damage": damage,
        "job": Job.objects.filter(name=JOB).first() if allows(who, VIEW, JOB) else None,
    }
    return render(request, "pipelines/archive.html", context)


def _first_what_is_kept(each: TopicStanding) -> tuple[bool, bool, str]:
    return not each.archived, not each.messages, each.topic.name


@require_POST
@console_view(VIEW, post=ARCHIVE_KEEP, resource="{topic}")
def keep_topic(request: HttpRequest, topic: str) -> HttpResponse:
    """What the form changed, and nothing that somebody else may have changed meanwhile."""
    name, form = found_topic(topic).name, request.POST
    changes: dict[str, object] = {}
    if form.get("keep_days", "").strip() != form.get("was_days", ""):
        changes["keep_days"] = forms.whole(form, "keep_days") if form.get("keep_days", "").strip() else None
    if form.get("hold", "").strip() != form.get("was_hold", ""):
        changes["hold"] = form.get("hold", "")

    def do() -> object:
        return keep(actor(request), name, changes, form.get("reason", ""))

    return act(request, f"What the archive keeps of {name} is set.", do, "pipelines:archive")


def _act(said: str, do: Callable[[Actor, str, str], object]) -> Callable[..., HttpResponse]:
    @require_POST
    @console_view(VIEW, post=ARCHIVE_SET, resource="{topic}")
    def view(request: HttpRequest, topic: str) -> HttpResponse:
        name = found_topic(topic).name
        reason = request.POST.get("reason", "")
        return act(request, said.format(name), lambda: do(actor(request), name, reason), "pipelines:archive")

    return view


start = _act("{} is archived from now on, with all that it holds.", archive_topic)
stop = _act("{} is archived no further. What the lake has of it stays.", stop_archiving)
