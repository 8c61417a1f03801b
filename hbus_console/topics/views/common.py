"""What the pages of this app share."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.bus.errors import UnknownTopic
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.accounts.web import field_errors
from hbus_console.errors import NotThere
from hbus_console.topics.models import Team, Topic
from hbus_console.topics.services import topic

clock = SystemClock()

#: What a failed message does to those of its key behind it, in words.
FAILED_HEADS = {
    "block": "its key waits, and goes on once it is dead",
    "park": "its key waits, and is set aside in the end",
    "pass": "its key goes on at once, it comes later",
}


def found_topic(name: str) -> Topic:
    """The topic of a page's address; a page answers 404 for one that is not there."""
    try:
        return topic(name)
    except UnknownTopic as error:
        raise NotThere(error.what, remedy="Look for it in the list of topics.", field="topic") from error


def team_names() -> list[str]:
    """For the owner fields."""
    return list(Team.objects.order_by("name").values_list("name", flat=True))


def act(request: HttpRequest, said: str, do: Callable[[], object], *target: Any) -> HttpResponse:
    """Do what a sheet on a page asked for and go back to the page, with the outcome or the refusal on top."""
    try:
        do()
    except BadInput as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, said)
    return redirect(*target)


def form_page(
    request: HttpRequest, template: str, context: dict[str, Any], refused: BadInput | None = None
) -> HttpResponse:
    """A page with a form: 422 with the refusal at its field when there is one."""
    errors = field_errors(refused) if refused else {}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return render(request, template, {**context, "errors": errors}, status=status)
