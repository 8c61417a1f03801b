"""A role that lives and does not answer for itself is started again; one that answers whatever it may, or waits for
another, is not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from engine.core.clock import ManualClock, SystemClock
from hbus_console.nodes.beat import NodeBeat
from hbus_console.supervisor import probes, state
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.supervisor.supervisor import Pace
from tests.hbus_console.supervisor.kit import FAST, Bench, role

DEAF = probes.Deaf("does not answer: timed out")


@pytest.mark.parametrize(("problem", "killed"), [(DEAF, True), (probes.SILENT, True), ("takes no writes", False)])
def test_what_is_deaf_for_twenty_seconds_is_killed_and_started_again(bench: Bench, problem: str, killed: bool) -> None:
    ill, clock, asked = bench.state / "ill", ManualClock(), [0]

    def ask(*_: object) -> str:
        asked[0] += 1
        return problem if ill.exists() else ""

    async def probed_again(bench: Bench) -> None:
        before = asked[0]
        await bench.until(lambda: asked[0] >= before + 3)

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        before = bench.seen("one").pid
        ill.touch()
        await bench.until(lambda: bench.seen("one").state == state.NOT_READY)
        clock.advance(19.9)
        await probed_again(bench)
        assert bench.seen("one").pid == before
        clock.advance(0.2)
        if killed:
            await bench.until(lambda: bench.seen("one").pid not in {0, before})
            assert bench.seen("one").last_error == "deaf for 20 s, and killed for that"
        else:
            clock.advance(3_600)
            await probed_again(bench)
            assert bench.seen("one").pid == before
        ill.unlink()
        await bench.until_ready("one")

    bench.run([role("one", probe=ask)], scenario, replace(FAST, deaf_s=Pace().deaf_s), clock)
    assert ("one has been deaf for 20 s and is killed." in bench.said.getvalue()) is killed


@pytest.mark.parametrize(("problem", "killed"), [(probes.UNSTAMPED, True), ("reading its log", False)])
def test_what_never_answers_at_its_start_is_killed_after_two_minutes(bench: Bench, problem: str, killed: bool) -> None:
    well, clock, asked = bench.state / "well", ManualClock(), [0]

    def ask(*_: object) -> str:
        asked[0] += 1
        return "" if well.exists() else problem

    async def probed_again(bench: Bench) -> None:
        before = asked[0]
        await bench.until(lambda: asked[0] >= before + 3)

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: bench.seen("one").pid > 0)
        before = bench.seen("one").pid
        await probed_again(bench)
        clock.advance(119)
        await probed_again(bench)
        assert bench.seen("one").pid == before
        clock.advance(2)
        if killed:
            await bench.until(lambda: bench.seen("one").pid not in {0, before})
        else:
            clock.advance(3_600)
            await probed_again(bench)
            assert bench.seen("one").pid == before
        well.touch()
        await bench.until_ready("one")

    pace = replace(FAST, deaf_s=Pace().deaf_s, deaf_at_start_s=Pace().deaf_at_start_s)
    bench.run([role("one", probe=ask)], scenario, pace, clock)
    assert ("one has been deaf for 120 s and is killed." in bench.said.getvalue()) is killed


def test_an_answer_in_between_begins_the_time_anew(bench: Bench) -> None:
    clock, ill, asked = ManualClock(), bench.state / "ill", [0]

    def ask(*_: object) -> str:
        asked[0] += 1
        return DEAF if ill.exists() else ""

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        before = bench.seen("one").pid
        for _ in range(3):
            ill.touch()
            await bench.until(lambda: bench.seen("one").state == state.NOT_READY)
            clock.advance(15)
            ill.unlink()
            await bench.until_ready("one")
        assert bench.seen("one").pid == before

    bench.run([role("one", probe=ask)], scenario, replace(FAST, deaf_s=Pace().deaf_s), clock)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_PATIENCE_S", 0.3)


def _installation(folder: Path, *, port: int = 1, store: str = "redis://127.0.0.1:1/0", nsqd: int = 0) -> Installation:
    return Installation(folder, "127.0.0.1", port, "t", "localhost", store, 0, nsqd_ports=(0, nsqd))


@pytest.mark.usefixtures("_impatient")
def test_a_store_that_was_stopped_is_deaf_and_one_that_is_asked_wrongly_is_not(
    tmp_path: Path, own_store: StandaloneStore
) -> None:
    at = _installation(tmp_path, store=own_store.url)
    assert probes.store_answers(at, 0, own_store.pid) == ""
    os.kill(own_store.pid, signal.SIGSTOP)
    try:
        assert isinstance(probes.store_answers(at, 0, own_store.pid), probes.Deaf)
    finally:
        os.kill(own_store.pid, signal.SIGCONT)


def test_a_node_that_has_stopped_is_deaf_and_one_that_cannot_be_asked_for_is_not(
    tmp_path: Path, own_store: StandaloneStore
) -> None:
    client = redis.Redis.from_url(own_store.url)
    clock = ManualClock(SystemClock().now_ms() - 60_000)
    NodeBeat(client, "t", name="h:web:0", role="web", clock=clock).beat()
    assert isinstance(probes.node_beats(_installation(tmp_path, store=own_store.url), 0, os.getpid()), probes.Deaf)
    client.close()
    own_store.kill()
    said = probes.node_beats(_installation(tmp_path, store=own_store.url), 0, os.getpid())
    assert said.startswith("cannot ask the store")
    assert not isinstance(said, probes.Deaf)


@pytest.mark.usefixtures("_impatient")
def test_of_a_node_that_could_not_stamp_the_store_is_not_said_that_it_stands_still(
    tmp_path: Path, own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, now_s = _installation(tmp_path, store=own_store.url), time.monotonic()
    with redis.Redis.from_url(own_store.url) as client:
        NodeBeat(client, "t", name="h:web:0", role="web", clock=ManualClock(SystemClock().now_ms() - 60_000)).beat()
    assert probes.node_beats(at, 0, os.getpid()) == probes.SILENT
    os.kill(own_store.pid, signal.SIGSTOP)
    try:
        assert probes.node_beats(at, 0, os.getpid()).startswith("cannot ask the store")
    finally:
        os.kill(own_store.pid, signal.SIGCONT)
    said = probes.node_beats(at, 0, os.getpid())
    assert (said, isinstance(said, probes.Deaf)) == (probes.NOT_AGAIN, False)
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 60)
    assert probes.node_beats(at, 0, os.getpid()) == probes.SILENT


@contextlib.contextmanager
def _web(*, well: bool) -> Iterator[int]:
    """The port of a web role that waits for its database, and says that it lives only if it is ``well``."""
    go_on = threading.Event()

    class Waits(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/healthz" or not well:
                go_on.wait(20)
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Waits)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield server.server_port
    go_on.set()
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("well", [True, False])
def test_a_web_role_is_deaf_when_it_does_not_even_say_that_it_lives(tmp_path: Path, well: bool) -> None:
    with _web(well=well) as port:
        said = probes.web_answers(_installation(tmp_path, port=port), 0, 1)
    assert said.startswith("does not answer: ")
    assert isinstance(said, probes.Deaf) is not well


@pytest.mark.usefixtures("_impatient")
def test_an_nsqd_that_takes_connections_and_says_nothing_is_deaf(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = probes.nsqd_answers(_installation(tmp_path, nsqd=listener.getsockname()[1]), 0, 1)
    assert isinstance(said, probes.Deaf)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("store", "deaf"), [("ok", True), ("does not answer", False)])
def test_a_web_role_whose_live_pages_stand_still_is_deaf_unless_it_waits_for_another(
    tmp_path: Path, store: str, deaf: bool
) -> None:
    parts = {"database:default": "ok", "store": store, "live": "has not looked for 31 s"}

    class NotReady(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(json.dumps({"parts": parts}).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), NotReady)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    said = probes.web_answers(_installation(tmp_path, port=server.server_port), 0, 1)
    server.shutdown()
    serving.join()
    server.server_close()
    assert said.endswith("live has not looked for 31 s")
    assert isinstance(said, probes.Deaf) is deaf
