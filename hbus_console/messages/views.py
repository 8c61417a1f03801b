"""The pages of the messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput, NotThere, Unavailable
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.deadletters.feature import DEAD_LETTER_REDRIVE
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence import freshness
from hbus_console.messages import addresses, browsing, graph, in_log, search, services
from hbus_console.messages import attempt_chart as lanes
from hbus_console.messages import export as evidence
from hbus_console.messages.became import open_of
from hbus_console.messages.feature import PAYLOAD_READ, PAYLOAD_REVEAL
from hbus_console.messages.message_trace import MOST_NEIGHBOURS, Life, NotYet, conversation, same_key
from hbus_console.messages.models import LedgerMessage
from hbus_console.messages.reach import reach
from hbus_console.messages.reveal import Revealed
from hbus_console.messages.timeline import Moment, end_of, moments, who
from hbus_console.pipelines.newest_audit import stored_again
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.formats import counted, num
from hbus_console.ui.pages import clock
from hbus_console.ui.timerange import DEFAULT, PARAMETERS, named_in, time_range
from hbus_console.wiring import bus

_TABS = ("timeline", "conversation", "key", "raw")


@dataclass(frozen=True)
class MessageRow:
    """A message in a list with what became of it."""

    message: LedgerMessage
    outcome: search.Outcome
    #: Its dead letters that wait for a decision.
    waiting: int
    #: Somebody subscribes to its topic.
    wanted: bool
    #: A subscription is not done with it.
    is_open: bool
    #: Where it stands in the order of its list, where that is one that grows.
    place: str = ""


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def messages(request: HttpRequest) -> HttpResponse:
    who_asks = actor(request)
    field = request.GET.get("field", "").strip()
    in_log = bool(field) or request.GET.get("in") == "log"
    context: dict[str, Any] = {
        "nav": "messages",
        "query": search.Query(),
        "field": field,
        "in_log": in_log,
        "reach": reach(who_asks),
        "booked": freshness.facts(clock.now_ms()),
        "ledger_on": settings.HBUS_LEDGER,
        "topics": list(Topic.objects.filter(namespace_q(who_asks, "name")).values_list("name", flat=True)),
        "range_parameters": [(name, request.GET.get(name, "")) for name in PARAMETERS],
        "errors": {},
    }
    status = 200
    try:
        context["query"] = query = search.Query.read(request.GET.dict())
        if not in_log:
            context |= _from_ledger(request, who_asks, query)
        elif query.topic or field:
            context |= _from_log(request, who_asks, query, field)
    except BadInput as error:
        status, context["errors"] = 400, field_errors(error)
    except Unavailable as error:
        status, context["errors"] = 503, {"": str(error)}
    return render(request, "messages/search.html", context, status=status)


@require_GET
@never_cache
@console_view(VIEW, resource=SOMEWHERE)
def message(request: HttpRequest, message_id: str = "") -> HttpResponse:
    """While its evidence is on its way, a page that asks again by itself and then becomes the message's own."""
    message_id = message_id or request.GET.get("id", "")
    asks_again = request.headers.get("HX-Request") == "true"
    try:
        shown = _message(request, message_id)
    except NotYet:
        if asks_again:
            return HttpResponse(status=204)
        return render(request, "messages/young.html", _only_in_log(request, message_id), status=202)
    except NotThere as unknown:
        if not asks_again:
            page = _only_in_log(request, message_id)
            if page["in_log"] is None or not page["in_log"].stored:
                raise
            return render(request, "messages/young.html", {**page, "unknown": unknown}, status=404)
        shown = HttpResponse(status=404)
    # Whatever the answer has become, the browser loads it as a page of its own.
    return HttpResponse(headers={"HX-Refresh": "true"}) if asks_again else shown


def _only_in_log(request: HttpRequest, message_id: str) -> dict[str, Any]:
    """A page of a message that no evidence tells of (yet): whether it is stored its topic's log says, where one is
    named."""
    topic = request.GET.get("topic", "")
    found = in_log.look(actor(request), topic, message_id, request.GET.get("source", "")) if topic else None
    booked = freshness.facts(clock.now_ms())
    return {"nav": "messages", "message_id": message_id, "in_log": found, "booked": booked}


@require_POST
@never_cache
@console_view(VIEW, post=PAYLOAD_REVEAL, resource=SOMEWHERE)
def reveal(request: HttpRequest, message_id: str = "") -> HttpResponse:
    """Answers with the page itself and not with a redirect: what is revealed must not survive a reload."""
    message_id = message_id or request.GET.get("id", "")
    reason = request.POST.get("reason", "")
    try:
        revealed = services.reveal(
            actor(request),
            message_id,
            reason,
            tuple(request.POST.getlist("fields")),
            topic_name=request.GET.get("topic", ""),
            source=request.GET.get("source", ""),
        )
    except NotThere:
        raise
    except BadInput as error:
        return _message(request, message_id, errors=field_errors(error), reason=reason, status=400)
    return _message(request, message_id, revealed=revealed)


