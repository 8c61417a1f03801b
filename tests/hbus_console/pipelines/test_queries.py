"""Queries of the archive in the console: who reads what, masked as on pages, as runs of a job, and audited."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from msgspec import Raw
from pytest_django import Settings

from engine.bus import Message
from engine.bus.facts import Fact
from engine.bus.message import encode
from engine.bus.transport import Outgoing
from engine.core.errors import BadInput, Conflict, NotThere
from engine.cron.work.call import Hopeless, Stopped
from engine.cron.work.functions import find_function
from engine.pipeline.archive.tasks import in_this_process
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job, JobRun
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.feature import QUERY_JOB
from hbus_console.pipelines.models import LakeQuery, SavedQuery
from hbus_console.pipelines.queries import asking, reading, saving, working
from hbus_console.pipelines.queries.asking import WantedQuery, ask_query, cancel_query
from hbus_console.pipelines.queries.saving import WantedSaved
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser
from tests.hbus_console.pipelines.ledger import book
from tests.hbus_console.pipelines.querying import GUESTS, OTHER, WHY, archive_both, context_of, rows, work

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def archived(governor: Actor) -> Actor:
    return archive_both(governor)


@pytest.fixture
def masked(archived: Actor) -> Actor:
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"], classification="personal")
    return archived


@pytest.fixture
def viewer(archived: Actor, make_user: MakeUser) -> Actor:
    return actor_of(make_user("viewer", "*", "vera"))


def test_it_reads_the_topics_that_one_may_see_and_no_others(
    archived: Actor, make_user: MakeUser, tmp_path: Path
) -> None:
    sql = "SELECT topic, count(*) FROM messages GROUP BY 1 ORDER BY 1"
    assert rows(archived, tmp_path, sql) == [[TOPIC, 40], [OTHER, 7]]
    scoped = actor_of(make_user("viewer", "payment.*", "pat"))
    assert rows(scoped, tmp_path, sql) == [[OTHER, 7]]
    assert rows(archived, tmp_path, sql, topics=[OTHER]) == [[OTHER, 7]]
    with pytest.raises(Forbidden):
        ask_query(scoped, WantedQuery(sql, [TOPIC]))
    with pytest.raises(NotThere):
        ask_query(archived, WantedQuery(sql, ["hotel.unknown"]))


def test_a_file_of_another_topic_cannot_be_read_by_its_path(
    archived: Actor, make_user: MakeUser, settings: Settings, tmp_path: Path
) -> None:
    scoped = actor_of(make_user("viewer", "payment.*", "pat"))
    hidden = next(Path(settings.HBUS_LAKE).rglob("booking.created/**/*.parquet"))
    for sql in (f"FROM read_parquet('{hidden}')", f"FROM '{hidden}'"):
        query = work(ask_query(scoped, WantedQuery(sql)), tmp_path)
        assert query.state == "failed"
        assert "Permission" in query.error
        assert str(hidden.parent) not in query.error


def test_what_pages_mask_sql_does_not_see(masked: Actor, viewer: Actor, tmp_path: Path) -> None:
    assert rows(viewer, tmp_path, GUESTS, topics=[TOPIC]) == [["masked · personal"]]
    told = "SELECT count(*), count(size), count(data_base64), count(original) FROM messages"
    assert rows(viewer, tmp_path, told, topics=[TOPIC]) == [[40, 0, 0, 0]]
    assert rows(viewer, tmp_path, "SELECT count(DISTINCT data->>'$.n') FROM messages", topics=[TOPIC]) == [[40]]
    # Nor who may reveal it, without saying so.
    assert rows(masked, tmp_path, GUESTS, topics=[TOPIC]) == [["masked · personal"]]
    # And the other, which masks nothing, as it lies there.
    assert len(rows(viewer, tmp_path, GUESTS, topics=[OTHER])) == 7


@pytest.mark.parametrize(
    "data",
    [
        b'{"guest": {"name": "Zed RealName"}, "guest": {"room": 4}}',
        b'{"guest": "Zed RealName", "\\u0067uest": "Zed"}',
        b'{"n": 1, "rooms": [{"guest": "Zed RealName", "guest": null}]}',
    ],
)
def test_of_members_of_one_name_none_is_seen_where_something_is_masked(
    masked: Actor, viewer: Actor, client: Client, tmp_path: Path, data: bytes
) -> None:
    """Found by a stranger: the one that counts had nothing to mask, and so the text stood as it was stored."""
    body = encode(Message(id="twice", source="/t", type="t", partitionkey="k", data=Raw(data)))
    bus.transport().publish(TOPIC, [Outgoing("twice", body)])
    run_archive(wanted_topics([]), in_this_process)
    told = rows(viewer, tmp_path, "SELECT data->>'$' FROM messages WHERE id = 'twice'", topics=[TOPIC])
    assert told == [["masked · personal"]]
    client.force_login(User.objects.get(username="vera"))
    log = client.get(f"/api/v1/topics/{TOPIC}/log?limit=100").json()
    (entry,) = [each for each in log["results"] if "twice" in str(each)]
    assert "Zed" not in str(entry)
    assert "'size': None" in str(entry)


def test_what_a_handler_said_of_what_is_masked_sql_does_not_see(masked: Actor, viewer: Actor, tmp_path: Path) -> None:
    quoted, now_ms = 'no room for "Ada"', round(time.time() * 1000)
    for topic in (TOPIC, OTHER):
        book(Fact("retried", now_ms, topic, "billing", "m1", source="/t", attempt=1, error=quoted))
    run_archive(wanted_topics([]), in_this_process)
    said = "SELECT DISTINCT error FROM deliveries WHERE kind = 'retried'"
    assert rows(viewer, tmp_path, said, topics=[TOPIC]) == [[None]]
    assert rows(viewer, tmp_path, said, topics=[OTHER]) == [[quoted]]
    assert rows(masked, tmp_path, said, topics=[TOPIC], reveal=True, reason=WHY) == [[quoted]]


def test_a_reveal_takes_the_right_a_reason_and_named_topics_and_is_audited(
    masked: Actor, viewer: Actor, tmp_path: Path
) -> None:
    with pytest.raises(Forbidden):
        ask_query(viewer, WantedQuery(GUESTS, [TOPIC], reveal=True, reason=WHY))
    with pytest.raises(BadInput):
        ask_query(masked, WantedQuery(GUESTS, [TOPIC], reveal=True))
    with pytest.raises(BadInput):
        ask_query(masked, WantedQuery(GUESTS, reveal=True, reason=WHY))
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()
    assert len(rows(masked, tmp_path, GUESTS, topics=[TOPIC, OTHER], reveal=True, reason=WHY)) == 40
    entry = AuditEntry.objects.get(action="payload.reveal")
    assert (entry.target, entry.reason) == (TOPIC, WHY)
    assert entry.after["fields"] == ["guest"]


def test_what_is_older_than_its_topic_is_hidden_whole(archived: Actor, viewer: Actor, tmp_path: Path) -> None:
    Topic.objects.filter(name=TOPIC).update(created_at=timezone.now())
    sql = "SELECT DISTINCT data->>'$' FROM messages"
    assert rows(viewer, tmp_path, sql, topics=[TOPIC]) == [["masked · unknown"]]
    Topic.objects.filter(name=TOPIC).delete()
    assert rows(viewer, tmp_path, sql, topics=[TOPIC]) == [["masked · unknown"]]


def test_a_result_is_its_askers_own_and_gone_once_masks_or_rights_change(
    archived: Actor, viewer: Actor, tmp_path: Path
) -> None:
    query = work(ask_query(viewer, WantedQuery(GUESTS, [TOPIC])), tmp_path)
    assert reading.answer_of(viewer, query) is not None
    with pytest.raises(NotThere):
        reading.own_query(archived, query.pk)
    assert not reading.own(archived).exists()
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    assert reading.answer_of(viewer, query) is None
    Topic.objects.filter(name=TOPIC).update(masked_fields=[])
    assert reading.answer_of(viewer, query) is not None
    User.objects.get(username="vera").grants.update(scope="payment.*")
    assert reading.answer_of(actor_of(User.objects.get(username="vera")), query) is None


def test_it_is_run_with_what_its_asker_may_do_then(archived: Actor, viewer: Actor, tmp_path: Path) -> None:
    query = ask_query(viewer, WantedQuery(GUESTS, [TOPIC]))
    User.objects.get(username="vera").grants.update(scope="payment.*")
    assert work(query, tmp_path).state == "failed"
    assert "may not" in query.error
    other = ask_query(archived, WantedQuery(GUESTS, [TOPIC]))
    User.objects.filter(username="gov").update(is_active=False)
    assert work(other, tmp_path).state == "failed"
    assert "no account" in other.error


def test_a_reveal_that_nobody_recorded_shows_nothing(archived: Actor, tmp_path: Path) -> None:
    """Found by a stranger: a field that is masked while the query waits was revealed without a word in the log."""
    query = ask_query(archived, WantedQuery(GUESTS, [TOPIC], reveal=True, reason=WHY))
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"], classification="personal")
    assert work(query, tmp_path).state == "failed"
    assert "Ask again" in query.error
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()


def test_a_token_reads_what_was_asked_with_it(archived: Actor, make_user: MakeUser) -> None:
    person = actor_of(make_user("governor", "*", "mix"))
    narrow, wide = (replace(person, token_id=number) for number in (1, 2))
    query = ask_query(wide, WantedQuery(GUESTS, [TOPIC]))
    assert reading.own_query(wide, query.pk) == reading.own_query(person, query.pk) == query
    assert not reading.own(narrow).exists()


def test_one_query_runs_at_a_time_so_that_other_jobs_have_room(archived: Actor) -> None:
    job = Job.objects.get(name=QUERY_JOB)
    assert (job.overlap, job.manual_runs) == ("queue", "bound")


def test_who_governs_a_topic_finds_each_query_of_it_and_of_no_other(archived: Actor, tmp_path: Path) -> None:
    work(ask_query(archived, WantedQuery("SELECT 1", [TOPIC, OTHER])), tmp_path)
    for action in ("archive.query", "archive.answer"):
        entries = {each.target: each for each in AuditEntry.objects.filter(action=action)}
        assert set(entries) == {TOPIC, OTHER}
        assert OTHER not in str(entries[TOPIC].after)


def test_no_mark_tells_that_two_queries_ask_the_same(archived: Actor) -> None:
    first, second = (ask_query(archived, WantedQuery("SELECT 1")) for _ in range(2))
    assert asking.mark_of(first) != asking.mark_of(second)


def test_it_is_audited_without_what_it_asks(archived: Actor, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM messages WHERE data->>'$.guest' = 'g7'"
    query = ask_query(archived, WantedQuery(sql, [TOPIC]))
    work(query, tmp_path)
    asked = AuditEntry.objects.get(action="archive.query")
    answered = AuditEntry.objects.get(action="archive.answer")
    assert asked.actor == archived.name
    assert asked.after["sql_mark"] == answered.after["sql_mark"] == asking.mark_of(query)
    assert (answered.after["rows"], answered.after["state"]) == (1, "done")
    for entry in AuditEntry.objects.all():
        assert "g7" not in f"{entry.before}{entry.after}{entry.reason}"
    run = JobRun.objects.get(pk=query.run)
    assert "g7" not in f"{run.parameters}{run.asked_why}"


def test_a_run_tells_nobody_how_many_rows_there_are(archived: Actor, tmp_path: Path) -> None:
    query = ask_query(archived, WantedQuery("SELECT 1", [TOPIC]))
    outcome = find_function(QUERY_JOB).run(context_of(query, tmp_path))
    assert outcome.summary == f"Query {query.pk} is answered; its asker reads it."


def test_a_run_answers_no_query_but_its_own(archived: Actor, tmp_path: Path) -> None:
    first, second = (ask_query(archived, WantedQuery("SELECT 1")) for _ in range(2))
    context = context_of(first, tmp_path)
    with pytest.raises(Hopeless):
        working.answer_query(context, second.pk)
    working.answer_query(context, first.pk)
    with pytest.raises(Hopeless):
        working.answer_query(context, first.pk)


def test_one_that_is_stopped_says_so(archived: Actor, tmp_path: Path) -> None:
    query = ask_query(archived, WantedQuery("SELECT max(i * j) FROM range(10_000_000) a(i), range(10_000_000) b(j)"))
    context = context_of(query, tmp_path)
    context.stop("somebody cancelled it")
    with pytest.raises(Stopped):
        working.answer_query(context, query.pk)
    query.refresh_from_db()
    assert query.state == "cancelled"


def test_one_that_never_began_is_cancelled_with_its_run(archived: Actor) -> None:
    query = ask_query(archived, WantedQuery("SELECT 1"))
    assert reading.told_state(query) == "waiting"
    cancel_query(archived, query.pk)
    run = JobRun.objects.get(pk=query.run)
    assert run.cancel_us is not None or run.state == "cancelled"
    JobRun.objects.filter(pk=run.pk).update(state="cancelled", ended_us=1)
    assert reading.told_state(query) == "cancelled"
    JobRun.objects.filter(pk=run.pk).update(state="lost lease")
    assert reading.told_state(query) == "failed"


def test_three_at_once_are_enough(archived: Actor, viewer: Actor) -> None:
    for _ in range(3):
        ask_query(archived, WantedQuery("SELECT 1"))
    with pytest.raises(Conflict):
        ask_query(archived, WantedQuery("SELECT 1"))
    ask_query(viewer, WantedQuery("SELECT 1"))
    JobRun.objects.filter(job=QUERY_JOB).update(state="done", ended_us=1)
    ask_query(archived, WantedQuery("SELECT 1"))


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (WantedQuery(""), "sql"),
        (WantedQuery("SELECT 1", from_day="yesterday"), "from"),
        (WantedQuery("SELECT 1", from_day="2026-02-30"), "from"),
        (WantedQuery("SELECT 1", from_day="2026-11-28", to_day="2026-11-27"), "to"),
        (WantedQuery("SELECT 1", rows=10_001), "rows"),
        (WantedQuery("SELECT 1", seconds=61), "seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(archived: Actor, wanted: WantedQuery, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        ask_query(archived, wanted)
    assert refused.value.field == field


def test_days_say_which_files_are_read(archived: Actor, tmp_path: Path) -> None:
    today = f"{timezone.now():%Y-%m-%d}"
    count = "SELECT count(*) FROM messages"
    assert rows(archived, tmp_path, count, from_day="2020-01-01", to_day="2020-12-31") == [[0]]
    assert rows(archived, tmp_path, count, from_day="2020-01-01", to_day=today) == [[47]]


def test_old_ones_go(archived: Actor, tmp_path: Path, settings: Settings) -> None:
    query = work(ask_query(archived, WantedQuery("SELECT 1")), tmp_path)
    settings.HBUS_QUERY_DAYS = 0
    with pytest.raises(NotThere):
        reading.own_query(archived, query.pk)
    asking.forget_old_queries()
    assert not LakeQuery.objects.exists()


def test_the_job_never_runs_by_itself_and_comes_back(archived: Actor, tmp_path: Path) -> None:
    assert Job.objects.get(name=QUERY_JOB).schedule == "@never"
    Job.objects.filter(name=QUERY_JOB).delete()
    ask_query(archived, WantedQuery("SELECT 1"))
    assert Job.objects.filter(name=QUERY_JOB).exists()


def test_nothing_is_left_of_the_process(archived: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    rows(archived, tmp_path, "SELECT 1")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("hbus-query-")]


def test_saved_queries_lie_in_namespaces(archived: Actor, viewer: Actor, make_user: MakeUser) -> None:
    name = "booking.by-guest"
    made = saving.save_query(archived, name, WantedSaved(GUESTS, "Who books", "Bookings"))
    assert (made.sql, made.team and made.team.name) == (GUESTS, "Bookings")
    assert saving.saved_query(viewer, name) == made
    with pytest.raises(Forbidden):
        saving.save_query(viewer, name, WantedSaved(GUESTS))
    scoped = actor_of(make_user("operator", "payment.*", "pat"))
    assert not saving.saved_queries(scoped).exists()
    with pytest.raises(Forbidden):
        saving.delete_saved(scoped, name, "")
    for sql in ("SELEC 1", "COPY messages TO 'x'"):
        with pytest.raises(BadInput) as refused:
            saving.save_query(archived, name, WantedSaved(sql))
        assert refused.value.field == "sql"
    saving.delete_saved(archived, name, "")
    assert not SavedQuery.objects.exists()
    actions = AuditEntry.objects.filter(target=name).order_by("seq").values_list("action", flat=True)
    assert list(actions) == ["query.save", "query.delete"]
