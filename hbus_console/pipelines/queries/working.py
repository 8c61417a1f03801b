"""One run of the job that runs queries."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from engine.core.clock import Clock, SystemClock
from engine.core.errors import HbusError
from engine.cron.work.call import Hopeless, RunContext, Stopped
from engine.pipeline.query.running import run_query
from engine.pipeline.query.spec import QueryAnswer, QuerySpec
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.services import record_all
from hbus_console.operations.starters import acting
from hbus_console.pipelines.models import LakeQuery
from hbus_console.pipelines.queries.asking import mark_of, told_of
from hbus_console.pipelines.queries.planning import digest_of, files_of, shown_topics
from hbus_console.pipelines.queries.reading import packed
from hbus_console.pipelines.the_lake import lake

#: The process that answers.
CHILD = "hbus_console.pipelines.queries.child"
_State = LakeQuery.State


def answer_query(context: RunContext, number: int, clock: Clock | None = None) -> str:
    """Run it with what its asker may do now, and keep what came of it; a sentence says it. Nothing of what it asks or
    answers is in the log of the run, which others read."""
    time = clock or SystemClock()
    query = LakeQuery.objects.filter(pk=number, run=int(context.call.run)).first()
    if query is None or not query.is_open:
        raise Hopeless("there is no query that waits for this run: it is asked for on its page, or over HTTP")
    LakeQuery.objects.filter(pk=query.pk).update(state=_State.RUNNING)
    began = time.monotonic()
    try:
        shown, answer = _answer(context, query)
    except Stopped:
        _keep(query, _State.CANCELLED, round((time.monotonic() - began) * 1000))
        raise
    took_ms = round((time.monotonic() - began) * 1000)
    if answer.error:
        _keep(query, _State.FAILED, took_ms, shown=shown, error=answer.error)
        return f"Query {query.pk} failed; its asker reads why."
    _keep(query, _State.DONE, took_ms, rows=len(answer.rows), shown=shown, answer=packed(answer))
    # How many rows there are tells of topics that whoever reads of the run may not see.
    return f"Query {query.pk} is answered; its asker reads it."


def _answer(context: RunContext, query: LakeQuery) -> tuple[str, QueryAnswer]:
    try:
        actor = acting(query, timezone.now())
        state = lake().state()
        topics = shown_topics(actor, state, query.topics, reveal=query.reveal)
    except HbusError as refused:
        return "", QueryAnswer(error=f"{refused.what} {refused.remedy}".strip())
    if query.reveal and digest_of(topics) != query.planned:
        # The audit log has what was to be revealed then.
        return "", QueryAnswer(error="What its topics mask, or your rights, changed since it was asked. Ask again.")
    files = files_of(lake(), state, topics, query.from_day, query.to_day)
    spec = QuerySpec(query.sql, files, query.most_rows, query.most_seconds)
    return digest_of(topics), run_query(spec, CHILD, context.raise_if_stopped)


def _keep(query: LakeQuery, state: _State, took_ms: int, **values: object) -> None:
    with transaction.atomic():
        LakeQuery.objects.filter(pk=query.pk).update(state=state, took_ms=took_ms, **values)
        after = {
            "query": query.pk,
            "asked_by": query.actor,
            "state": state.value,
            "rows": values.get("rows"),
            "took_ms": took_ms,
            "sql_mark": mark_of(query),
        }
        record_all(SYSTEM, "archive.answer", told_of(query, after))
