"""A store that takes connections and answers nothing holds up one look of the live pages once, and not by scopes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from engine.cron.slots.steps import RunState
from hbus_console.audit import witness
from hbus_console.cluster import probes
from hbus_console.jobs.models import Job
from hbus_console.ui import live
from hbus_console.ui.changes import Marks, merged
from hbus_console.ui.polling import one_poll
from hbus_console.wiring import store
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SIGHTS = (("*",), (NAME,), ("hotel.*",), ("stay.*",), ("booking.*",), ("booking.*", NAME))


@pytest.fixture
def opened(job: Job, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """From now on the store hangs: the connections that were opened to it."""
    found: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                found.append(server.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    settings.REDIS_URL = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
    monkeypatch.setattr(probes, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(probes, "_away", {})
    monkeypatch.setattr(witness, "_away", {})
    for forget in (store.close, probes.client.cache_clear):
        forget()
    yield found
    for forget in (store.close, probes.client.cache_clear):
        forget()
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for each in found:
        each.close()


def look(*sights: tuple[str, ...]) -> dict[tuple[str, ...], Marks]:
    """As the hub looks for all of them."""
    now_ms = round(time.time() * 1000)
    with one_poll():
        return {scopes: merged(part.marks for part in live.cells(now_ms, scopes)) for scopes in sights}


def test_all_sets_of_scopes_wait_for_it_as_long_as_one(opened: list[socket.socket]) -> None:
    ran(RunState.RUNNING, ended_us=None)
    look(SIGHTS[0])
    alone = len(opened)
    probes._away.clear()
    witness._away.clear()
    found = look(*SIGHTS)
    assert 0 < alone <= 4, "each is waited for"
    assert len(opened) - alone == alone
    assert "store" not in store._made, "somebody asked over the client that waits for ten seconds"
    assert [scopes for scopes, marks in found.items() if f"job:{NAME}" in marks] == [
        scopes for scopes in SIGHTS if "*" in scopes or NAME in scopes
    ]


@pytest.mark.parametrize("path", ["/jobs/nodes/", "/runs/"], ids=["nodes", "runs"])
def test_no_page_of_runs_waits_with_patience(page: Client, opened: list[socket.socket], path: str) -> None:
    ran(RunState.RUNNING, ended_us=None)
    html_of(page, path)
    assert "store" not in store._made
