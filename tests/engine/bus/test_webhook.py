"""The webhook handler against a real HTTP server."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from engine.bus.context import Context
from engine.bus.errors import RetryLater, Unrecoverable
from engine.bus.message import Message, decode
from engine.bus.webhook import WebhookFailed, WebhookHandler, check_url
from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from engine.core.redaction import shown_url
from engine.core.signing import retry_after_s
from tests.strangers import dripping, stranger

SECRET = "s3cret-of-the-partner"


class Partner(ThreadingHTTPServer):
    """Answers what the test says and remembers what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status = 200
        self.phrase: str | None = None
        self.headers: dict[str, str] = {}
        self.body = b"secret words of the partner"
        self.hang = threading.Event()
        self.hang.set()
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Answer(BaseHTTPRequestHandler):
    server: Partner

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))
        self.server.hang.wait(10)
        self.send_response(self.server.status, self.server.phrase)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def partner() -> Iterator[Partner]:
    server = Partner()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.hang.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_790_000_000_000)


@pytest.fixture
def hook(partner: Partner, clock: ManualClock) -> Iterator[WebhookHandler]:
    made = WebhookHandler(partner.url, SECRET, 5.0, clock=clock)
    yield made
    made.close()


MESSAGE = Message(
    id="1",
    source="/s",
    type="booking.created",
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    data=msgspec.Raw(b'{"n":1}'),
    extensions={"tenant": "acme"},
)


def call(hook: WebhookHandler) -> Context:
    context = Context(MESSAGE, topic="booking.created", group="partner", attempt=2, delivered_ms=0)
    hook(MESSAGE, context)
    return context


def test_the_signed_envelope_arrives(hook: WebhookHandler, partner: Partner) -> None:
    context = call(hook)
    ((headers, body),) = partner.got
    assert decode(body) == MESSAGE
    assert headers["Content-Type"] == "application/cloudevents+json"
    expected = hmac.new(SECRET.encode(), b"1790000000." + body, hashlib.sha256).hexdigest()
    assert headers["X-Hbus-Signature"] == f"t=1790000000,v1={expected}"
    assert (headers["X-Hbus-Topic"], headers["X-Hbus-Subscription"], headers["X-Hbus-Attempt"]) == (
        "booking.created",
        "partner",
        "2",
    )
    assert headers["Traceparent" if "Traceparent" in headers else "traceparent"] == str(context.trace)


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_2xx_settles(hook: WebhookHandler, partner: Partner, status: int) -> None:
    partner.status, partner.body = status, b""
    call(hook)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_client_errors_are_final(hook: WebhookHandler, partner: Partner, status: int) -> None:
    partner.status = status
    partner.phrase = "by its own words"
    with pytest.raises(Unrecoverable, match=rf"answered {status} {HTTPStatus(status).phrase}$"):
        call(hook)


@pytest.mark.parametrize("status", [301, 302, 408, 425, 429, 500, 502, 503])
def test_others_are_tried_again(hook: WebhookHandler, partner: Partner, status: int) -> None:
    partner.status = status
    partner.headers = {"Location": "http://127.0.0.1:1/elsewhere"} if status < 400 else {}
    with pytest.raises(WebhookFailed, match=f"answered {status}"):
        call(hook)
    assert len(partner.got) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("120", 120.0), ("Mon, 21 Sep 2026 14:14:20 GMT", 60.0), ("Mon, 21 Sep 2020 14:14:20 GMT", 0)],
)
def test_retry_after_is_honoured(hook: WebhookHandler, partner: Partner, value: str, seconds: float) -> None:
    partner.status, partner.headers = 429, {"Retry-After": value}
    with pytest.raises(RetryLater) as asked:
        call(hook)
    assert asked.value.seconds == seconds


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5", "²"])
def test_an_unusable_retry_after_is_ignored(value: str) -> None:
    assert retry_after_s(value, datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_a_slow_receiver_is_given_up_and_tried_again(partner: Partner) -> None:
    partner.hang.clear()
    hook = WebhookHandler(partner.url, SECRET, 0.05)
    with pytest.raises(WebhookFailed, match="ReadTimeout"):
        call(hook)
    hook.close()


def test_a_receiver_that_drips_is_given_up_when_the_calls_time_is_over(clock: ManualClock) -> None:
    drip = dripping(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"\r\nContent-Length: 0\r\n\r\n", partial(clock.advance, 1))
    with stranger(drip) as port:
        hook = WebhookHandler(f"http://127.0.0.1:{port}/hook", SECRET, 5.0, clock=clock)
        with pytest.raises(WebhookFailed, match=r"(Read|Write)Timeout: the call took longer than the 5 s it may take"):
            call(hook)
        hook.close()


def test_an_absent_receiver_is_tried_again(partner: Partner) -> None:
    hook = WebhookHandler("http://127.0.0.1:1/hook", SECRET, 1.0)
    with pytest.raises(WebhookFailed, match="ConnectError"):
        call(hook)
    hook.close()


def test_an_address_that_nobody_can_call_is_not_tried_again() -> None:
    hook = WebhookHandler("http://xn--a/hook?key=s3cret", SECRET)
    with pytest.raises(Unrecoverable, match="names no host that can be called") as raised:
        call(hook)
    assert "s3cret" not in str(raised.value)
    hook.close()


def test_neither_the_secret_nor_the_answers_body_shows_anywhere(hook: WebhookHandler, partner: Partner) -> None:
    texts = [repr(hook), str(hook)]
    for status in (500, 410, 302):
        partner.status = status
        with pytest.raises((WebhookFailed, Unrecoverable)) as raised:
            call(hook)
        texts += [str(raised.value), repr(raised.value)]
    assert partner.url in texts[0]
    assert not any(SECRET in text or "secret words" in text for text in texts)


def test_a_key_in_the_address_is_sent_and_shows_nowhere(partner: Partner) -> None:
    texts = []
    for url in (f"{partner.url}?key=s3cret", "http://127.0.0.1:1/hook?key=s3cret"):
        hook = WebhookHandler(url, SECRET, 1.0)
        partner.status = 500
        with pytest.raises(WebhookFailed) as raised:
            call(hook)
        texts += [repr(hook), str(raised.value)]
        hook.close()
    assert len(partner.got) == 1
    assert partner.url in texts[1]
    assert not any("s3cret" in text for text in texts)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://partner.example/in", "https://partner.example/in"),
        ("https://user:pw@partner.example:8443/in?key=s3cret#part", "https://partner.example:8443/in"),
        ("https://hooks.example/services/T024BE7LD/x7Qk9w", "https://hooks.example/services/…/…"),
        ("https://hooks.example/v1/hbus-in/abcdefghijklmnop", "https://hooks.example/v1/hbus-in/…"),
        ("http://[x?key=s3cret", "an address that cannot be read"),
        ("", ""),
    ],
)
def test_addresses_are_shown_without_keys(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "url",
    ["ftp://x/y", "file:///etc/passwd", "example.org/hook", "http://", "http://user:pw@example.org/", "http://[x"],
)
def test_only_plain_http_addresses_are_taken(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_url(url)
    assert refused.value.field == "url"
    assert "pw" not in str(refused.value)


def test_secret_and_timeout_are_checked() -> None:
    for field, arguments in (("secret", ("", 1.0)), ("timeout_s", (SECRET, 0.0)), ("timeout_s", (SECRET, 301.0))):
        with pytest.raises(BadInput) as refused:
            WebhookHandler("https://example.org/", *arguments)  # type: ignore[arg-type]
        assert refused.value.field == field
