"""Queries of the archive over HTTP and on their page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from engine.core.errors import BadInput
from engine.pipeline.lake.state import Kind
from engine.pipeline.query.sealed import columns_of
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.pipelines.feature import QUERY_JOB
from hbus_console.pipelines.live import cells
from hbus_console.pipelines.models import LakeQuery, SavedQuery
from hbus_console.pipelines.queries import reading, saving
from hbus_console.pipelines.queries.asking import WantedQuery, ask_query
from hbus_console.pipelines.queries.saving import WantedSaved
from hbus_console.pipelines.queries.views_of import COLUMNS
from hbus_console.topics.models import Topic
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser
from tests.hbus_console.pipelines.querying import GUESTS, archive_both, work
from tests.hbus_console.words import says

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def archived(governor: Actor) -> Actor:
    return archive_both(governor)


def test_over_http_it_is_asked_read_and_cancelled(archived: Actor, client: Client, tmp_path: Path) -> None:
    client.force_login(User.objects.get(username="gov"))
    body = {"sql": "SELECT count(*) AS n FROM messages", "topics": [TOPIC], "from": "2020-01-01"}
    asked = client.post("/api/v1/queries", body, content_type="application/json")
    assert asked.status_code == 202, asked.content
    number = asked.json()["id"]
    work(LakeQuery.objects.get(pk=number), tmp_path)
    told = client.get(f"/api/v1/queries/{number}?wait=1").json()
    assert told["state"] == "done"
    assert told["result"] == {"columns": [{"name": "n", "type": "BIGINT"}], "rows": [[40]], "cut": False}
    (listed,) = client.get("/api/v1/queries").json()["results"]
    assert (listed["id"], listed["result"]) == (number, None)
    assert client.delete(f"/api/v1/queries/{number}").status_code == 202
    assert client.post("/api/v1/queries", {"sql": "x", "wait": 11}, content_type="application/json").status_code == 422
    saved = client.put("/api/v1/queries/saved/booking.n", {"sql": "SELECT 1"}, content_type="application/json")
    assert saved.json()["name"] == "booking.n"
    assert [each["name"] for each in client.get("/api/v1/queries/saved").json()["results"]] == ["booking.n"]
    gone = client.delete("/api/v1/queries/saved/booking.n", {}, content_type="application/json")
    assert gone.status_code == 204


def test_the_page_asks_shows_and_saves(archived: Actor, client: Client, tmp_path: Path) -> None:
    client.force_login(User.objects.get(username="gov"))
    assert "count(*) AS messages" in client.get("/archive/query/").content.decode()
    sql = "SELECT partitionkey, count(*) AS bookings FROM messages GROUP BY 1 ORDER BY 1"
    gone = client.post("/archive/query/run/", {"sql": sql, "topics": TOPIC})
    assert gone.status_code == 302
    assert "Under way" in client.get(gone.url).content.decode()
    query = LakeQuery.objects.get()
    work(query, tmp_path)
    page = client.get(gone.url).content.decode()
    assert "3 rows in" in page
    assert '<td class="num">14</td>' in page
    assert "<title>H-0: bookings 14</title>" in page
    told = b"".join(client.get(f"/archive/query/{query.pk}/result.csv").streaming_content).decode()
    assert told.splitlines() == ["partitionkey,bookings", "H-0,14", "H-1,13", "H-2,13"]
    assert client.post("/archive/query/run/", {"sql": ""}).status_code == 422
    client.post("/archive/query/save/", {"name": "booking.by-key", "sql": sql})
    assert "booking.by-key" in client.get("/archive/query/?saved=booking.by-key").content.decode()
    client.post("/archive/query/forget/", {"name": "booking.by-key"})
    assert not SavedQuery.objects.exists()


def test_a_result_that_is_not_to_be_seen_any_more_says_so(archived: Actor, client: Client, tmp_path: Path) -> None:
    query = work(ask_query(archived, WantedQuery(GUESTS, [TOPIC])), tmp_path)
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    client.force_login(User.objects.get(username="gov"))
    page = client.get(f"/archive/query/?id={query.pk}").content.decode()
    assert "Not shown any more" in page
    assert not says(page, "g7")
    assert client.get(f"/archive/query/{query.pk}/result.csv").status_code == 409


def test_marks_move_with_queries_and_with_what_is_saved(archived: Actor, tmp_path: Path) -> None:
    def mark() -> object:
        return cells(0, ("*",)).marks["queries"]

    seen = [mark()]
    query = ask_query(archived, WantedQuery("SELECT 1"))
    seen.append(mark())
    work(query, tmp_path)
    seen.append(mark())
    saving.save_query(archived, "booking.one", WantedSaved("SELECT 1"))
    seen.append(mark())
    assert len({str(each() if callable(each) else each) for each in seen}) == 4


def test_the_page_knows_the_columns_that_there_are() -> None:
    assert {view: told[1] for view, told in COLUMNS.items()} == {kind.value: tuple(columns_of(kind)) for kind in Kind}


def test_an_answer_that_is_kept_for_a_key_tells_what_may_be_seen_by_then(
    archived: Actor, client: Client, tmp_path: Path
) -> None:
    client.force_login(User.objects.get(username="gov"))

    def ask() -> dict[str, Any]:
        body = {"sql": GUESTS, "topics": [TOPIC]}
        answer = client.post(
            "/api/v1/queries", body, content_type="application/json", headers={"Idempotency-Key": "once"}
        )
        told: dict[str, Any] = answer.json()
        return told

    number = ask()["id"]
    work(LakeQuery.objects.get(pk=number), tmp_path)
    again = ask()
    assert (again["id"], again["state"], len(again["result"]["rows"])) == (number, "done", 40)
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    assert ask()["result"] is None


def test_why_it_failed_may_quote_a_value_and_is_told_as_a_result_is(
    archived: Actor, client: Client, tmp_path: Path
) -> None:
    sql = "SELECT (data->>'$.guest')::int FROM messages WHERE data->>'$.guest' = 'g7'"
    query = work(ask_query(archived, WantedQuery(sql, [TOPIC])), tmp_path)
    assert "g7" in reading.error_of(archived, query)
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    assert "g7" not in reading.error_of(archived, query)
    client.force_login(User.objects.get(username="gov"))
    assert "g7" not in client.get(f"/api/v1/queries/{query.pk}").json()["failure"]


def test_a_name_that_is_taken_is_saved_over_only_by_whoever_opened_it(archived: Actor, client: Client) -> None:
    """Found by a stranger: a new one took the place of another team's, and its owner, without a word."""
    client.force_login(User.objects.get(username="gov"))
    name, address = "booking.taken", "/archive/query/save/"
    first = saving.save_query(archived, name, WantedSaved("SELECT 1", "Who books", "Bookings"))

    def sent(sql: str, **more: str) -> dict[str, str]:
        return {"name": name, "sql": sql, "description": "Who books", "owner": "Bookings", **more}

    page = client.post(address, sent("SELECT 2", owner=""), follow=True).content.decode()
    assert says(page, "booking.taken is the name of a query of Bookings.")
    with pytest.raises(BadInput) as refused:
        saving.save_query(archived, name, WantedSaved("SELECT 2"))
    assert refused.value.field == "name"
    opened = client.get(f"/archive/query/?saved={name}").content.decode()
    was = saving.mark_of(first)
    for field, value in (("replaces", name), ("was", was.replace("+", "&#x2B;"))):
        assert f'name="{field}" value="{value}"' in opened or f'name="{field}" value="{was}"' in opened
    client.post(address, sent("SELECT 3", replaces="booking.other", was=was))
    assert SavedQuery.objects.get().sql == "SELECT 1"
    client.post(address, sent("SELECT 3", replaces=name, was=was))
    # From what it was when it was opened, and that is not what it is.
    client.post(address, sent("SELECT 4", replaces=name, was=was))
    now = SavedQuery.objects.select_related("team").get()
    assert (now.sql, now.description, now.team and now.team.name) == ("SELECT 3", "Who books", "Bookings")
    entry = AuditEntry.objects.filter(action="query.save").latest("seq")
    assert (entry.before["sql"], entry.after["sql"]) == ("SELECT 1", "SELECT 3")


