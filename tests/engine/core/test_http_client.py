"""A call ends in time and takes little, whatever the receiver does."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpcore
import httpx
import pytest

from engine.core.clock import ManualClock
from engine.core.http_client import MOST_ANSWER, Allowance, LookUps, TimedStream, timed_client
from tests.strangers import dripping, silent, stranger
from tests.tls_proxy import TlsProxy, certificate

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#: More than the system takes for somebody who does not read.
LARGE = 32 * 1024 * 1024
PATIENCE_S = 20.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def polite(connection: socket.socket) -> None:
    while connection.recv(65_536):
        connection.sendall(OK)


def test_an_answer_that_drips_is_given_up_when_the_calls_time_is_over(clock: ManualClock) -> None:
    drip = dripping(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"\r\nContent-Length: 0\r\n\r\n", partial(clock.advance, 1))
    with (
        stranger(drip) as port,
        timed_client(5, look_up=here, clock=clock) as http,
        pytest.raises(httpx.ReadTimeout, match="longer than the 5 s it may take"),
    ):
        http.post(f"http://partner.example:{port}/")


class LateStream(httpcore.NetworkStream):
    """Everything comes at once, and its reader is let run only after the call's time is over."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._clock.advance(6)
        return OK


def test_an_answer_that_came_while_its_reader_was_not_let_run_is_too_late(clock: ManualClock) -> None:
    stream = TimedStream(LateStream(clock))
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(100, Allowance(5, clock))
    assert stream.read(100, Allowance(50, clock)) == OK


def test_a_body_that_drips_is_given_up_too(clock: ManualClock) -> None:
    drip = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", b"", partial(clock.advance, 1))
    with (
        stranger(drip) as port,
        timed_client(5, look_up=here, clock=clock) as http,
        pytest.raises(httpx.ReadTimeout),
    ):
        http.post(f"http://partner.example:{port}/")


def test_who_never_answers_is_given_up() -> None:
    with stranger(silent) as port, timed_client(0.1, look_up=here) as http, pytest.raises(httpx.ReadTimeout):
        http.post(f"http://partner.example:{port}/")


def test_who_never_shakes_hands_is_given_up() -> None:
    with stranger(silent) as port, timed_client(0.1, look_up=here) as http, pytest.raises(httpx.ConnectTimeout):
        http.post(f"https://partner.example:{port}/")


