"""The page of queries: asked, followed while they run, shown as a table and a chart, and saved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput, Conflict, HbusError, NotThere
from engine.core.numbers import whole
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.query.spec import USUAL_ROWS, USUAL_SECONDS
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor, console_view
from hbus_console.csv_text import csv_line
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.waiting import waits_for_of
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.pipelines.feature import QUERY_JOB, QUERY_RUN, QUERY_SAVE
from hbus_console.pipelines.models import LakeQuery, SavedQuery
from hbus_console.pipelines.queries.asking import WantedQuery, ask_query, cancel_query
from hbus_console.pipelines.queries.chart import chart_of, is_number
from hbus_console.pipelines.queries.reading import answer_of, error_of, names_of, own, own_query, told_state
from hbus_console.pipelines.queries.saving import (
    WantedSaved,
    delete_saved,
    mark_of,
    save_query,
    saved_queries,
    saved_query,
)
from hbus_console.pipelines.queries.views_of import COLUMNS
from hbus_console.pipelines.the_lake import lake
from hbus_console.ui import forms
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act, clock

#: Rows that the page shows, those of the history, and saved ones; the CSV has all rows.
MOST_SHOWN, MOST_HISTORY, MOST_SAVED = 200, 30, 200
_EXAMPLE = "SELECT topic, count(*) AS messages\nFROM messages\nGROUP BY topic\nORDER BY messages DESC"
_TONES = {"done": "ok", "failed": "bad", "cancelled": "warn", "waiting": "info", "running": "info"}


@require_GET
@console_view(QUERY_RUN, resource=SOMEWHERE)
def query(request: HttpRequest) -> HttpResponse:
    number = whole(request.GET.get("id", ""))
    who = actor(request)
    asked = own_query(who, number) if number is not None else None
    opened = saved_query(who, name) if asked is None and (name := request.GET.get("saved", "")) else None
    return _page(request, asked, _given(asked, opened), opened=opened)


@require_POST
@console_view(QUERY_RUN, resource=SOMEWHERE)
def run(request: HttpRequest) -> HttpResponse:
    form = request.POST
    given = {name: form.get(name, "") for name in ("sql", "topics", "from_day", "to_day", "reason")}
    given["reveal"] = "on" if form.get("reveal") else ""
    wanted = WantedQuery(
        given["sql"],
        given["topics"].replace(",", " ").split(),
        given["from_day"],
        given["to_day"],
        bool(given["reveal"]),
        given["reason"],
        forms.whole(form, "rows") if form.get("rows") else USUAL_ROWS,
        forms.whole(form, "seconds") if form.get("seconds") else USUAL_SECONDS,
    )
    try:
        made = ask_query(actor(request), wanted)
    except (BadInput, Conflict, NotThere, LakeDamaged) as refused:
        return _page(request, None, given, refused)
    return redirect(f"{resolve_url('pipelines:query')}?id={made.pk}")


@require_POST
@console_view(QUERY_RUN, resource=SOMEWHERE)
def cancel(request: HttpRequest, query_id: int) -> HttpResponse:
    cancel_query(actor(request), query_id)
    return redirect(f"{resolve_url('pipelines:query')}?id={query_id}")


@require_GET
@console_view(QUERY_RUN, resource=SOMEWHERE)
def result_csv(request: HttpRequest, query_id: int) -> HttpResponseBase:
    who = actor(request)
    answer = answer_of(who, own_query(who, query_id))
    if answer is None:
        raise Conflict(f"Query {query_id} has no result that you may see.", remedy="Run it again.")
    lines = [[column.name for column in answer.columns], *answer.rows]
    told = StreamingHttpResponse(map(csv_line, lines), content_type="text/csv; charset=utf-8")
    told["Content-Disposition"] = f'attachment; filename="query-{query_id}.csv"'
    return told


@require_POST
@console_view(QUERY_RUN, post=QUERY_SAVE, resource=SOMEWHERE)
def save(request: HttpRequest) -> HttpResponse:
    form = request.POST
    name = form.get("name", "").strip()
    wanted = WantedSaved(
        form.get("sql", ""),
        form.get("description", ""),
        form.get("owner", "").strip(),
        form.get("reason", ""),
        # Under another name it is another query.
        replace=bool(name) and name == form.get("replaces", ""),
        was=form.get("was", ""),
    )
    return act(request, f"Saved as {name}.", lambda: save_query(actor(request), name, wanted), "pipelines:query")


@require_POST
@console_view(QUERY_RUN, post=QUERY_SAVE, resource=SOMEWHERE)
def forget(request: HttpRequest) -> HttpResponse:
    name, reason = request.POST.get("name", ""), request.POST.get("reason", "")
    return act(request, f"{name} is deleted.", lambda: delete_saved(actor(request), name, reason), "pipelines:query")


def _given(asked: LakeQuery | None, opened: SavedQuery | None) -> Mapping[str, str]:
    """What the editor is filled with."""
    if asked is not None:
        named = " ".join(asked.topics) if len(asked.topics) <= MOST_HISTORY else ""
        return {"sql": asked.sql, "topics": named, "from_day": asked.from_day, "to_day": asked.to_day}
    return {"sql": opened.sql if opened else _EXAMPLE}


def _run_seen(who: Actor, asked: LakeQuery) -> JobRun | None:
    """Its run, for whoever sees runs of that job."""
    if asked.run is None or not allows(who, VIEW, QUERY_JOB):
        return None
    return JobRun.objects.filter(pk=asked.run).first()


def _page(
    request: HttpRequest,
    asked: LakeQuery | None,
    given: Mapping[str, str],
    refused: HbusError | None = None,
    *,
    opened: SavedQuery | None = None,
) -> HttpResponse:
    who = actor(request)
    try:
        there, damage = sorted(name for name in lake().state().topics if allows(who, QUERY_RUN, name)), None
    except LakeDamaged as error:
        there, damage = [], error
    state = told_state(asked) if asked else ""
    answer = answer_of(who, asked) if asked else None
    is_open = state in ("waiting", "running")
    run_seen = _run_seen(who, asked) if asked and is_open else None
    numeric = [is_number(column) for column in answer.columns] if answer else []
    context = {
        "nav": "archive",
        "asked": asked,
        "state": state,
        "tone": _TONES.get(state, ""),
        "is_open": is_open,
        "run_seen": run_seen,
        "waits_for": waits_for_of(who, run_seen, clock.now_ms() * 1_000) if run_seen else None,
        "answer": answer,
        "failure": error_of(who, asked) if asked else "",
        "heads": list(zip(answer.columns, numeric, strict=True)) if answer else [],
        "shown": [list(zip(row, numeric, strict=True)) for row in answer.rows[:MOST_SHOWN]] if answer else [],
        "chart": chart_of(answer) if answer else None,
        "withheld": state == "done" and answer is None,
        "given": given,
        # To be saved over, where whoever looks may: as it was when it was opened.
        "over": opened if opened and allows(who, QUERY_SAVE, opened.name) else None,
        "over_sent": {"replaces": opened.name, "was": mark_of(opened)} if opened else {},
        "refused": refused,
        "damage": damage,
        "there": there,
        "history": [
            {"it": each, "state": told_state(each), "of": names_of(each.topics)} for each in own(who)[:MOST_HISTORY]
        ],
        "saved": [{"it": each, "may": allows(who, QUERY_SAVE, each.name)} for each in saved_queries(who)[:MOST_SAVED]],
        "columns": COLUMNS,
        "may_save": allows(who, QUERY_SAVE, SOMEWHERE),
        "may_reveal": allows(who, PAYLOAD_REVEAL, SOMEWHERE),
        "today": f"{datetime.now(UTC):%Y-%m-%d}",
        "rows": USUAL_ROWS,
        "seconds": USUAL_SECONDS,
        "run_curl": CurlRequest("POST", "/api/v1/queries", {"sql": given["sql"], "wait": 10}),
        "save_curl": CurlRequest("PUT", "/api/v1/queries/saved/NAME", {"sql": given["sql"]}),
    }
    return render(request, "pipelines/query.html", context, status=422 if isinstance(refused, BadInput) else 200)
