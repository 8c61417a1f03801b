from __future__ import annotations

import socket
from pathlib import Path

import pytest

from engine.core.errors import ConfigurationError
from hbus_console import remembered
from hbus_console.supervisor import store


def test_the_port_is_chosen_once_and_kept(tmp_path: Path) -> None:
    first = store.choose_port(tmp_path)
    assert store.choose_port(tmp_path) == first == remembered.store_port(tmp_path)


def test_a_free_port_is_none_that_a_connection_opened_meanwhile_could_get() -> None:
    """The server that is to listen there starts seconds later, beside everything that connects."""
    given = set()
    for _ in range(50):
        with socket.socket() as opened:
            opened.bind(("127.0.0.1", 0))
            given.add(opened.getsockname()[1])
    chosen = {store.free_port() for _ in range(50)}
    assert max(chosen) < min(given)
    assert len(chosen) > 40


def test_another_port_is_chosen_when_a_stranger_took_it(tmp_path: Path) -> None:
    first = store.choose_port(tmp_path)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", first))
        stranger.listen()
        second = store.choose_port(tmp_path)
    assert second != first
    assert remembered.store_port(tmp_path) == second


def test_an_installation_that_never_had_one_knows_no_url(tmp_path: Path) -> None:
    assert remembered.store_url(tmp_path) == ""


def test_the_url_leads_to_the_remembered_port(tmp_path: Path) -> None:
    port = store.choose_port(tmp_path)
    assert remembered.store_url(tmp_path).endswith(f"@127.0.0.1:{port}/0")


def test_another_server_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = tmp_path / "redis-server"
    monkeypatch.setenv("HBUS_STORE_BINARY", str(named))
    with pytest.raises(ConfigurationError, match="is no program") as refusal:
        store.find_binary()
    assert refusal.value.field == "HBUS_STORE_BINARY"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    assert store.find_binary() == named
