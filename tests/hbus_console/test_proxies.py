"""Whose word about a request's origin is believed, by the server itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from engine.core.errors import ConfigurationError
from hbus_console.accounts.throttle import FREE
from hbus_console.proxies import trusted_proxies
from hbus_console.supervisor.web import config
from tests.installation import RunningInstallation, free_port

FORGED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}


async def _origin(scope: Any, receive: Any, send: Any) -> None:
    """Answers where the request seems to come from."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps([scope["client"][0], scope["scheme"]]).encode()})


@contextmanager
def _served(proxies: tuple[str, ...], settings: Any) -> Iterator[str]:
    async def turned() -> None: ...

    settings.PORT = free_port()
    server = uvicorn.Server(config(_origin, proxies, turned))
    serving = threading.Thread(target=server.run)
    up = threading.Event()
    startup = server.startup

    async def told(*given: Any, **named: Any) -> None:
        await startup(*given, **named)
        up.set()

    server.startup = told  # type: ignore[method-assign]
    serving.start()
    try:
        assert up.wait(10)
        yield f"http://127.0.0.1:{settings.PORT}"
    finally:
        server.should_exit = True
        serving.join(10)


@pytest.mark.parametrize(
    ("proxies", "origin"),
    [
        ((), ["127.0.0.1", "http"]),
        (("10.0.0.0/24",), ["127.0.0.1", "http"]),
        (("127.0.0.1",), ["203.0.113.9", "https"]),
        (("127.0.0.0/8",), ["203.0.113.9", "https"]),
    ],
)
def test_only_named_proxies_say_for_whom_they_ask(proxies: tuple[str, ...], origin: list[str], settings: Any) -> None:
    with _served(proxies, settings) as url:
        assert httpx.get(url, headers=FORGED).json() == origin


def test_of_what_a_proxy_tells_the_last_address_counts_that_is_no_proxy(settings: Any) -> None:
    with _served(("127.0.0.1",), settings) as url:
        told = httpx.get(url, headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.9, 127.0.0.1"}).json()
    assert told[0] == "203.0.113.9"


@pytest.mark.parametrize(
    "word", ["*", "proxy.example", "10.0.0.7/24", "0.0.0.0/0", "::/0", "0.0.0.0/1", "127.0.0.1:80"]
)
def test_what_is_no_proxy_is_refused(word: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        trusted_proxies(["10.0.0.1", word])
    assert refused.value.field == "HBUS_TRUSTED_PROXIES"
    assert word in refused.value.what


def test_addresses_and_networks_are_taken() -> None:
    assert trusted_proxies(["10.0.0.1", "10.1.0.0/24", "::1"]) == ("10.0.0.1", "10.1.0.0/24", "::1")


@pytest.mark.chaos
@pytest.mark.xdist_group("installation")
def test_a_guesser_has_one_address_whatever_they_write(tmp_path: Path, prepared: Path) -> None:
    installation = RunningInstallation(tmp_path / "state", roles="web", template=prepared).start()
    try:
        with httpx.Client(base_url=installation.url, timeout=15) as client:
            client.get("/login/")
            (token,) = client.cookies.values()
            form = {"username": "admin", "password": "wrong", "csrfmiddlewaretoken": token}
            answers = [
                client.post("/login/", data=form, headers={"X-Forwarded-For": f"203.0.113.{number}"}).status_code
                for number in range(FREE + 3)
            ]
            # The one that begins the wait is answered with it.
            assert answers == [401] * (FREE - 1) + [429] * 4
            assert client.get("/metrics").status_code == 200
            assert client.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401
        code = (
            "from hbus_console.audit.models import AuditEntry\n"
            "print({entry.address for entry in AuditEntry.objects.filter(action__startswith='session.')})"
        )
        booked = installation.manage("shell", "-c", code)
        assert "203.0.113" not in booked.stdout
        assert "127.0.0.1" in booked.stdout, booked.stderr
    finally:
        installation.end()
