"""The cluster page and its endpoint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.cluster import services
from hbus_console.evidence.models import Notice
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import Node, key
from hbus_console.spark_fetch.progress import Living, Phase, Progress, write
from hbus_console.supervisor import state, status
from hbus_console.wiring import store
from tests.hbus_console.accounts.conftest import MakeUser

ENGINE = "PostgreSQL" if connection.vendor == "postgresql" else "SQLite"
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def stamped() -> Iterator[None]:
    """A consumer and a keeper have stamped once."""
    client = store.client()
    details = {
        "consumer": {
            "consumers": [
                {"topic": "booking.created", "group": "billing", "state": "running", "in_flight": 2},
                {"topic": "stay.completed", "group": "loyalty", "state": "paused"},
            ]
        },
        "keeper": {"duties": [{"name": "fact-collector", "state": "running", "ticks": 7, "last_error": "it hurts"}]},
    }
    for role, detail in details.items():
        NodeBeat(client, settings.HBUS_PREFIX, name=f"h:{role}:0", role=role, detail=lambda found=detail: found).beat()
    yield
    client.delete(key(settings.HBUS_PREFIX))


def test_it_shows_nodes_consumers_duties_store_and_databases(page: Client, stamped: None) -> None:
    html = page.get("/cluster/").content.decode()
    for text in (
        "billing",
        "loyalty",
        "fact-collector",
        "it hurts",
        "refuses writes, evicts nothing",
        ENGINE,
        "h:keeper:0",
    ):
        assert text in html, text


def test_a_viewer_sees_the_consumers_of_their_topics_only(
    viewer: User, browse: Callable[[User], Client], stamped: None
) -> None:
    html = browse(viewer).get("/cluster/").content.decode()
    assert "billing" in html
    assert "loyalty" not in html


def test_the_fetch_of_spark_is_a_line_and_what_it_failed_of_is_for_who_sees_everything(
    page: Client,
    viewer: User,
    browse: Callable[[User], Client],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "Spark" not in page.get("/cluster/").content.decode()
    monkeypatch.setattr(settings, "STATE", tmp_path)
    here = Living.of(os.getpid())
    write(tmp_path, Progress(Phase.DOWNLOADING, here, here, "pyspark", 214_000_000, 456_000_000))
    assert "Spark is being fetched: 214 of 456 MB of pyspark." in page.get("/cluster/").content.decode()
    write(tmp_path, Progress(Phase.FAILED, here, here, said="no room on the disk"))
    for client, reads in ((page, True), (browse(viewer), False)):
        html = client.get("/cluster/").content.decode()
        assert "Spark could not be fetched." in html
        assert ("no room on the disk" in html, services.UNSAID in html) == (reads, not reads)


def test_the_machines_are_counted(page: Client, admin_actor: Actor, stamped: None) -> None:
    html = " ".join(page.get("/cluster/").content.decode().split())
    assert "2 processes on one machine" in html
    found = services.cluster(admin_actor)
    here, there = found.processes
    assert replace(found, processes=[here, there, replace(here, host="")]).machines == 1
    assert replace(found, processes=[here, replace(there, host="other"), replace(here, host="")]).machines == 2


def test_nothing_running_is_designed_too(page: Client) -> None:
    html = page.get("/cluster/").content.decode()
    assert "No keeper has reported" in html
    assert "manage.py role keeper" in html


def test_what_is_being_started_need_not_be_started_by_hand(
    page: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "STATE", tmp_path)
    roles = [state.RoleState(role, 0, state=state.STARTING) for role in ("consumer", "keeper", "cron")]
    told = state.Snapshot(pid=1, started_ms=1, url="", store="", embedded_store=True, roles=roles)
    state.write(tmp_path, told)
    held = state.hold(tmp_path)
    assert held is not None
    with held:
        for address, said in (("/cluster/", "hbus is starting a consumer"), ("/jobs/nodes/", "hbus is starting one")):
            html = page.get(address).content.decode()
            assert said in html
            assert "manage.py role" not in html
    assert "manage.py role keeper" in page.get("/cluster/").content.decode()


def test_dropped_evidence_is_said(page: Client) -> None:
    import time

    Notice.objects.create(kind="facts_dropped", at_ms=time.time_ns() // 1_000_000, count=1_204)
    assert "1,204 facts of evidence dropped in a day" in page.get("/cluster/").content.decode()


def test_the_endpoint_says_the_same(
    page: Client, viewer: User, browse: Callable[[User], Client], stamped: None
) -> None:
    body = page.get("/api/v1/cluster").json()
    assert [line["group"] for line in body["consumers"]] == ["billing", "loyalty"]
    assert body["duties"][0]["last_error"] == "it hurts"
    assert body["store"]["policy"] == "noeviction"
    assert body["worst"] in {"ok", "warn", "bad"}
    assert "password" not in str(body).lower()
    limited = browse(viewer).get("/api/v1/cluster").json()
    assert [line["group"] for line in limited["consumers"]] == ["billing"]


def test_both_need_a_sign_in() -> None:
    assert Client().get("/cluster/").status_code == 302
    assert Client().get("/api/v1/cluster").status_code == 401


def test_the_overview_counts_what_its_reader_may_see(client: Client, make_user: MakeUser, stamped: None) -> None:
    for scope, said in (("*", "2 subscriptions"), ("booking.*", "1 subscription")):
        client.force_login(make_user(said.replace(" ", "-"), "viewer", scope))
        (consumers,) = [role for role in client.get("/").context["roles"] if role.name == "consumer"]
        assert consumers.note == f"1 node · {said}"


def test_while_the_stamps_cannot_be_read_nobody_counts_consumers(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "living", lambda clock: ([], "Timeout"))
    html = page.get("/cluster/").content.decode()
    assert "Nobody knows which consumers run" in html
    assert "0 running" not in html
    assert "Nobody knows how the duties stand" in html
    assert "".join(html.split()).count('<spanclass="meta">notknown</span>') == 2


def test_a_role_that_was_killed_is_not_counted_for_as_long_as_its_stamp_looks_fresh(
    page: Client, stamped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "STATE", tmp_path)
    role = state.RoleState("consumer", 0, state=state.BACKING_OFF)
    state.write(tmp_path, state.Snapshot(os.getpid(), 1, "", "", embedded_store=True, roles=[role]))
    client, name = store.client(), "h:consumer:0"
    whole = json.loads(client.hget(key(settings.HBUS_PREFIX), name) or b"")
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        pass
    client.hset(key(settings.HBUS_PREFIX), name, json.dumps(whole | {"slot": "0", "pid": killed.pid}))
    (consumers,) = [role for role in page.get("/cluster/").context["cluster"].roles if role.name == "consumer"]
    assert (consumers.tone, consumers.word) == ("bad", "none alive")


def test_a_time_stands_well_behind_what_ends_as_a_sentence(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    line = status.ProcessLine("web", "0", "ready", 1, "h", 0, 3, 0, "", "It was away. Start it.", 42)
    monkeypatch.setattr(status, "collect", lambda *_, **__: status.Status(True, "", "", [line]))
    failed = {"topic": "a", "group": "g", "last_error": "It was away. Start it.", "last_error_ms": 1}
    node = Node("h:consumer:0", "consumer", "0", "h", 1, 0, 5_000, False, {"consumers": [failed]})
    monkeypatch.setattr(services, "living", lambda clock: ([node], ""))
    html = page.get("/cluster/").content.decode()
    assert html.count("It was away. Start it. (") == 2


def test_amounts_are_told_to_who_may_reveal_everywhere_and_to_nobody_else(
    client: Client, page: Client, make_user: MakeUser, stamped: None
) -> None:
    """By what the store and the databases grow, a hidden payload could be weighed."""
    governors = [make_user(f"g{n}", "governor", scope) for n, scope in enumerate(("booking.*", "*"))]
    viewer = make_user("v")

    def told(user: User) -> tuple[set[bool], str]:
        client.force_login(user)
        found = client.get("/api/v1/cluster").json()
        amounts = [found["store"][name] for name in ("memory", "operations", "keys")]
        amounts += [database["size"] for database in found["databases"]]
        html = client.get("/cluster/").content.decode() + client.get("/").content.decode()
        return {amount is not None for amount in amounts}, html

    assert [told(user)[0] for user in (*governors, viewer)] == [{False}, {True}, {False}]
    for user in (governors[0], viewer):
        html = told(user)[1]
        assert ("<dt>memory</dt>" in html, "<dt>keys</dt>" in html, "<dt>size</dt>" in html) == (False,) * 3
        assert not re.search(r"[0-9.]+ [kMG]B · (AOF|not durable)", html)
    html = told(governors[1])[1]
    assert "<dt>memory</dt>" in html
    assert re.search(r"[0-9.]+ [kMG]i?B · (AOF|not durable)", html)
