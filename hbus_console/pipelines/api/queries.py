"""Queries of the archive over HTTP: asked, read with their results, and cancelled."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import SystemClock, to_rfc3339
from engine.core.errors import NotThere
from engine.pipeline.query.spec import USUAL_ROWS, USUAL_SECONDS, QueryColumn
from hbus_console import checks
from hbus_console.access.permissions import Actor
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import Body
from hbus_console.api.views import ApiView
from hbus_console.pipelines.models import LakeQuery
from hbus_console.pipelines.queries.asking import WantedQuery, ask_query, cancel_query
from hbus_console.pipelines.queries.reading import answer_of, error_of, own, own_query, told_state
from hbus_console.ui.formats import epoch_ms

#: How long an answer is waited for at most, and how often it is looked for, seconds.
MOST_WAIT, _LOOKED_EVERY = 10, 0.2
_OPEN = ("waiting", "running")
_clock = SystemClock()


class QueryBody(Body):
    """One SELECT over the views `messages`, `published` and `deliveries`: of these topics, or of all that one may
    query; of these days, UTC. ``reveal`` takes named topics and a reason. ``wait``: seconds for the result, 10 at
    most."""

    sql: str
    topics: list[str] = []
    from_day: str = msgspec.field(default="", name="from")
    to_day: str = msgspec.field(default="", name="to")
    reveal: bool = False
    reason: str = ""
    rows: int = USUAL_ROWS
    seconds: int = USUAL_SECONDS
    wait: int = 0


class QueryResultOut(msgspec.Struct):
    """``cut``: there were more rows. Cells are numbers, truth values, null, and texts of all else."""

    columns: list[QueryColumn]
    rows: list[list[Any]]
    cut: bool


class QueryOut(msgspec.Struct):
    """One query. ``state`` is ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``; ``result`` is null until
    it is done. Lists leave it out, and why it failed; so does one whose rights or masks changed since."""

    id: int
    at: str
    state: str
    sql: str
    topics: list[str]
    from_day: str = msgspec.field(name="from")
    to_day: str = msgspec.field(name="to")
    reveal: bool
    rows: int | None
    took_ms: int | None
    #: What DuckDB says may quote a value, so it is shown as a result is.
    failure: str
    run: int | None
    result: QueryResultOut | None = None


def shape(query: LakeQuery, actor: Actor | None = None) -> dict[str, Any]:
    """With its result, or why it failed, where ``actor`` is to be told it."""
    answer = answer_of(actor, query) if actor is not None else None
    result = QueryResultOut(list(answer.columns), [list(row) for row in answer.rows], answer.cut) if answer else None
    return plain(
        QueryOut(
            id=query.pk,
            at=to_rfc3339(epoch_ms(query.at)),
            state=told_state(query),
            sql=query.sql,
            topics=query.topics,
            from_day=query.from_day,
            to_day=query.to_day,
            reveal=query.reveal,
            rows=query.rows,
            took_ms=query.took_ms,
            failure=error_of(actor, query) if actor is not None else "",
            run=query.run,
            result=result,
        )
    )


def _waited_for(actor: Actor, number: int, seconds: int) -> LakeQuery:
    """As it stands once it is over, or so many seconds later."""
    until, pause = _clock.monotonic() + seconds, threading.Event()
    found = own_query(actor, number)
    while told_state(found) in _OPEN and _clock.monotonic() < until:
        pause.wait(_LOOKED_EVERY)
        found = own_query(actor, number)
    return found


class Queries(ApiView):
    def shown_again(self, kept: Any) -> Any:
        # A result that was kept for a key is shown as it may be seen by now.
        if not isinstance(kept, Mapping) or not isinstance(kept.get("id"), int):
            return kept
        try:
            return shape(own_query(self.actor, kept["id"]), self.actor)
        except NotThere:
            return {**kept, "result": None}

    @extend_schema(
        operation_id="queries_list",
        summary="One's own queries of the archive, the newest first",
        tags=["queries"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(QueryOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        return self.page(own(self.actor), shape)

    @extend_schema(
        operation_id="queries_run",
        summary="Query the archive by SQL",
        description="The job `hbus.query` runs it. With `wait` it is answered 200 with the result, if it is over.",
        tags=["queries"],
        request=takes(QueryBody),
        responses={**answers(QueryOut, 202), (200, "application/json"): described(QueryOut)},
    )
    def post(self, request: Request) -> Response:
        body = read(request, QueryBody)
        wait = checks.whole(body.wait, "wait", least=0, most=MOST_WAIT)
        wanted = WantedQuery(
            body.sql, body.topics, body.from_day, body.to_day, body.reveal, body.reason, body.rows, body.seconds
        )
        made = ask_query(self.actor, wanted)
        found = _waited_for(self.actor, made.pk, wait)
        over = told_state(found) not in _OPEN
        return Response(shape(found, self.actor), status=status.HTTP_200_OK if over else status.HTTP_202_ACCEPTED)


class OneQuery(ApiView):
    @extend_schema(
        operation_id="queries_read",
        summary="One of one's own queries, with its result",
        tags=["queries"],
        parameters=[OpenApiParameter("wait", int, description="Seconds for the result, 10 at most.")],
        responses=answers(QueryOut),
    )
    def get(self, request: Request, query_id: int) -> Response:
        said = request.query_params.get("wait", "0")
        wait = checks.whole(int(said) if said.isdecimal() and len(said) < 4 else -1, "wait", least=0, most=MOST_WAIT)
        return Response(shape(_waited_for(self.actor, query_id, wait), self.actor))

    @extend_schema(
        operation_id="queries_cancel",
        summary="Cancel one of one's own queries",
        tags=["queries"],
        request=None,
        responses=answers(QueryOut, 202),
    )
    def delete(self, request: Request, query_id: int) -> Response:
        return Response(shape(cancel_query(self.actor, query_id)), status=status.HTTP_202_ACCEPTED)


urlpatterns = [
    path("queries", Queries.as_view(), name="queries"),
    path("queries/<int:query_id>", OneQuery.as_view(), name="query"),
]
