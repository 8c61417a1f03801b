"""What every page of the console stands behind: sign-in, permission, and designed answers to refusals."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render, resolve_url

from engine.core.errors import BadInput, HbusError
from hbus_console.access.acts import Act
from hbus_console.access.error_answers import answer_to, not_kept
from hbus_console.access.permissions import GLOBAL, Actor, Forbidden, require
from hbus_console.access.refusals import refused
from hbus_console.faults import FieldError, faults_of

_log = structlog.get_logger(__name__)

#: A view, sync or async; the decorated one has the same kind.
V = TypeVar("V", bound=Callable[..., Any])
#: A post of the pages' script has this header; its key is in the one that the API knows, too.
FORM_MARK = "HBUS-Form"
#: In that header of an answer: it is the form again, which may be sent as it is, whatever its status.
FORM_KEPT = "kept"
#: Which namespace (or :data:`GLOBAL`, :data:`SOMEWHERE`) a request is about; a keyword of the URL stands in braces.
Resource = str


def actor(request: HttpRequest) -> Actor:
    """Who asks, as they were when the request came."""
    found: Actor = request.actor  # type: ignore[attr-defined]
    return found


def actor_now(request: HttpRequest) -> Actor:
    """The same person with the grants of this moment, for answers that go on for long; nobody, once the session is one
    that has ended. Asks the database.
    """
    found: Actor = request.actor_now()  # type: ignore[attr-defined]
    return found


def console_view(
    action: Act, *, post: Act | None = None, resource: Resource = GLOBAL, stream: bool = False
) -> Callable[[V], V]:
    """Decorate a page, sync or async: who may call it, and what a person sees who may not.

    ``action`` is required for every request and ``post`` also for POST, PUT, PATCH and DELETE, on ``resource``:
    ``GLOBAL`` (the default), ``SOMEWHERE``, or ``"{name}"``, which takes the URL keyword ``name`` as the namespace. The
    check comes before any look-up, so a refusal does not tell whether the thing exists. Nobody signed in: on to the
    login page (htmx follows too; a ``stream`` answers 401). Who must change the password: on to that page (a ``stream``
    answers 403). ``Forbidden`` from here or from a service: the 403 page,
    and the refused governed act is audited. Other errors of ours that the view lets through: 404, 409, 400, 503.

    The service called by the view still decides by itself; this is the door, not the lock.
    """

    def decorate(view: V) -> V:
        def gate(request: HttpRequest, kwargs: Mapping[str, Any]) -> HttpResponse | None:
            who = actor(request)
            if not who.is_authenticated:
                return HttpResponse(status=HTTPStatus.UNAUTHORIZED) if stream else sign_in_first(request)
            if who.must_change_password:
                if stream:
                    return HttpResponse(status=HTTPStatus.FORBIDDEN)
                return _redirect(request, resolve_url("accounts:password"))
            about = resource.format_map(kwargs)
            if post is not None and request.method in {"POST", "PUT", "PATCH", "DELETE"}:
                # First: who may not even look is refused what was asked for, and not a look, which nobody books.
                require(who, post, about)
            require(who, action, about)
            return None

        if inspect.iscoroutinefunction(view):

            @wraps(view)
            async def async_page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
                try:
                    answer = await sync_to_async(gate)(request, kwargs)
                    return answer or cast("HttpResponseBase", await view(request, *args, **kwargs))
                except HbusError as error:
                    return await sync_to_async(refuse)(request, error)
                except DataError:
                    return await sync_to_async(_refuse_unkept)(request)

            return cast("V", async_page)

        @wraps(view)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                return gate(request, kwargs) or cast("HttpResponseBase", view(request, *args, **kwargs))
            except HbusError as error:
                return refuse(request, error)
            except DataError:
                return _refuse_unkept(request)

        return cast("V", page)

    return decorate


def sign_in_first(request: HttpRequest) -> HttpResponse:
    """On to the login page, and back here afterwards when this was a plain look at a page."""
    back = ""
    if request.headers.get("HX-Request") == "true":
        back = request.headers.get("HX-Current-URL", "")
    elif request.method in {"GET", "HEAD"}:
        back = request.get_full_path()
    query = f"?{urlencode({REDIRECT_FIELD_NAME: back})}" if back else ""
    return _redirect(request, resolve_url(settings.LOGIN_URL) + query)


def refuse(request: HttpRequest, error: HbusError) -> HttpResponse:
    """The page for one of our own errors; a kind that no page is made for goes on to the 500 page."""
    if isinstance(error, Forbidden):
        refused.send(None, actor=actor(request), error=error)
        return render(request, "access/forbidden.html", {"problem": error}, status=HTTPStatus.FORBIDDEN)
    answer = answer_to(error)
    if not answer.heading:
        raise error
    return _problem(request, error, answer.heading, answer.page_status or answer.status)


def _refuse_unkept(request: HttpRequest) -> HttpResponse:
    # With the statement that failed: it may be a mistake of ours as well.
    _log.exception("database refused a value of a page's request")
    return refuse(request, not_kept())


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW."""
    error = BadInput(
        "The form was not accepted: it did not come from a page of this console that is still valid.",
        remedy="Go back, reload the page and send the form again.",
    )
    return _problem(request, error, "Please send that again", HTTPStatus.FORBIDDEN)


def field_errors(error: HbusError, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a refusal says at the fields it names, for a page: ``{field: text}``, under ``""`` where none is named.

    A refusal that stands at its field is called as that is, by its template. ``labels`` are those of fields whose
    refusals stand elsewhere.
    """
    each = faults_of(error) if isinstance(error, BadInput) else (error,)
    return {one.field: FieldError(one).labelled((labels or {}).get(one.field, "")) for one in each}


def _problem(request: HttpRequest, error: HbusError, title: str, status: HTTPStatus) -> HttpResponse:
    return render(request, "access/problem.html", {"problem": error, "problem_title": title}, status=status)


def _redirect(request: HttpRequest, url: str) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        # An htmx request would put the other page inside this one; the header makes the browser go there.
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)
