"""The reference client by itself: when permits end, what it does without answers, when it asks, what it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from typing import Any

import pytest

from engine.core.clock import ManualClock
from examples.quota_client.client import QuotaClient


class Console:
    """A server that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.away, self.status = False, 200
        self.answer: dict[str, Any] = {
            "limited": True, "granted": 10, "lifetime_s": 5.0, "again_s": 0.0, "fallback": 2.0, "on_loss": "fallback",
        }  # fmt: skip
        console = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                (want,) = body["wants"]
                console.asked.append(want)
                self.send_response(503 if console.away else console.status)
                self.end_headers()
                if console.status != 200:
                    self.wfile.write(b"no longer valid")
                elif not console.away:
                    self.wfile.write(json.dumps({"allocs": [{"id": want["id"], **console.answer}]}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()


@pytest.fixture
def console() -> Iterator[Console]:
    made = Console()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(console: Console, clock: ManualClock) -> QuotaClient:
    url = f"http://127.0.0.1:{console.server.server_port}"
    return QuotaClient(url, "t", node="n", service="s", resource="r", timeout_s=20.0, clock=clock.monotonic)


def test_a_permit_ends_and_what_is_left_of_it_is_returned_once(
    client: QuotaClient, console: Console, clock: ManualClock
) -> None:
    assert client.allow(3)
    (first,) = console.asked
    clock.advance(4.9)
    assert client.allow()
    clock.advance(0.1)
    console.answer["granted"] = 3
    assert client.allow(2)
    assert (console.asked[1]["returned"], console.asked[1]["returned_of"]) == (6, first["id"])
    clock.advance(5)
    assert client.allow()
    clock.advance(5)
    assert client.allow()
    assert [want["returned"] for want in console.asked] == [0, 6, 1, 2]


def test_before_it_was_answered_it_lets_nothing_through(client: QuotaClient, console: Console) -> None:
    console.away = True
    assert not client.allow()


@pytest.mark.parametrize(("on_loss", "admitted"), [("fallback", 5), ("open", 40), ("closed", 0)])
def test_without_answers_it_does_as_it_was_told_and_says_so_afterwards(
    client: QuotaClient, console: Console, clock: ManualClock, on_loss: str, admitted: int
) -> None:
    console.answer["on_loss"] = on_loss
    assert client.allow(10)
    console.away = True
    had = 0
    for _ in range(40):
        had += client.allow()
        clock.advance(0.05)
    # One to begin with, and two a second.
    assert had == pytest.approx(admitted, abs=1 if on_loss == "fallback" else 0)
    console.away = False
    clock.advance(5.1)
    assert client.allow()
    assert console.asked[-1]["repaid"] == had
    assert not client._away
    clock.advance(5.1)
    assert client.allow()
    assert console.asked[-1]["repaid"] == 0


def test_it_asks_again_now_and_then_under_the_same_id_for_as_long_as_a_permit_lasts(
    client: QuotaClient, console: Console, clock: ManualClock
) -> None:
    assert client.allow(10)
    console.away = True
    at: list[float] = []
    for _ in range(1_500):
        before = len(console.asked)
        client.allow()
        at += [clock.monotonic()] * (len(console.asked) - before)
        clock.advance(0.01)
    pauses = [after - earlier for earlier, after in pairwise(at)]
    assert 0.08 <= pauses[0] <= 0.14
    assert all(later <= 2.0 * 1.2 + 0.02 for later in pauses)
    assert pauses[-1] >= 2.0 * 0.8 - 0.02
    asked = console.asked[1:]
    ids = [want["id"] for want in asked]
    first = [moment for moment, want_id in zip(at, ids, strict=True) if want_id == ids[0]]
    assert len(first) > 3
    assert first[-1] - first[0] <= 5.0
    assert len(set(ids)) > 1
    # What the one that nobody answered said was repaid, the next says again.
    assert asked[-1]["repaid"] >= asked[0]["repaid"]


def test_it_waits_as_long_as_it_is_told_to(client: QuotaClient, console: Console, clock: ManualClock) -> None:
    console.answer |= {"granted": 0, "again_s": 1.0}
    assert not client.allow()
    for _ in range(7):
        clock.advance(0.1)
        assert not client.allow()
    assert len(console.asked) == 1
    clock.advance(0.5)
    assert not client.allow()
    assert len(console.asked) == 2


def test_who_is_refused_spends_nothing_alone_and_says_why(
    client: QuotaClient, console: Console, clock: ManualClock
) -> None:
    """Found by a stranger: a revoked token was taken for a control plane that is away, and went on for ever."""
    assert client.allow(10)
    console.status = 401
    for _ in range(5):
        clock.advance(10)
        assert not client.allow()
    assert client.refused == "no longer valid"
    console.status = 200
    clock.advance(10)
    assert client.allow()
    assert client.refused == ""
