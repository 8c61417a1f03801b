"""Mail goes out, in clear and encrypted, and never for longer than it may take."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.core.mail import EmailMessage

from engine.core.clock import ManualClock
from engine.core.http_client import LookUps
from hbus_console import mail
from tests.strangers import Talk, silent, stranger
from tests.tls_proxy import Certificate, TlsProxy, certificate

LETTER = EmailMessage("Lag", "It lags.", "hbus@localhost", ["a@hotel.example"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(mail, "_clock", made)
    return made


class Server:
    """Speaks as a mail server does. ``before`` comes before each answer."""

    def __init__(self, before: Callable[[], object] = lambda: None, shown: Certificate | None = None) -> None:
        self.letters: list[str] = []
        self._before = before
        self._shown = shown

    def __call__(self, connection: socket.socket) -> None:
        said = self._say(connection, "220 mail.example")
        while said:
            word = said.split(None, 1)[0].upper()
            if word == "DATA":
                self.letters.append(self._say(connection, "354 go on", end="\r\n.\r\n"))
            elif word == "STARTTLS":
                assert self._shown
                self._before()
                connection.sendall(b"220 ready\r\n")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self._shown.path, self._shown.key)
                connection = context.wrap_socket(connection, server_side=True)
                said = self._hear(connection)
                continue
            said = self._say(connection, "250-ok\r\n250 STARTTLS" if self._shown and word == "EHLO" else "250 ok")

    def _say(self, connection: socket.socket, words: str, end: str = "\r\n") -> str:
        self._before()
        connection.sendall(f"{words}\r\n".encode())
        return self._hear(connection, end)

    def _hear(self, connection: socket.socket, end: str = "\r\n") -> str:
        said = ""
        while not said.endswith(end):
            data = connection.recv(65_536)
            if not data:
                return ""
            said += data.decode()
        return said


@contextlib.contextmanager
def serving(talk: Talk, **options: object) -> Iterator[mail.TimedBackend]:
    with stranger(talk) as port:
        yield mail.TimedBackend("localhost", port, timeout=30, **options)


def test_it_is_how_the_house_sends_mail() -> None:
    from hbus_console import settings

    # The tests' own is pytest-django's, which sends nothing.
    assert f"{mail.__name__}.{mail.TimedBackend.__name__}" == settings.EMAIL_BACKEND


def test_a_letter_arrives() -> None:
    server = Server()
    with serving(server) as backend:
        assert backend.send_messages([LETTER]) == 1
    assert "It lags." in server.letters[0]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("mail"), name="DNS:localhost")


def test_a_letter_arrives_under_starttls(shown: Certificate) -> None:
    server = Server(shown=shown)
    with serving(server, use_tls=True) as backend:
        backend.ssl_context = ssl.create_default_context(cafile=shown.path)
        assert backend.send_messages([LETTER]) == 1
    assert "It lags." in server.letters[0]


def test_a_letter_arrives_where_all_is_encrypted(shown: Certificate) -> None:
    server = Server()
    with stranger(server) as port:
        proxy = TlsProxy(port, shown)
        backend = mail.TimedBackend("localhost", proxy.port, timeout=30, use_ssl=True)
        backend.ssl_context = ssl.create_default_context(cafile=shown.path)
        assert backend.send_messages([LETTER]) == 1
        proxy.close()
    assert "It lags." in server.letters[0]


def test_a_server_that_drips_is_given_up_when_the_time_is_over(clock: ManualClock) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"220 ")
        for _ in range(500):
            clock.advance(1)
            connection.sendall(b"x")
        connection.sendall(b"\r\n")
        Server()._hear(connection)
        Server()(connection)

    with serving(drip) as backend, pytest.raises(OSError, match="longer than the 30 s"):
        backend.send_messages([LETTER])


def test_answers_that_come_slowly_one_by_one_share_the_time(clock: ManualClock) -> None:
    server = Server(partial(clock.advance, 9))
    with serving(server) as backend, pytest.raises(OSError, match="longer than the 30 s"):
        backend.send_messages([LETTER])
    assert server.letters == []


def test_a_server_that_speaks_without_end_is_given_up() -> None:
    def endless(connection: socket.socket) -> None:
        for _ in range(4):
            connection.sendall(b"220-and more\r\n" * (mail.MOST_SAID // 14))
        connection.sendall(b"220 that is all\r\n")
        silent(connection)

    with serving(endless) as backend, pytest.raises(smtplib.SMTPServerDisconnected, match="more than 1,048,576 bytes"):
        backend.send_messages([LETTER])


def test_who_never_greets_is_given_up() -> None:
    with stranger(silent) as port, pytest.raises(smtplib.SMTPServerDisconnected):
        mail.TimedBackend("localhost", port, timeout=0.1).send_messages([LETTER])


def test_the_look_up_takes_of_the_time(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(host: str, port: int) -> list[str]:
        clock.advance(30)
        return ["127.0.0.1"]

    monkeypatch.setattr(mail, "_look_ups", LookUps(slow))
    with serving(Server()) as backend, pytest.raises(TimeoutError, match="longer than the 30 s"):
        backend.send_messages([LETTER])