def test_a_put_replaces_and_keeps_what_it_does_not_say(archived: Actor, client: Client) -> None:
    client.force_login(User.objects.get(username="gov"))
    saving.save_query(archived, "booking.n", WantedSaved("SELECT 1", "Who books", "Bookings"))
    told = client.put("/api/v1/queries/saved/booking.n", {"sql": "SELECT 2"}, content_type="application/json").json()
    assert (told["sql"], told["description"], told["owner"]) == ("SELECT 2", "Who books", "Bookings")
    bare = {"sql": "SELECT 2", "description": "", "owner": ""}
    told = client.put("/api/v1/queries/saved/booking.n", bare, content_type="application/json").json()
    assert (told["description"], told["owner"]) == ("", "")


def test_one_that_waits_says_what_for_and_leads_to_its_run_where_that_is_seen(
    archived: Actor, client: Client, make_user: MakeUser
) -> None:
    client.force_login(User.objects.get(username="gov"))
    query = ask_query(archived, WantedQuery("SELECT 1"))
    page = client.get(f"/archive/query/?id={query.pk}").content.decode()
    assert says(page, "waits for a worker")
    assert says(page, "it is ended 10 s after it begins")
    assert f"/jobs/{QUERY_JOB}/runs/{query.run}/" in page
    scoped = make_user("viewer", "payment.*", "pat")
    query = ask_query(actor_of(scoped), WantedQuery("SELECT 1"))
    client.force_login(scoped)
    page = client.get(f"/archive/query/?id={query.pk}").content.decode()
    assert says(page, "it is ended 10 s after it begins")
    assert not says(page, "waits for")
    assert f"/runs/{query.run}/" not in page
