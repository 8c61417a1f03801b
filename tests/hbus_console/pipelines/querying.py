"""Queries of the archive as the tests ask and run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.functions import find_function
from engine.cron.work.log_spool import LogSpool
from engine.pipeline.archive.tasks import in_this_process
from hbus_console.access.permissions import Actor
from hbus_console.jobs.models import JobRun
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.feature import QUERY_JOB
from hbus_console.pipelines.models import LakeQuery
from hbus_console.pipelines.queries import reading
from hbus_console.pipelines.queries.asking import WantedQuery, ask_query
from hbus_console.pipelines.services import archive_topic
from tests.hbus_console.pipelines.conftest import TOPIC, publish

WHY = "the auditors ask for it"
OTHER = "payment.taken"
GUESTS = "SELECT DISTINCT data->>'$.guest' AS guest FROM messages ORDER BY 1"


def archive_both(governor: Actor) -> Actor:
    """Two topics, forty messages and seven."""
    publish(7, OTHER)
    for name in (TOPIC, OTHER):
        archive_topic(governor, name, WHY)
    run_archive(wanted_topics([]), in_this_process)
    return governor


def context_of(query: LakeQuery, folder: Path) -> RunContext:
    run = JobRun.objects.get(pk=query.run)
    call = RunCall(run.pk, QUERY_JOB, 1, run.slot, 1, "w", parameters=run.parameters)
    return RunContext(call, LogSpool(folder, run.pk, 1))


def work(query: LakeQuery, folder: Path) -> LakeQuery:
    """As a worker would."""
    outcome = find_function(QUERY_JOB).run(context_of(query, folder))
    assert outcome.done, outcome.error
    query.refresh_from_db()
    return query


def rows(actor: Actor, folder: Path, sql: str, **more: Any) -> list[list[Any]]:
    query = work(ask_query(actor, WantedQuery(sql, **more)), folder)
    assert query.state == "done", query.error
    answer = reading.answer_of(actor, query)
    assert answer is not None
    return [list(row) for row in answer.rows]