def test_a_request_that_is_taken_in_slowly_is_given_up(clock: ManualClock) -> None:
    def slow(connection: socket.socket) -> None:
        # Or the machine takes in the whole of it for a reader that has not begun, and it is the answer that is late.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        taken = 0
        while taken < LARGE and (piece := connection.recv(65_536)):
            clock.advance(1)
            taken += len(piece)
        connection.sendall(OK)
        silent(connection)

    # The time of the call is over while it is sent, or just after its last piece.
    given_up = pytest.raises((httpx.WriteTimeout, httpx.ReadTimeout))
    with stranger(slow) as port, timed_client(5, look_up=here, clock=clock) as http, given_up:
        http.post(f"http://partner.example:{port}/", content=b"x" * LARGE)


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        pytest.param(b"", b"HTTP/1.1 103 Early Hints\r\nX-More: " + b"x" * 8_000 + b"\r\n\r\n", id="hints"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 8_000 + b"\r\n", id="headers"),
    ],
)
def test_an_answer_that_begins_without_end_is_given_up(first: bytes, piece: bytes) -> None:
    def endless(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(first)
        for _ in range(4 * MOST_ANSWER // len(piece)):
            connection.sendall(piece)
        connection.sendall(OK.removeprefix(first))
        silent(connection)

    with (
        stranger(endless) as port,
        timed_client(PATIENCE_S, look_up=here) as http,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        http.post(f"http://partner.example:{port}/")


def test_a_body_without_end_is_given_up() -> None:
    def endless(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (4 * MOST_ANSWER))
        for _ in range(4):
            connection.sendall(b"x" * MOST_ANSWER)
        silent(connection)

    with (
        stranger(endless) as port,
        timed_client(PATIENCE_S, look_up=here) as http,
        pytest.raises(httpx.RemoteProtocolError, match="longer than 262,144 bytes"),
    ):
        http.post(f"http://partner.example:{port}/")


def test_the_look_up_takes_of_the_calls_time(clock: ManualClock) -> None:
    def slow(host: str, port: int) -> list[str]:
        clock.advance(5)
        return ["127.0.0.1"]

    with (
        stranger(polite) as port,
        timed_client(5, look_up=slow, clock=clock) as http,
        pytest.raises(httpx.ConnectTimeout),
    ):
        http.post(f"http://partner.example:{port}/")


def test_each_call_has_its_own_time_also_on_a_connection_that_is_kept(clock: ManualClock) -> None:
    with stranger(polite) as port, timed_client(5, look_up=here, clock=clock) as http:
        for _ in range(3):
            assert http.post(f"http://partner.example:{port}/").status_code == 200
            clock.advance(4)


def test_an_encrypted_call_is_answered_and_its_connection_kept(tmp_path: Path) -> None:
    shown = certificate(tmp_path, name="DNS:partner.example")
    with stranger(polite) as port:
        proxy = TlsProxy(port, shown)
        with timed_client(PATIENCE_S, look_up=here, ssl_context=ssl.create_default_context(cafile=shown.path)) as http:
            for _ in range(2):
                assert http.post(f"https://partner.example:{proxy.port}/").status_code == 200
        assert proxy.encrypted == 1
        proxy.close()


@pytest.fixture
def full() -> Iterator[socket.socket]:
    """A server at 127.0.0.2 that takes no more connections: what is sent there is swallowed."""
    with socket.socket() as server, contextlib.ExitStack() as waiting:
        server.bind(("127.0.0.2", 0))
        server.listen(0)
        for _ in range(3):
            knocking = waiting.enter_context(socket.socket())
            knocking.setblocking(False)
            knocking.connect_ex(server.getsockname())
        yield server


def test_an_address_that_swallows_everything_leaves_the_next_its_share(full: socket.socket) -> None:
    port = full.getsockname()[1]
    with socket.create_server(("127.0.0.1", port)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                polite(connection)

        threading.Thread(target=answer, daemon=True).start()
        with timed_client(3, look_up=lambda *_: ["127.0.0.2", "127.0.0.1"]) as http:
            assert http.post(f"http://partner.example:{port}/").status_code == 200


class Hanging:
    """A resolver that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun = threading.Event()
        self.answer = threading.Event()

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        self.begun.set()
        self.answer.wait(PATIENCE_S)
        return ["127.0.0.1"]


def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    resolver = Hanging()
    with (
        timed_client(0.1, look_up=resolver) as http,
        pytest.raises(httpx.ConnectTimeout, match=r"longer than the 0\.1 s"),
    ):
        http.post("http://partner.example/")
    resolver.answer.set()


def test_many_that_ask_a_hanging_resolver_for_one_name_hold_one_thread() -> None:
    resolver = Hanging()
    look_ups = LookUps(resolver)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            look_ups.find("partner.example", 443, 0.01)
    assert resolver.begun.wait(PATIENCE_S)
    assert resolver.asked == 1
    resolver.answer.set()
    assert look_ups.find("partner.example", 443, PATIENCE_S) == ["127.0.0.1"]


def test_what_a_look_up_raises_comes_through_and_is_not_kept() -> None:
    class Inside(Exception):
        pass

    answers = iter([Inside("inside"), OSError("no such host")])

    def refusing(host: str, port: int) -> list[str]:
        raise next(answers)

    with timed_client(PATIENCE_S, look_up=refusing) as http:
        with pytest.raises(Inside):
            http.post("http://partner.example/")
        with pytest.raises(httpx.ConnectError, match=r"partner\.example does not resolve: no such host"):
            http.post("http://partner.example/")
