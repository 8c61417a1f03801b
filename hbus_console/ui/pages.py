"""What pages with forms and sheets share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_POST

from engine.core.clock import SystemClock
from engine.core.errors import BadInput, HbusError, Outdated
from hbus_console.access import context
from hbus_console.access.acts import VIEW, Act
from hbus_console.access.error_answers import answer_to
from hbus_console.access.web import FORM_KEPT, FORM_MARK, actor, console_view, field_errors
from hbus_console.ui.forms import revision

clock = SystemClock()


def act(request: HttpRequest, said: str, do: Callable[[], object], *target: Any) -> HttpResponse:
    """Do what a sheet on a page asked for and go back to the page, with the outcome or the refusal on top."""
    try:
        do()
    except BadInput as refused:
        return refuse_act(request, refused, *target)
    tell_done(request, said)
    return back_to(request, *target)


def refuse_act(request: HttpRequest, refused: BadInput, *target: Any) -> HttpResponse:
    """Say that a sheet's act was refused: in the sheet, which keeps what was typed, where the page's script asks.

    Without it on top of the page, which begins anew.
    """
    if FORM_MARK in request.headers:
        answer = answer_to(refused)
        return HttpResponse(str(refused), status=answer.status, content_type="text/plain; charset=utf-8")
    messages.error(request, str(refused))
    return back_to(request, *target)


def back_to(request: HttpRequest, *target: Any) -> HttpResponse:
    """To the page that a form was sent from, as it was narrowed there; to ``target`` plainly from any other."""
    address = resolve_url(*target)
    # Without its scheme, which a proxy may have changed.
    page, _, query = request.headers.get("Referer", "").partition("://")[2].partition("?")
    return redirect(f"{address}?{query}" if query and page == f"{request.get_host()}{address}" else address)


def tell_done(request: HttpRequest, said: str) -> None:
    """Say on the next page that it is done; or, where it stood so already, that nothing was."""
    if undone := context.current().undone:
        messages.warning(request, " ".join(undone))
    elif context.current().owed:
        messages.warning(request, context.as_it_is(said))
    else:
        messages.success(request, said)


def reason_act(do: Callable[..., object], *, said: str, needs: Act, of: str, back: str) -> Callable[..., HttpResponse]:
    """The view behind a sheet that asks for nothing but a reason: it calls ``do(actor, …, reason)`` and goes back.

    Between actor and reason stands what the address names, in its order; ``of`` says which of it is the namespace.
    ``said`` is told when it is done, with these names put in; ``back`` is the page that the same names lead to.
    """

    @require_POST
    @console_view(VIEW, post=needs, resource=f"{{{of}}}")
    def view(request: HttpRequest, **named: Any) -> HttpResponse:
        where, reason = named.values(), request.POST.get("reason", "")
        return act(request, said.format(**named), lambda: do(actor(request), *where, reason), back, *where)

    return view


def form_page(
    request: HttpRequest,
    template: str,
    page: dict[str, Any],
    refused: HbusError | None = None,
    labels: Mapping[str, str] | None = None,
) -> HttpResponse:
    """A page with a form: 422 with the refusal at its field when there is one, and the API's status of other troubles.

    ``labels`` are those of fields whose refusals the page shows elsewhere. The form stays also where nobody knows
    whether it was done (504): a page that says less would lose what was typed.
    """
    errors = field_errors(refused, labels) if refused else {}
    status = HTTPStatus.OK
    if refused is not None:
        status = HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(refused, BadInput) else answer_to(refused).status
    # What it was made from stays what it was: what is refused as outdated is refused again until it is opened anew.
    sent = revision(request.POST) if request.method == "POST" else None
    # Where it is shown as it is now, for whoever goes on from there.
    outdated = request.get_full_path() if isinstance(refused, Outdated) else ""
    shown = {**page, "errors": errors, "sent_revision": sent, "outdated": outdated}
    response = render(request, template, shown, status=status)
    if refused is not None:
        response[FORM_MARK] = FORM_KEPT
    return response
