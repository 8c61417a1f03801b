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
from django.middleware.csrf import get_token
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
#: Of an answer to such a post: what it takes first is done at this address, and the form stays meanwhile.
FIRST = "HBUS-First"
#: Of an answer to a page's script: the token of the session that there is now, with which it may ask again.
ANEW = "HBUS-CSRF"
#: In the address of the login page: there was a session, and it has ended.
ENDED = "ended"
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
    answers 403). To a post of the pages' script either is said with the address, and it keeps the form. ``Forbidden``
    from here or from a service: the 403 page, and the refused governed act is audited. Other errors of ours that the
    view lets through: 404, 409, 400, 503.

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
                return _first(
                    request,
                    resolve_url("accounts:password"),
                    "Nothing was done: your password has to be changed first. What you typed is kept here.",
                )
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
    """On to the login page, and afterwards back to the page that was looked at, or from which this was sent."""
    by_script, looks = request.headers.get("HX-Request") == "true", request.method in {"GET", "HEAD"}
    if by_script:
        back = request.headers.get("HX-Current-URL", "")
    else:
        back = request.get_full_path() if looks else request.headers.get("Referer", "")
    query = {REDIRECT_FIELD_NAME: back} if back else {}
    # What only an open page sends was sent by somebody who had been signed in.
    if by_script or not looks or settings.SESSION_COOKIE_NAME in request.COOKIES:
        query[ENDED] = "1"
    address = resolve_url(settings.LOGIN_URL) + (f"?{urlencode(query)}" if query else "")
    words = "You were signed out, and nothing was done. What you typed is kept here: sign in, come back, send it again."
    return _first(request, address, words)


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
    """Django's CSRF_FAILURE_VIEW. A page's script is told the token that holds now: whoever signed in anew in another
    tab has another one. No other site can send the marks that it is known by.
    """
    # Where the origin is refused, another token would be as well.
    if ("token" in reason or "cookie" in reason) and (_is_form_post(request) or "HX-Request" in request.headers):
        who = actor(request)
        if not who.is_authenticated:
            return sign_in_first(request)
        words = (
            f"Nothing was done: since this page was read, somebody signed in here anew, as {who.name}. "
            "What you typed is kept here: send it again."
        )
        return _sentence(words, HTTPStatus.FORBIDDEN, {ANEW: get_token(request)})
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


def _first(request: HttpRequest, url: str, words: str) -> HttpResponse:
    """On to ``url``; of a form that the pages' script has posted its page stays, which says ``words``."""
    if _is_form_post(request):
        return _sentence(words, HTTPStatus.UNAUTHORIZED, {FIRST: url})
    return _redirect(request, url)


def _is_form_post(request: HttpRequest) -> bool:
    return request.method == "POST" and FORM_MARK in request.headers


def _sentence(words: str, status: HTTPStatus, headers: Mapping[str, str]) -> HttpResponse:
    return HttpResponse(words, status=status, content_type="text/plain; charset=utf-8", headers=dict(headers))


def _redirect(request: HttpRequest, url: str) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        # An htmx request would put the other page inside this one; the header makes the browser go there.
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)
