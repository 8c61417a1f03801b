"""Where jobs elsewhere ping, without a session; and the page that shows the address, with its renewal."""

from __future__ import annotations

import math
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from engine.core.errors import BadInput, HbusError, NotThere, Unavailable
from engine.core.numbers import whole
from hbus_console.access.acts import VIEW
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.pings.code import address as address_with
from hbus_console.jobs.pings.code import ready_lines
from hbus_console.jobs.pings.ping import MOST_BODY, Ping, TooManyPings, read_rid, read_word
from hbus_console.jobs.services import jobs, pings
from hbus_console.jobs.views.job import frame
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act

#: After how many seconds to ping again where we could not take it.
AWAY_S = 5


@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def ping(request: HttpRequest, code: str, what: str = "") -> HttpResponse:
    """``OK`` once it is booked, by whatever method: the code in the address is all that it takes."""
    try:
        pings.receive(code, _read(request, what))
    except TooManyPings as refused:
        return _said(HTTPStatus.TOO_MANY_REQUESTS, refused, math.ceil(refused.wait_s))
    except NotThere as refused:
        return _said(HTTPStatus.NOT_FOUND, refused)
    except BadInput as refused:
        return _said(HTTPStatus.BAD_REQUEST, refused)
    except Unavailable as refused:
        return _said(HTTPStatus.SERVICE_UNAVAILABLE, refused, AWAY_S)
    return HttpResponse("OK", content_type="text/plain; charset=utf-8")


@never_cache
@require_GET
@console_view(JOB_EDIT, resource="{job}")
def address(request: HttpRequest, job: str) -> HttpResponse:
    """The page that shows the address. The page of the job does not: it is looked at by many, and often."""
    who, row = actor(request), jobs.job(job)
    found = pings.address_of(who, job)
    url = address_with(request.build_absolute_uri("/"), found.code)
    context: dict[str, Any] = {
        **frame(who, row),
        "ping": found,
        "url": url,
        "lines": ready_lines(url, row.schedule),
        "most_body": MOST_BODY,
        "rate": pings.RATE,
        "read_curl": CurlRequest("GET", f"/api/v1/jobs/{job}/ping"),
        "renew_curl": CurlRequest("POST", f"/api/v1/jobs/{job}/ping/renew", {"reason": "why"}),
    }
    return render(request, "jobs/ping.html", context)


@require_POST
@console_view(VIEW, post=JOB_EDIT, resource="{job}")
def renew(request: HttpRequest, job: str) -> HttpResponse:
    def do() -> object:
        return pings.renew_address(actor(request), job, request.POST.get("reason", ""))

    return act(request, f"{job} has a new ping address; the one before leads nowhere.", do, "jobs:ping", job)


def _read(request: HttpRequest, what: str) -> Ping:
    """Raises :class:`NotThere` and :class:`BadInput`."""
    word, exit_code = read_word(what)
    if unknown := sorted(set(request.GET) - {"rid"}):
        raise BadInput(f"A ping knows no {unknown[0]!r}.", remedy="It may say rid=UUID.", field=unknown[0])
    rid = read_rid(request.GET.getlist("rid"))
    return Ping(
        word,
        exit_code,
        rid,
        # Not its body as a whole: what is too much is no reason to refuse it.
        body=request.read(MOST_BODY + 1),
        announced=whole(request.META.get("CONTENT_LENGTH") or "0") or 0,
        sender=_sender(request),
    )


def _sender(request: HttpRequest) -> str:
    """Through a proxy it is what that said, and it goes into a log."""
    try:
        return str(ip_address(str(request.META.get("REMOTE_ADDR", ""))))
    except ValueError:
        return ""


def _said(status: HTTPStatus, refused: HbusError, retry_after_s: int = 0) -> HttpResponse:
    answer = HttpResponse(f"{refused}\n", status=status, content_type="text/plain; charset=utf-8")
    if retry_after_s:
        answer["Retry-After"] = str(retry_after_s)
    return answer
