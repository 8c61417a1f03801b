"""Mail goes out within a bounded time, whatever the mail server does.

``smtplib`` bounds each single wait, which a server that sends a byte a second never exceeds.
"""

from __future__ import annotations

import io
import smtplib
import socket
from collections.abc import Callable
from typing import Any

from django.core.mail.backends.smtp import EmailBackend

from engine.core.clock import SystemClock
from engine.core.http_client import LookUps, resolve

#: The most bytes taken of what one mail server says.
MOST_SAID = 1024 * 1024

_clock = SystemClock()
_look_ups = LookUps(resolve)


class TimedBackend(EmailBackend):
    """Django's own, but ``EMAIL_TIMEOUT`` bounds all that is done on one connection: look-up, TLS, login, letters."""

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        return _TimedSMTPS if self.use_ssl else _TimedSMTP


class _TimedSMTP(smtplib.SMTP):
    _ends = 0.0
    timeout: float

    def connect(self, host: str = "localhost", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        self._ends = _clock.monotonic() + self.timeout
        return super().connect(host, port, source_address)

    def send(self, s: Any) -> None:
        if self.sock:
            # Bounds the whole of what is sent, not each piece of it.
            self.sock.settimeout(self._left())
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock:
            self.file = io.BufferedReader(_Said(self.sock, self._left))
        return super().getreply()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        addresses = _look_ups.find(host, port, self._left())
        failure: OSError | None = None
        for number, address in enumerate(addresses):
            share_s = self._left() / (len(addresses) - number)
            try:
                connection = socket.create_connection((address, port), share_s, self.source_address)
            except OSError as error:
                failure = error
            else:
                connection.settimeout(self._left())
                return connection
        raise failure or OSError(f"{host} has no address")

    def _left(self) -> float:
        left = self._ends - _clock.monotonic()
        if left <= 0:
            raise TimeoutError(f"the mail server took longer than the {self.timeout:g} s it may take")
        return left


class _TimedSMTPS(smtplib.SMTP_SSL, _TimedSMTP):
    """TLS from the first byte; the socket that it wraps is the timed one's."""


class _Said(io.RawIOBase):
    """What the server says, as ``smtplib`` reads it."""

    def __init__(self, connection: socket.socket, left: Callable[[], float]) -> None:
        self._connection = connection
        self._left = left
        self._room = MOST_SAID

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._left())
        taken = self._connection.recv_into(buffer)
        self._room -= taken
        if self._room < 0:
            raise OSError(f"the mail server says more than {MOST_SAID:,} bytes")
        # STARTTLS shakes hands under the timeout that was set last.
        self._connection.settimeout(self._left())
        return taken
