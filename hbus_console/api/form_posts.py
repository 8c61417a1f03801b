"""Forms of pages, posted by a script under a key of their own, so that a lost answer leaves no doubt.

The script (``ui/assets/forms.js``) keeps the form until it has the answer. The same key again does nothing twice, and
:func:`found` tells what is known of it. Without the script a form is posted as ever, and none of this is met.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, resolve

from engine.core.errors import BadInput, Conflict
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.access.web import FORM_KEPT, FORM_MARK, actor
from hbus_console.api import idempotency
from hbus_console.api.models import IdempotencyRecord

#: Where the page goes on: what would be followed unseen otherwise.
LOCATION = "HBUS-Location"
#: Set on views whose acts are written down before they are carried out: what a repeat of them meets.
_REPEAT = "hbus_repeat"

_BY_THE_LOG = idempotency.Repeat.TOLD_BY_THE_AUDIT_LOG
_View = Callable[..., HttpResponse]


def carried_out_elsewhere(repeat: idempotency.Repeat) -> Callable[[_View], _View]:
    """Mark a view whose act the store carries out after its audit entry: that entry alone proves nothing.

    ``repeat`` is what a form meets that is sent again after its answer was lost.
    """

    def mark(view: _View) -> _View:
        setattr(view, _REPEAT, repeat)
        return view

    return mark


class FormPostMiddleware:
    """Answers a marked post once for each key, and tells a redirect in a header."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST" or FORM_MARK not in request.headers:
            return self._get_response(request)
        who = actor(request)
        if not who.is_authenticated or who.must_change_password:
            # On to another page first: nothing will be done that could be asked for.
            return _told(self._get_response(request))
        try:
            record = idempotency.claim(request, who, lambda first_tried: _repeat(request.path) or _BY_THE_LOG)
        except (BadInput, Conflict, Forbidden) as error:
            return JsonResponse({"detail": str(error)}, status=HTTPStatus.CONFLICT)
        if record is not None and record.status:
            again = HttpResponse(status=HTTPStatus.NO_CONTENT)
            again[LOCATION] = bytes(record.response).decode()
            return again
        response = _told(self._get_response(request))
        if record is not None:
            _keep(record, response)
        return response


def found(who: Actor, key: str) -> IdempotencyRecord | None:
    """What is known of the form that ``who`` posted under ``key``."""
    return IdempotencyRecord.objects.filter(actor=who.name, key=key).first()


def place(who: Actor, record: IdempotencyRecord) -> str:
    """Where it led; empty when nobody was led on (yet), and for who may do less than when they posted it."""
    led = idempotency.is_answered(record) and idempotency.is_for(record, who)
    return bytes(record.response).decode() if led else ""


def give_up(who: Actor, path: str, key: str) -> bool:
    """Whether the form that ``who`` posts to ``path`` under ``key`` is not carried out any more, however late it comes.

    ``path`` as it stands in an address, so with its escapes. Raises ``BadInput`` for one that no form has.
    """
    return idempotency.give_up(who, unquote(path), key)


def entries_precede_acts(record: IdempotencyRecord) -> bool:
    """Whether what the form asked for is written down before it is carried out."""
    return _repeat(record.route.partition(" ")[2]) is not None


def _repeat(path: str) -> idempotency.Repeat | None:
    try:
        view = resolve(path).func
    except Resolver404:
        return None
    found: idempotency.Repeat | None = getattr(view, _REPEAT, None)
    return found


def _told(response: HttpResponse) -> HttpResponse:
    if response.has_header("Location"):
        response[LOCATION] = response["Location"]
        del response["Location"]
        response.status_code = HTTPStatus.NO_CONTENT
    return response


def _keep(record: IdempotencyRecord, response: HttpResponse) -> None:
    refused = HTTPStatus.BAD_REQUEST <= response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    if refused or response.get(FORM_MARK) == FORM_KEPT:
        # Nothing was done, or its view knows its own repeat: the same form may be sent again as it is.
        idempotency.free(record)
        return
    # A page that answers may show a secret: of it is kept only that it was given.
    idempotency.answer(record, response.status_code, response.get(LOCATION, "").encode(), "text/plain")
