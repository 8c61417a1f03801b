"""Whether a form was obeyed whose answer was lost: by what the audit log has of it."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import FORM_MARK, actor, console_view
from hbus_console.api import form_posts, idempotency
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.outcomes import ActOutcome, outcomes
from hbus_console.registry.subjects import address

#: The correlation id of what a form did is its key behind this.
CORRELATION = "form-"


# Whoever has signed in again in another tab has another token, and asks all the same; other sites cannot set the mark.
@csrf_exempt
@never_cache
@require_http_methods(["GET", "POST"])
@console_view(VIEW, resource=SOMEWHERE, stream=True)
def posted(request: HttpRequest) -> HttpResponse:
    """``state`` of the form that this person posted to ``path`` under ``key``, and the ``location`` that it led to.

    ``done``: it left an entry in the audit log that proves it. ``answered``: it was answered, and left none.
    ``working``: it may be under way. ``unknown``: it was begun, and nobody knows whether it was done; the location is
    then that of what it was about, whose page tells. ``nothing``: it was not done, and will not be: by being told so
    its key is given up, and the form refused should it still come. ``not come``: nothing is known of it, and its key
    cannot be given up, for too many were: it may still be done, and sent again under its key it is done once. Who only
    looks (GET, as pages of a release before do) is told neither, and gives up nothing.
    """
    if request.method == "POST" and FORM_MARK not in request.headers:
        raise BadInput(f"This is asked by pages, with {FORM_MARK}.", remedy=f"Send the header {FORM_MARK}.")
    who, asked = actor(request), request.POST or request.GET
    key = asked.get("key", "")
    record = form_posts.found(who, key)
    entries = AuditEntry.objects.filter(correlation_id=f"{CORRELATION}{key}", actor=who.name)
    became = set(outcomes(entries).values())
    answered = record is not None and idempotency.is_answered(record)
    # Where entries precede their acts, one proves its act once the request was answered and told no other outcome.
    proves = record is None or answered or not form_posts.entries_precede_acts(record)
    if ActOutcome.DONE in became or (ActOutcome.WRITTEN in became and proves):
        state = "done"
    elif answered:
        state = "answered"
    elif record is not None and idempotency.is_at_work(record):
        state = "working"
    elif became & {ActOutcome.WRITTEN, ActOutcome.UNKNOWN} or (record is not None and not record.status):
        state = "unknown"
    elif request.method == "GET":
        state = "working"
    elif form_posts.give_up(who, asked.get("path", ""), key):
        state = "nothing"
    else:
        state = "working" if form_posts.found(who, key) else "not come"
    location = form_posts.place(who, record) if record is not None else ""
    if state == "unknown" and not location:
        location = _what_it_was_about(who, entries)
    return JsonResponse({"state": state, "location": location})


def _what_it_was_about(who: Actor, entries: Iterable[AuditEntry]) -> str:
    """The page of the one thing that they are about; empty where there is none that ``who`` may see."""
    subjects = {entry.subject for entry in entries}
    if len(subjects) != 1:
        return ""
    (about,) = subjects
    return address(about) if not about.namespace or allows(who, VIEW, about.namespace) else ""
