"""What pages with forms and sheets share."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.access.web import field_errors

clock = SystemClock()


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
