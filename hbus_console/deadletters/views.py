"""The pages of the dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from engine.bus.subjects import subscription_subject
from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.deadletters import counting, editing, reading, services
from hbus_console.deadletters.feature import DEAD_LETTER_DISCARD, DEAD_LETTER_EDIT, DEAD_LETTER_REDRIVE
from hbus_console.deadletters.group_mark import mark
from hbus_console.deadletters.groups import LetterFilters, listing
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.samples import own_words
from hbus_console.deadletters.taken import left, taken
from hbus_console.evidence import freshness
from hbus_console.messages.feature import PAYLOAD_READ, PAYLOAD_REVEAL
from hbus_console.operations.outcomes import Made, fate
from hbus_console.operations.reading import that_made
from hbus_console.operations.services import shown_of
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.handler_errors import told_whole_from
from hbus_console.topics.models import Topic
from hbus_console.ui.control_characters import escaped
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import clock
from hbus_console.ui.streaming import json_lines
from hbus_console.ui.timerange import time_range

#: Letters of an opened group, at first and once all are asked for.
_FIRST, _PAGE = 10, 50


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def letters(request: HttpRequest) -> HttpResponse:
    return _list(request, whole(request.GET.get("letter", "")))


@require_GET
@console_view(PAYLOAD_READ, resource=SOMEWHERE)
def export(request: HttpRequest) -> HttpResponseBase:
    filters = LetterFilters.read(request.GET.dict())
    return json_lines(request, reading.exported(actor(request), filters), f"dead-letters-{filters.state}.jsonl")


@require_POST
@console_view(VIEW, post=DEAD_LETTER_REDRIVE, resource=SOMEWHERE)
def redrive(request: HttpRequest, letter_id: int) -> HttpResponse:
    return _decide(request, letter_id, services.redrive, "redrive")


@require_POST
@console_view(VIEW, post=DEAD_LETTER_DISCARD, resource=SOMEWHERE)
def discard(request: HttpRequest, letter_id: int) -> HttpResponse:
    return _decide(request, letter_id, services.discard, "discard")


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=DEAD_LETTER_EDIT, resource=SOMEWHERE)
def edit(request: HttpRequest, letter_id: int) -> HttpResponse:
    """Redrive one letter with another payload."""
    who = actor(request)
    letter = services.letter_for(who, letter_id)
    draft = editing.draft(letter)
    text, reason, errors = draft.text, "", {}
    if request.method == "POST":
        text, reason = escaped(request.POST.get("payload", "")), request.POST.get("reason", "")
        try:
            decision = services.redrive_edited(who, letter_id, editing.parsed(text), reason)
        except BadInput as refused:
            errors = field_errors(refused)
        else:
            (messages.success if decision.done else messages.warning)(request, decision.sentence)
            return redirect(_back(request, letter_id))
    context = {
        "nav": "dead-letters",
        "letter": letter,
        "draft": draft,
        "text": text,
        "reason": reason,
        "errors": errors,
        "payload_errors": [said for field, said in errors.items() if field != "reason"],
        "effect": services.effect(who, letter),
        "may_edit": allows(who, DEAD_LETTER_EDIT, letter.topic),
        "may_reveal": allows(who, PAYLOAD_REVEAL, letter.topic),
        "curl_spec": CurlRequest(
            "POST", f"/api/v1/dead-letters/{letter.pk}/edit", {"payload": {}, "reason": "why"}, idempotent=True
        ),
    }
    return render(request, "deadletters/edit.html", context, status=422 if errors else 200)


def _decide(
    request: HttpRequest, letter_id: int, act: Callable[[Actor, int, str], services.Decision], name: str
) -> HttpResponse:
    reason = request.POST.get("reason", "")
    try:
        decision = act(actor(request), letter_id, reason)
    except BadInput as error:
        return _list(request, letter_id, act=name, reason=reason, errors=field_errors(error), status=400)
    tell = messages.success if decision.done else messages.warning
    tell(request, decision.sentence)
    return redirect(_back(request, letter_id))


def _back(request: HttpRequest, letter_id: int) -> str:
    """Where a decision leads: to where one came from, or to the list as it was narrowed, with what was done."""
    back = request.GET.get("next", "")
    if url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        return back
    kept = request.GET.copy()
    for done_with in ("act", "next"):
        kept.pop(done_with, None)
    kept["letter"] = str(letter_id)
    return f"{reverse('deadletters:list')}?{kept.urlencode()}"


def _list(
    request: HttpRequest,
    letter_id: int | None,
    *,
    act: str = "",
    reason: str = "",
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    who, filters, span = actor(request), LetterFilters.read(request.GET.dict()), time_range(request)
    found = listing(who, filters, span.start_ms, span.end_ms)
    panel = _panel(who, letter_id, act or request.GET.get("act", "")) if letter_id is not None else {}
    opened = found.named(mark(panel["letter"]) if panel else request.GET.get("open", ""))
    context: dict[str, Any] = {
        "nav": "dead-letters",
        "filters": filters,
        "narrowed": filters != LetterFilters(state=filters.state),
        "listing": found,
        "of": (of := freshness.dead_letters(clock.now_ms())),
        # Of those that wait more may lie in the store.
        "least": filters.state == DeadLetter.State.DEAD and not of.known,
        "waiting": counting.told(found.letters, of),
        "groups": counting.told(found.found, of),
        "opened": opened,
        "states": [(value, word.lower()) for value, word in DeadLetter.State.choices],
        "topics": _names(who, found, "topic"),
        "subscriptions": _names(who, found, "subscription"),
        "owners": _owners(who),
        "export_query": urlencode({name: value for name, value in vars(filters).items() if value}),
        "may_export": allows(who, PAYLOAD_READ, SOMEWHERE),
        "may_decide": allows(who, DEAD_LETTER_REDRIVE, SOMEWHERE),
        "reason": reason,
        "errors": errors or {},
        **panel,
    }
    if opened:
        everything = bool(request.GET.get("all") or request.GET.get("cursor"))
        rows = replace(
            filters, fingerprint=opened.fingerprint, topic=opened.topic, subscription=opened.subscription
        ).letters(who)
        page = reading.page(rows, request.GET.get("cursor", ""), _PAGE if everything else _FIRST)
        # Where their cause leaves out what differs, each says it: who chooses some has to know which.
        words = own_words(page.letters) if opened.telling.note else ["" for _ in page.letters]
        context["rows"] = list(zip(page.letters, words, strict=True))
        context |= {"page": page, "everything": everything, "beyond": opened.count - len(page.letters)}
    return render(request, "deadletters/list.html", context, status=status)


def _panel(who: Actor, letter_id: int, act: str) -> dict[str, Any]:
    letter = services.letter_for(who, letter_id)
    letter.tell_errors(told_whole_from(who, letter.topic, Topic.objects.filter(name=letter.topic).first()))
    verb = "discard" if act == "discard" else "redrive"
    return {
        "letter": letter,
        # Where its copy waits, and what stands in its way.
        "target": subscription_subject(letter.topic, letter.subscription),
        "effect": services.effect(who, letter),
        "taken": _taken(who, letter) if letter.state == DeadLetter.State.DEAD else [],
        **_redriven(who, letter),
        "act": verb,
        "may_redrive": allows(who, DEAD_LETTER_REDRIVE, letter.topic),
        "may_discard": allows(who, DEAD_LETTER_DISCARD, letter.topic),
        "may_edit": allows(who, DEAD_LETTER_EDIT, letter.topic),
        "curl_spec": CurlRequest(
            "POST", f"/api/v1/dead-letters/{letter.pk}/{verb}", {"reason": "why"}, idempotent=True
        ),
    }


def _taken(who: Actor, letter: DeadLetter) -> list[tuple[str, int | None]]:
    """What unfinished operation has the letter, in words, and its number where ``who`` may see it."""
    found = taken({"left_to": left(DeadLetter.objects.filter(pk=letter.pk))})
    return [
        (f"This letter is being {each.told(visible)}.", each.operation.pk if visible else None)
        for each, visible in shown_of(who, found)
    ]


def _redriven(who: Actor, letter: DeadLetter) -> dict[str, Any]:
    """What became of the copy, and the operation that made it."""
    if letter.copy is None or letter.decided_at is None:
        return {}
    facets = {"subscription": letter.subscription, "source": letter.source}
    made = Made(letter.copy, letter.decided_at, letter.decided_at, facets)
    return {"fate": services.fate_of(letter, fate(made)), "operation": that_made(who, letter.copy)}


def _names(who: Actor, found: Any, name: str) -> list[str]:
    """What the select offers: the names in the list, which may be narrowed, and all that ``who`` may see."""
    known = (
        Topic.objects.filter(namespace_q(who, "name")).values_list("name", flat=True)
        if name == "topic"
        else Subscription.objects.filter(namespace_q(who, "topic__name")).values_list("group", flat=True)
    )
    return sorted({*known, *(getattr(group, name) for group in found.groups)})


def _owners(who: Actor) -> list[str]:
    rows = Subscription.objects.filter(namespace_q(who, "topic__name"), team__isnull=False)
    return sorted(set(rows.values_list("team__name", flat=True)))
