"""A live page follows what it reads: of each table behind it, it shows a name that is told when that table changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connections
from django.http.response import HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.cron.slots.store import SlotStore
from hbus_console.accounts.models import User
from hbus_console.cluster import services
from hbus_console.jobs.models import JobRun
from tests.hbus_console.access_table import TABLE
from tests.hbus_console.access_world import World, inside, person
from tests.hbus_console.test_access_matrix import KNOWN

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.above_database]

#: By table the names that tell of its changes, any of them; ``job:`` is a thing of one's own, ``job`` any of them.
#: The live cells of the features make them; test_marks.py and the tests of each feature hold that they do.
TELLS: dict[str, set[str]] = {
    "alerts_alert": {"alerts"},
    "alerts_channel": {"alerts"},
    "alerts_evaluation": {"alerts"},
    "alerts_notification": {"alerts"},
    "alerts_notification_alerts": {"alerts"},
    "alerts_rule": {"alerts"},
    "alerts_rule_channels": {"alerts"},
    "alerts_silence": {"alerts"},
    # An entry marks what it is about.
    "audit_auditentry": {"audit", "job:", "quotas", "operation:", "subscription:", "topic:"},
    "deadletters_deadletter": {"letters", "subscription:"},
    "jobs_job": {"job", "job:"},
    "jobs_jobafter": {"followers"},
    "jobs_jobattempt": {"job:"},
    "jobs_jobcalendar": {"calendars"},
    "jobs_jobrun": {"job", "job:"},
    "jobs_jobtag": {"job", "job:"},
    "jobs_jobversion": {"job", "job:"},
    "jobs_logpiece": {"log:"},
    "jobs_pingaddress": {"job:"},
    "jobs_runprogress": {"progress:"},
    "jobs_taglimit": {"tags"},
    # Of when rates and dead letters are.
    "ledger_cursor": {
        "letters",
        "messages",
        "operations",
        "operation:",
        "subscription",
        "subscription:",
        "topic",
        "topic:",
    },
    "ledger_evidence": {"evidence"},
    "ledger_flowsample": {"subscription", "subscription:", "topic", "topic:"},
    "ledger_lagsample": {"subscription", "subscription:", "topic", "topic:"},
    "ledger_ledgerevent": {"messages", "subscription:", "topic:"},
    "ledger_ledgermessage": {"messages", "topic:"},
    "ledger_notice": {"notices"},
    "operations_operation": {"operations", "operation:"},
    # Items come with what they publish, and what becomes of that is told by the operation.
    "operations_operationitem": {"messages", "operations", "operation:"},
    "operations_operationplace": {"operations", "operation:"},
    "outbox_outboxmessage": {"outbox"},
    # Acts change what topics and subscriptions are set to; consumers and keepers change how they stand.
    "topics_schemaversion": {"audit", "topic", "topic:"},
    "topics_subscription": {"audit", "subscription", "subscription:"},
    "topics_team": {"teams"},
    "topics_topic": {"audit", "topic", "topic:"},
    "ledger_job_series": {"job-series"},
    "ledger_job_series_reach": {"job-series"},
    "ledger_series": {"series"},
    "ledger_series_days": {"series"},
    "pipelines_archivedtopic": {"audit", "topic", "topic:"},
    # Rows of these come with an audit, and never change.
    "pipelines_auditedsubject": {"audits"},
    "pipelines_auditedtopic": {"audits"},
    "pipelines_busaudit": {"audits"},
    "pipelines_lakequery": {"queries"},
    "pipelines_savedquery": {"queries"},
    # Written with the first commit, which marks the archive.
    "pipelines_lakebegun": {"archive"},
    # Each act on one of them makes a book.
    "quotas_bookinforce": {"quotas"},
    "quotas_policyversion": {"quotas"},
    "quotas_quotabook": {"quotas"},
    "quotas_quotapolicy": {"quotas"},
    "quotas_tenantplan": {"quotas"},
    "quotas_quotanodereport": {"quota-uses"},
    "ledger_quota_use": {"quota-uses"},
    # Booked, and trimmed, with the minutes.
    "ledger_quota_use_rollup": {"quota-uses"},
    "ledger_quota_use_day": {"quota-uses"},
    "ledger_quota_use_trimmed": {"quota-uses"},
    # In the store.
    "leases of runs": {"job", "job:"},
    "nodes": {"nodes", "roles", "subscription:"},
}
_JOINED = "it is read with the job, and not shown"
_OF_THE_TIME = "the panel says itself of when it is"
#: What a page reads and need not follow, and why.
EXCEPT = {
    ("", "jobs_job"): "whether the roles of jobs are needed, which `roles` tells",
    ("cluster/", "jobs_job"): "whether the roles of jobs are needed, which `roles` tells",
    ("cluster/", "topics_topic"): "whether the consumer is needed, which `roles` tells",
    ("jobs/<str:job>/runs/<int:run_id>/", "topics_team"): _JOINED,
    ("jobs/<str:job>/history/", "topics_team"): _JOINED,
    ("jobs/<str:job>/versions/", "topics_team"): _JOINED,
    ("messages/<path:message_id>", "topics_team"): "it is read with the topic, and not shown",
    ("topics/<str:name>/audit/", "ledger_deliveryaside"): _OF_THE_TIME,
    ("topics/<str:name>/audit/", "ledger_deliverycheck"): _OF_THE_TIME,
    ("topics/<str:name>/audit/", "ledger_ledgercheck"): _OF_THE_TIME,
}
#: What is read in the store, and by what.
IN_THE_STORE = (
    ("leases of runs", SlotStore, "leases"),
    ("nodes", services, "read_nodes"),
)
_SHOWS = re.compile(r'data-shows="([^"]*)"')
_READ = re.compile(r'\b(?:FROM|JOIN) "(\w+)"')


@pytest.fixture
def world() -> World:
    return inside()


@pytest.fixture
def reader() -> User:
    return person("ada", "admin")


@pytest.fixture
def client(reader: User) -> Client:
    client = Client()
    client.force_login(reader)
    return client


def _counted(function: Callable[..., Any], name: str, found: Counter[str]) -> Callable[..., Any]:
    def counted(*args: Any, **more: Any) -> Any:
        found[name] += 1
        return function(*args, **more)

    return counted


def read(client: Client, path: str) -> tuple[HttpResponseBase, Counter[str]]:
    """The answer, and how many questions were put to each table, and of each kind to the store, for it."""
    found: Counter[str] = Counter()
    with ExitStack() as stack:
        for name, owner, function in IN_THE_STORE:
            stack.enter_context(patch.object(owner, function, _counted(getattr(owner, function), name, found)))
        main = stack.enter_context(CaptureQueriesContext(connections["default"]))
        ledger = stack.enter_context(CaptureQueriesContext(connections["ledger"]))
        answer = client.get(path)
    for query in (*main.captured_queries, *ledger.captured_queries):
        found.update(set(_READ.findall(query["sql"])))
    return answer, found


def live_pages(client: Client, reader: User, world: World) -> Iterator[tuple[str, set[str], set[str]]]:
    """Each page that lives, the names that it shows, and the tables that it reads beside the frame around it."""
    read(client, "/password/")
    _, frame = read(client, "/password/")
    for route in KNOWN:
        line = TABLE[route]
        if route.startswith("api/") or "GET" not in line.roles or line.keyed:
            continue
        answer, tables = read(client, world.address(route, reader) + (f"?{line.query}" if line.query else ""))
        if answer.streaming or not answer.headers.get("Content-Type", "").startswith("text/html"):
            continue
        if names := shown(answer):
            yield route, names, set(tables - frame)


def shown(answer: HttpResponseBase) -> set[str]:
    """The names that a page shows, those of one thing without its own."""
    shows = _SHOWS.search(answer.content.decode())  # type: ignore[attr-defined]
    return {re.sub(":.*", ":", name) for name in shows.group(1).split()} if shows else set()


def test_each_live_page_follows_whatever_it_reads(client: Client, reader: User, world: World) -> None:
    pages = list(live_pages(client, reader, world))
    assert len(pages) > 20, "the pages were not found"
    missing = [
        f"/{route} reads {table} and shows {' '.join(sorted(names))}, none of {sorted(TELLS.get(table, set()))}"
        for route, names, tables in pages
        for table in sorted(tables)
        if not names & TELLS.get(table, set()) and (route, table) not in EXCEPT
    ]
    assert not missing, "\n".join(missing)


def test_the_page_of_a_run_that_waits_for_a_worker_follows_whoever_lives(
    client: Client, reader: User, world: World
) -> None:
    JobRun.objects.update(state="claimed", begun_us=None, ended_us=None)
    answer, tables = read(client, world.address("jobs/<str:job>/runs/<int:run_id>/", reader))
    assert tables["nodes"] == 1
    assert {"nodes", "runs"} <= shown(answer)


def test_what_need_not_be_followed_is_still_read(client: Client, reader: User, world: World) -> None:
    read_now = {(route, table) for route, _, tables in live_pages(client, reader, world) for table in tables}
    assert EXCEPT.keys() <= read_now
