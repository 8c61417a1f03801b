"""Webhooks lead outside, at save and at every connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from pytest_django import Settings

from engine.core.errors import BadInput
from engine.core.http_client import Resolve, UncallableAddress
from hbus_console import outgoing as webhooks

PUBLIC = "93.184.216.34"


def leads_to(*addresses: str) -> Resolve:
    return lambda host, port: list(addresses)


def unknown(host: str, port: int) -> list[str]:
    raise OSError("no such host")


class Hanging:
    """A resolver that answers when it is told to, and then with an inner address."""

    def __init__(self) -> None:
        self.answer = threading.Event()

    def __call__(self, host: str, port: int) -> list[str]:
        self.answer.wait(20)
        return ["127.0.0.1"]


@pytest.mark.parametrize("url", ["https://partner.example/hooks?x=1", " http://partner.example:8080/ "])
def test_a_public_address_is_taken(url: str) -> None:
    assert webhooks.check_url(url, look_up=leads_to(PUBLIC)) == url.strip()


@pytest.mark.parametrize(
    "url",
    [
        "https://münchen.example/",
        "https://a.example./",
        "https://my_host/",
        "https://[2606:4700::1]/",
        "https://xn--mnchen-3ya.example/",
        "https://a.xn--a.example/",
    ],
)
def test_what_the_client_and_the_system_can_call_is_taken(url: str) -> None:
    assert webhooks.check_url(url, look_up=leads_to(PUBLIC)) == url


def test_a_host_that_is_no_name_is_a_connection_that_fails() -> None:
    with webhooks.client(1.0) as http, pytest.raises(httpx.ConnectError):
        http.post("https://partner..example/hook")


def test_a_name_that_does_not_resolve_yet_is_taken() -> None:
    assert webhooks.check_url("https://soon.example/", look_up=unknown)


def test_a_name_that_does_not_resolve_soon_is_taken_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "LOOK_UP_S", 0.05)
    resolver = Hanging()
    assert webhooks.check_url("https://partner.example/", look_up=resolver)
    resolver.answer.set()


def test_a_call_does_not_wait_for_a_resolver_that_hangs() -> None:
    resolver = Hanging()
    with webhooks.client(0.05, look_up=resolver) as http, pytest.raises(httpx.ConnectTimeout):
        http.post("https://partner.example/")
    resolver.answer.set()


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a.example/", "https:///x", "https://u:p@a.example/", "https://a.example/#x", "https://a b/",
     "a.example", "https://a.example:99999/", "https://a.example:0/", "https://partner..example/hook", "https://.a/",
     f"https://{'a' * 64}.example/", "https://[v1.x]/", f"https://{'ä' * 64}.example/",
     "https://[::1", "https://a.example/" + "x" * 500, 7,
     "http://xn--a/", "http://XN--A/", "https://xn--/", "https://xn--xn--/", "https://xn--n3h.example/"],
)  # fmt: skip
def test_a_malformed_address_is_refused_at_its_field(url: object) -> None:
    with pytest.raises(BadInput) as refused:
        webhooks.check_url(url, look_up=leads_to(PUBLIC))
    assert refused.value.field == "webhook_url"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::",
     "::127.0.0.1", "64:ff9b:1::7f00:1", "::ffff:0:127.0.0.1", "fec0::1", "5f00::1", "192.88.99.1",
     "192.0.0.192", "168.63.129.16", "3fff::1"],
)  # fmt: skip
def test_an_inner_address_is_refused_by_default(address: str, settings: Settings) -> None:
    with pytest.raises(webhooks.ForbiddenTarget, match="not a public address"):
        webhooks.check_url("https://partner.example/", look_up=leads_to(PUBLIC, address))
    settings.HBUS_WEBHOOK_PRIVATE = True
    assert webhooks.check_url("https://partner.example/", look_up=leads_to(address))


def test_a_refusal_tells_nobody_which_address_a_name_has_inside_and_the_log_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(webhooks.ForbiddenTarget) as refused:
        webhooks.check_url("https://vault.internal/", look_up=leads_to("10.7.8.9"))
    assert refused.value.what == "vault.internal leads to what is not a public address."
    assert "10.7.8.9" not in str(refused.value)
    assert "10.7.8.9" in caplog.text
    with pytest.raises(webhooks.ForbiddenTarget, match=r"^10\.7\.8\.9 is not a public address"):
        webhooks.check_url("https://10.7.8.9/", look_up=leads_to("10.7.8.9"))
    with webhooks.client(2, look_up=leads_to("10.7.8.9")) as http, pytest.raises(webhooks.ForbiddenTarget) as refused:
        http.post("http://vault.internal/")
    assert "10.7.8.9" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://xn--a/", "http://xn--xn--/"])
def test_a_host_that_no_client_can_call_is_a_failure_of_the_call(url: str) -> None:
    """Such addresses were saved."""
    with webhooks.client(1.0) as http, pytest.raises(UncallableAddress, match="names no host that can be called"):
        http.post(url)


@pytest.fixture
def receiver() -> Iterator[HTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(302 if self.path == "/away" else 204)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_name_that_has_moved_inside_is_stopped_at_the_connection(receiver: HTTPServer) -> None:
    with (
        webhooks.client(2, look_up=leads_to("127.0.0.1")) as client,
        pytest.raises(webhooks.ForbiddenTarget),
    ):
        client.post(f"http://partner.example:{receiver.server_port}/")


def test_the_checked_address_is_the_one_connected_to(receiver: HTTPServer, settings: Settings) -> None:
    settings.HBUS_WEBHOOK_PRIVATE = True
    with webhooks.client(2, look_up=leads_to("127.0.0.1")) as client:
        assert client.post(f"http://partner.example:{receiver.server_port}/").status_code == 204


def test_a_redirect_is_not_followed(receiver: HTTPServer, settings: Settings) -> None:
    settings.HBUS_WEBHOOK_PRIVATE = True
    with webhooks.client(2, look_up=leads_to("127.0.0.1")) as client:
        assert client.post(f"http://partner.example:{receiver.server_port}/away").status_code == 302


def test_a_name_without_address_is_a_connection_error() -> None:
    with webhooks.client(2, look_up=unknown) as client, pytest.raises(httpx.ConnectError, match="does not resolve"):
        client.post("http://partner.example/")
