"""The versions of all policies and plans together: what each changed, and going back to one."""

from __future__ import annotations

from itertools import islice
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor, console_view
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.telling import tell
from hbus_console.quotas.feature import QUOTA_EDIT, QUOTA_PLAN
from hbus_console.quotas.models import QuotaBook
from hbus_console.quotas.services.differences import Difference, difference, digest
from hbus_console.quotas.services.kept_books import NEWEST, book_at, books_reach
from hbus_console.quotas.services.rolling_back import roll_back
from hbus_console.quotas.sight import difference_seen, entries_seen, sees_everything
from hbus_console.quotas.views.policy import difference as settings_difference
from hbus_console.ui import forms
from hbus_console.ui.pages import refuse_act, tell_done

#: Versions of one page, and policies, and plans, of a difference that are told.
LISTED, MOST_TOLD = 50, 50


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def books(request: HttpRequest) -> HttpResponse:
    who, before = actor(request), whole(request.GET.get("cursor", ""))
    newest = QuotaBook.objects.first()
    found = QuotaBook.objects.all() if before is None else QuotaBook.objects.filter(number__lt=before)
    rows = list(found[: LISTED + 1])
    entries = entries_seen(who, [row.audit_seq for row in rows])
    context = {
        "nav": "quotas",
        "newest": newest,
        "reach": books_reach(),
        "kept": (settings.HBUS_QUOTA_VERSION_DAYS, NEWEST),
        "rows": [
            {"book": row, "told": tell(entries[row.audit_seq]) if row.audit_seq in entries else None}
            for row in rows[:LISTED]
        ],
        "next_cursor": rows[LISTED - 1].number if len(rows) > LISTED else "",
        "may_audit": allows(who, AUDIT_READ),
    }
    return render(request, "quotas/books.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def book(request: HttpRequest, book: int) -> HttpResponse:
    """What that version changed, and what going back to it would change."""
    who, row = actor(request), book_at(book, "book")
    newest = QuotaBook.objects.first()
    is_newest = newest is not None and newest.number == book
    previous = QuotaBook.objects.filter(number__lt=book).first()
    entry = entries_seen(who, [row.audit_seq]).get(row.audit_seq)
    # Before the first there was nothing; before the oldest that is kept nobody knows.
    whole = None if previous is None and book > 1 else difference(previous.number if previous else 0, book)
    context = {
        "nav": "quotas",
        "book": row,
        "newest": newest,
        "is_newest": is_newest,
        "told": tell(entry) if entry else None,
        "changed": None if whole is None else _told(difference_seen(who, whole)),
        **_nothing(who),
        "proof": "" if whole is None else _proof(who, entry, whole),
        "since": None if is_newest else _told(difference_seen(who, difference(None, book))),
        "may_roll_back": allows(who, QUOTA_EDIT) and allows(who, QUOTA_PLAN),
        "may_audit": allows(who, AUDIT_READ),
    }
    return render(request, "quotas/book.html", context)


@require_POST
@console_view(VIEW, post=QUOTA_EDIT)
def roll_back_to(request: HttpRequest, book: int) -> HttpResponse:
    try:
        made = roll_back(actor(request), book, request.POST.get("reason", ""), revision=forms.revision(request.POST))
    except BadInput as refused:
        return refuse_act(request, refused, "quotas:book", book)
    tell_done(request, f"All policies and plans are what they were in version {book}; that is version {made}.")
    return redirect("quotas:book", made)


def _nothing(who: Actor) -> dict[str, str]:
    """What is said where nothing differs; whoever does not see everything is not told that nothing does."""
    if sees_everything(who):
        return {
            "nothing_changed": "No setting: an override began or ended, or it was numbered anew.",
            "nothing_since": "Nothing: all is as it was then.",
        }
    return dict.fromkeys(("nothing_changed", "nothing_since"), "Nothing that you may see.")


def _proof(who: Actor, entry: AuditEntry | None, whole: Difference) -> str:
    """Whether a version is what its audit entry has the digest of: ``holds``, ``broken``, or nothing where that
    has none, or the reader does not see all of the version.
    """
    said = (entry.after or {}).get("sha256") if entry else None
    if not said or not sees_everything(who):
        return ""
    return "holds" if said == digest(whole) else "broken"


def _told(found: Difference) -> dict[str, Any]:
    return {
        "number": len(found.policies) + len(found.plans),
        "more": max(0, len(found.policies) - MOST_TOLD) + max(0, len(found.plans) - MOST_TOLD),
        "policies": [
            {
                "name": name,
                "made": was is None,
                "deleted": now is None,
                "differs": settings_difference(was, now) if was is not None and now is not None else [],
            }
            for name, (was, now) in islice(found.policies.items(), MOST_TOLD)
        ],
        "plans": [
            {"tenant": tenant, "had": had or "no plan", "has": has or "no plan"}
            for tenant, (had, has) in islice(found.plans.items(), MOST_TOLD)
        ],
        "any": bool(found),
    }
