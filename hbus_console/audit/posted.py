"""Whether a form was obeyed whose answer was lost: by what the audit log has of it, which is written with the act."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.api import form_posts
from hbus_console.audit.models import REFUSED, AuditEntry

#: The correlation id of what a form did is its key behind this.
CORRELATION = "form-"


@never_cache
@require_GET
@console_view(VIEW, resource=SOMEWHERE, stream=True)
def posted(request: HttpRequest) -> HttpResponse:
    """``state`` of the form that this person posted under ``key``, and the ``location`` that it led to.

    ``done``: it left an entry in the audit log. ``answered``: it was answered, and left none. ``working``: it may be
    under way. ``nothing``: it was not done, and will not be.
    """
    who, key = actor(request), request.GET.get("key", "")
    record = form_posts.found(who, key) if key else None
    entries = AuditEntry.objects.filter(correlation_id=f"{CORRELATION}{key}", actor=who.name)
    if key and entries.exclude(action__endswith=REFUSED).exists():
        state = "done"
    elif record is None:
        state = "nothing"
    elif record.status:
        state = "answered"
    else:
        state = "working" if form_posts.is_at_work(record) else "nothing"
    location = form_posts.place(who, record) if record is not None else ""
    return JsonResponse({"state": state, "location": location})