@require_GET
@never_cache
@console_view(VIEW, resource=SOMEWHERE)
def export(request: HttpRequest, message_id: str = "") -> HttpResponse:
    """Everything known about one message as a file; masked as on the page."""
    message_id = message_id or request.GET.get("id", "")
    found = services.life(actor(request), message_id, request.GET.get("topic", ""), request.GET.get("source", ""))
    safe = "".join(character if character.isalnum() else "-" for character in message_id)[:80]
    return JsonResponse(
        evidence.life_as_json(found),
        json_dumps_params={"indent": 2, "ensure_ascii": False},
        headers={"Content-Disposition": f'attachment; filename="message-{safe}.json"'},
    )


def _from_ledger(request: HttpRequest, who_asks: Actor, query: search.Query) -> dict[str, Any]:
    span = time_range(request) if named_in(request) or not query.is_exact else None
    if span is not None:
        query = search.within(query, span.start_ms, None if span.moving else span.end_ms)
    found = search.search(who_asks, query, request.GET.get("cursor", ""))
    rows = [replace(row, place=place) for row, place in zip(rows_of(found.messages), found.places, strict=True)]
    order = f"last {query.order}" if query.by_event else "newest"
    # How many there are in all nobody has counted: that would be to read them.
    here = " on this page" if found.next_cursor or request.GET.get("cursor") else ""
    shown = f"{counted(len(rows), 'message')}{here}, {order} first" if rows else ""
    if found.judged is not None:
        shown = " · ".join(filter(None, [shown, f"{num(found.judged)} looked at"]))
    asked = request.GET.copy()
    if span is not None and not named_in(request):
        # Without one the API finds whatever the ledger holds.
        asked["range"] = DEFAULT
    return {
        "rows": rows,
        "span": span,
        "all_times": span is None,
        "next_cursor": found.next_cursor,
        "shown": shown,
        "back_to_ms": found.back_to_ms,
        "curl_spec": CurlRequest("GET", f"/api/v1/messages?{asked.urlencode()}"),
    }


def _from_log(request: HttpRequest, who_asks: Actor, query: search.Query, field: str) -> dict[str, Any]:
    if not query.topic:
        raise BadInput("Which topic?", remedy="Choose the topic whose log shall be read.", field="topic")
    cursor = request.GET.get("cursor", "")
    spec = CurlRequest("GET", f"/api/v1/topics/{query.topic}/log?{request.GET.urlencode()}")
    span = time_range(request) if named_in(request) else None
    start_ms = span.start_ms if span else None
    end_ms = span.end_ms if span and not span.moving else None
    shown = {"span": span, "all_times": span is None, "curl_spec": spec}
    if not field:
        scan = browsing.peek(who_asks, query.topic, cursor=cursor, start_ms=start_ms, end_ms=end_ms)
        return {"scan": scan, **shown}
    condition = browsing.Condition.read(field)
    scan = browsing.scan(who_asks, query.topic, condition, cursor=cursor, start_ms=start_ms, end_ms=end_ms)
    return {"scan": scan, "condition": condition, **shown}


def rows_of(messages: list[LedgerMessage]) -> list[MessageRow]:
    """Messages with their outcomes, in a fixed number of queries."""
    outcomes = search.outcomes(messages)
    dead = [message.message_id for message in messages if outcomes[message.identity].dead]
    letters = DeadLetter.objects.filter(message_id__in=dead, state=DeadLetter.State.DEAD)
    waiting = Counter(letters.values_list("topic", "message_id", "source"))
    read = set(Subscription.objects.values_list("topic__name", flat=True).distinct().order_by())
    return [
        MessageRow(row, outcomes[row.identity], waiting[row.identity], row.topic in read, is_open)
        for row, is_open in zip(messages, open_of(messages), strict=True)
    ]


