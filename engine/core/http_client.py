"""An HTTP client for calls to strangers: each ends in time and takes little, whatever the other side does.

What a timeout of the lower layers bounds is a single wait, which a receiver that sends a byte a second never exceeds.
Here all waits of one call share the time that the call has: the look-up of the name, the connection, TLS, the request
and the answer.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpcore
import httpx

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of

Resolve = Callable[[str, int], list[str]]

#: The most bytes taken of one answer, head and body.
MOST_ANSWER = 256 * 1024


class UncallableAddress(httpx.RequestError):
    """The address names no host that could be called: another try would end the same."""


def check_host(url: str) -> None:
    """Raises ``ValueError`` or ``httpx.InvalidURL`` when the client or the system would refuse it at the call."""
    address = httpx.URL(url)
    # They know labels and literals, and the client reads labels back that begin with xn--.
    _ = address.host
    address.raw_host.decode("ascii").encode("idna")


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host name; raises ``OSError`` when there are none, ``UnicodeError`` for what is no name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def timed_client(
    timeout_s: float,
    *,
    look_up: Resolve = resolve,
    ssl_context: ssl.SSLContext | None = None,
    clock: Clock | None = None,
) -> httpx.Client:
    """A client whose every call ends within ``timeout_s`` and takes at most :data:`MOST_ANSWER`. Thread-safe.

    It connects only to what ``look_up`` gives, follows no redirect and uses no proxy. A call that takes too long raises
    ``httpx.TimeoutException``, an answer that is too long ``httpx.RemoteProtocolError``, an address that names no host
    :class:`UncallableAddress`; what ``look_up`` raises but ``OSError`` and ``UnicodeError`` comes through as it is.
    """
    transport = _TimedTransport(timeout_s, look_up, ssl_context or httpx.create_ssl_context(), clock or SystemClock())
    return _TimedClient(transport=transport, timeout=timeout_s, follow_redirects=False, trust_env=False)


class _TimedClient(httpx.Client):
    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        try:
            return super().build_request(*args, **kwargs)
        except (UnicodeError, httpx.InvalidURL) as error:
            # Which was saved before it was checked.
            raise UncallableAddress(f"the address names no host that can be called: {words_of(error)}") from error


class LookUps:
    """Looks names up aside, for the system's own way knows no timeout. Thread-safe.

    Who asks for what is being looked up waits for the same answer: a resolver that hangs holds one thread for each
    name, however many ask.
    """

    def __init__(self, look_up: Resolve) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[list[str]]] = {}

    def find(self, host: str, port: int, within_s: float) -> list[str]:
        """What the look-up gives or raises; ``TimeoutError`` when that takes longer than ``within_s``."""
        place = host, port
        with self._lock:
            answer = self._running.get(place)
            if answer is None:
                answer = Future()
                threading.Thread(target=self._run, args=(place, answer), name=f"look-up {host}", daemon=True).start()
                self._running[place] = answer
        return answer.result(within_s)

    def _run(self, place: tuple[str, int], answer: Future[list[str]]) -> None:
        found: list[str] | Exception
        try:
            found = self._look_up(*place)
        except Exception as error:  # noqa: BLE001
            # Whatever it is, it belongs to those who wait.
            found = error
        with self._lock:
            # Before it is answered: who asks from then on asks anew.
            del self._running[place]
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)


class Allowance(float):
    """What one call may still take: passed down as the timeout of each wait, whose true bound is :meth:`left`."""

    def __new__(cls, seconds: float, clock: Clock) -> Allowance:
        made = super().__new__(cls, seconds)
        made._clock = clock
        made._ends = clock.monotonic() + seconds
        made._room = MOST_ANSWER
        return made

    _clock: Clock
    _ends: float
    _room: int

    def left(self, late: type[httpcore.TimeoutException]) -> float:
        """The seconds left; raises ``late`` when there are none."""
        seconds = self._ends - self._clock.monotonic()
        if seconds <= 0:
            raise late
        return seconds

    def took(self, data: bytes) -> bytes:
        """``data``, which is part of the answer; raises when that becomes too long."""
        self._room -= len(data)
        if self._room < 0:
            raise httpcore.RemoteProtocolError(f"the answer is longer than {MOST_ANSWER:,} bytes")
        return data


def _allowance(timeout: float | None) -> Allowance:
    assert isinstance(timeout, Allowance)
    return timeout


class TimedStream(httpcore.NetworkStream):
    """A connection whose every wait ends with the call's allowance."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        allowed = _allowance(timeout)
        data = self._inner.read(max_bytes, allowed.left(httpcore.ReadTimeout))
        # What came while this thread was not let run has come too late all the same.
        allowed.left(httpcore.ReadTimeout)
        return allowed.took(data)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        allowed, connection = _allowance(timeout), self._inner.get_extra_info("socket")
        # Not the inner one's: it waits anew for every piece that the receiver takes.
        while buffer:
            connection.settimeout(allowed.left(httpcore.WriteTimeout))
            try:
                sent = connection.send(buffer)
            except TimeoutError as error:
                raise httpcore.WriteTimeout(words_of(error)) from error
            except OSError as error:
                raise httpcore.WriteError(words_of(error)) from error
            buffer = buffer[sent:]

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _allowance(timeout).left(httpcore.ConnectTimeout)
        return TimedStream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _TimedBackend(httpcore.SyncBackend):
    """Connects to what was looked up: no second look-up can come between."""

    def __init__(self, look_up: Resolve) -> None:
        self._look_ups = LookUps(look_up)

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **kwargs: Any
    ) -> httpcore.NetworkStream:
        allowed = _allowance(timeout)
        addresses = self._find(host, port, allowed)
        failure: Exception | None = None
        for number, address in enumerate(addresses):
            # An address that swallows everything leaves the next ones their share.
            share_s = allowed.left(httpcore.ConnectTimeout) / (len(addresses) - number)
            try:
                return TimedStream(super().connect_tcp(address, port, share_s, *args, **kwargs))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def _find(self, host: str, port: int, allowed: Allowance) -> list[str]:
        left = allowed.left(httpcore.ConnectTimeout)
        try:
            return self._look_ups.find(host, port, left)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout from error
        except (OSError, UnicodeError) as error:
            # UnicodeError: no name of a host at all, which was saved before that was checked.
            raise httpcore.ConnectError(f"{host} does not resolve: {words_of(error)}") from error


class _TimedTransport(httpx.HTTPTransport):
    def __init__(self, timeout_s: float, look_up: Resolve, ssl_context: ssl.SSLContext, clock: Clock) -> None:
        super().__init__(verify=ssl_context, trust_env=False)
        self._timeout_s = timeout_s
        self._clock = clock
        # As many connections as there are callers, who are counted elsewhere.
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context,
            max_connections=None,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_TimedBackend(look_up),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        allowed = Allowance(self._timeout_s, self._clock)
        request.extensions = {
            **request.extensions,
            "timeout": dict.fromkeys(("connect", "read", "write", "pool"), allowed),
        }
        try:
            return super().handle_request(request)
        except httpx.TimeoutException as error:
            raise type(error)(f"the call took longer than the {self._timeout_s:g} s it may take") from error