def _message(
    request: HttpRequest,
    message_id: str,
    *,
    revealed: Revealed | None = None,
    errors: dict[str, str] | None = None,
    reason: str = "",
    status: int = 200,
) -> HttpResponse:
    who_asks = actor(request)
    found = services.life(who_asks, message_id, request.GET.get("topic", ""), request.GET.get("source", ""))
    named = (found.topic_name, found.message_id, found.source)
    talk = conversation(who_asks, found.correlation_id)
    same = same_key(who_asks, found.topic_name, found.key)
    tab = request.GET.get("tab", "timeline")
    context: dict[str, Any] = {
        "nav": "messages",
        "life": found,
        "booked": freshness.facts(clock.now_ms()),
        "source_name": who(found.source),
        "tab": tab if tab in _TABS else "timeline",
        "moments": list(_told(found)),
        "lanes": lanes.draw(found),
        "graph": graph.draw(found),
        "payload": revealed.payload if revealed else found.payload,
        "revealed": revealed,
        "may_reveal": allows(who_asks, PAYLOAD_REVEAL, found.topic_name),
        "may_redrive": allows(who_asks, DEAD_LETTER_REDRIVE, found.topic_name),
        "badges": list(_badges(found)),
        "again": stored_again(who_asks, *named, found.published_ms),
        "log_read": [found.topic_name] if _log_read(who_asks, found.topic) else [],
        "conversation": talk,
        "same_key": same,
        "errors": errors or {},
        "reason": reason,
        "address": addresses.page_of(*named),
        "evidence": addresses.evidence_of(*named),
        "by_id": addresses.by_id(*named),
        "curl_spec": CurlRequest("GET", addresses.endpoint_of(*named)),
    }
    if context["tab"] in ("conversation", "key"):
        neighbours = talk if context["tab"] == "conversation" else same
        context |= {"rows": rows_of(neighbours[:MOST_NEIGHBOURS]), "more": len(neighbours) > MOST_NEIGHBOURS}
    if context["tab"] == "raw" and found.envelope is not None:
        context["raw"] = evidence.envelope_as_json(found.envelope)
    return render(request, "messages/message.html", context, status=status)


def _log_read(who_asks: Actor, topic: Topic | None) -> bool:
    """Whether they may look into its log, and it can be looked into."""
    if topic is None or not allows(who_asks, PAYLOAD_READ, topic.name):
        return False
    return bus.transport(topic.transport).capabilities.browse


def _told(found: Life) -> Iterator[tuple[Moment, str, int]]:
    """Its moments, each with its offset and the number of the moment that shows its stack trace; 0: it has none."""
    shown: dict[str, int] = {}
    for number, moment in enumerate(moments(found), start=1):
        yield moment, moment.offset(found.published_ms), shown.setdefault(moment.stack, number) if moment.stack else 0


def _badges(found: Life) -> Iterator[tuple[str, str]]:
    """(tone, words) beside the title: how it stands."""
    parts = len(found.wanted)
    waiting = {letter.subscription for letter in found.waiting_letters}
    redriven = [letter for letter in found.letters if letter.state == DeadLetter.State.REDRIVEN]
    discarded = [letter for letter in found.letters if letter.state == DeadLetter.State.DISCARDED]
    if found.letters:
        dead_in = len({letter.subscription for letter in found.letters})
        yield ("bad" if waiting else "neutral"), f"dead in {dead_in} of {max(parts, dead_in)}"
    elif found.refusal is not None:
        yield "bad", "refused when due"
    elif found.waits:
        yield "info", "delayed"
    elif found.will_not_come and not found.was_published:
        yield ("act", "cancelled") if found.cancelled_in else ("bad", "lost")
    elif parts and (ended := _ended(found)):
        yield ended
    elif found.parked_in:
        yield "warn", "parked"
    elif any(event.kind == "retried" for event in found.events):
        yield "warn", "retrying"
    elif parts:
        yield "warn", "waiting"
    elif found.topic is not None:
        yield "neutral", "nobody subscribes"
    if redriven:
        yield _redriven(found, redriven)
    if discarded:
        yield "act", "discarded"
    if found.envelope is not None and found.envelope.hbusreplay == "redrive":
        yield "act", "redriven copy"


def _redriven(found: Life, letters: Sequence[DeadLetter]) -> tuple[str, str]:
    """What became in the end of the copies: what it died of may be over long since."""
    ends = {end_of(found, letter) for letter in letters}
    if ends == {"settled"}:
        return "ok", "redriven, settled"
    if ends <= {"settled", "discarded"}:
        return "act", "redriven, then discarded"
    return ("bad", "redriven, dead again") if "dead" in ends else ("act", "redriven")


def _ended(found: Life) -> tuple[str, str] | None:
    """The worst of how it ended, where everybody is done with it."""
    done: set[str] = set()
    for tone, words, places in (
        ("ok", "settled", found.settled_in),
        ("act", "skipped", found.skipped_in),
        ("act", "cancelled", found.cancelled_in),
        ("warn", "expired", found.expired_in),
        ("warn", "nobody told", found.passed_in),
        ("bad", "lost", found.lost_in),
    ):
        done |= places
        if done >= set(found.wanted):
            return tone, words
    return None
