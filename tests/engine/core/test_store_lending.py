"""Connections to the store are kept between commands, and none is kept that should not be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from engine.core.errors import OutOfConnections
from engine.core.scripts import ScriptFolder
from engine.core.store import open_client
from engine.core.store.failures import NoConnectionLeft, Refused
from engine.core.store.link import Link
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def link(own_store: StandaloneStore) -> Iterator[Link]:
    made = Link.open(own_store.url)
    yield made
    made.close()


@pytest.fixture
def server(own_store: StandaloneStore) -> Iterator[redis.Redis]:
    """The store, as another client sees it."""
    client = redis.Redis.from_url(own_store.url)
    yield client
    client.close()


def _connected(server: redis.Redis) -> set[int]:
    return {int(each["id"]) for each in server.client_list()}


def test_a_command_goes_out_on_the_connection_of_the_last_one(link: Link) -> None:
    assert link.command("CLIENT", "ID") == link.command("CLIENT", "ID")


def test_one_that_the_server_has_closed_is_replaced_before_a_command_is_lost(link: Link, server: redis.Redis) -> None:
    first = link.command("CLIENT", "ID")
    server.client_kill_filter(_id=first)
    assert link.command("CLIENT", "ID") != first


def test_those_of_two_conversations_at_once_are_two_and_both_are_kept(link: Link, server: redis.Redis) -> None:
    with link.conversation("a") as one, link.conversation("a") as other:
        for each in (one, other):
            each.send(("CLIENT", "ID"))
        ids = {one.answer(), other.answer()}
    assert len(ids) == 2
    assert ids <= _connected(server)
    assert link.command("CLIENT", "ID") in ids


def test_one_that_owes_an_answer_is_never_used_again(link: Link) -> None:
    first = link.command("CLIENT", "ID")
    with link.conversation("a") as conversation:
        conversation.send(("ECHO", "nobody reads this"))
    assert link.command("ECHO", "mine") == b"mine"
    assert link.command("CLIENT", "ID") != first


def test_closing_closes_them_and_a_later_command_opens_one(link: Link, server: redis.Redis) -> None:
    first = link.command("CLIENT", "ID")
    link.close()
    assert first not in _connected(server)
    assert link.command("CLIENT", "ID") != first


def test_when_the_store_is_no_primary_any_more_those_that_nobody_uses_are_closed(
    link: Link, server: redis.Redis
) -> None:
    with link.conversation("a") as one, link.conversation("a") as other:
        for each in (one, other):
            each.send(("CLIENT", "ID"))
        ids = {one.answer(), other.answer()}
    server.replicaof("127.0.0.1", "1")  # type: ignore[no-untyped-call]
    with pytest.raises(Refused):
        link.command("SET", "a", 1)
    # Redis-py closes what it speaks through only behind Sentinels.
    assert len(ids & _connected(server)) == 1


def test_a_forked_child_speaks_through_a_connection_of_its_own(link: Link) -> None:
    mine = link.command("CLIENT", "ID")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(link.command("CLIENT", "ID")).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    its = int(os.read(reading, 20))
    os.close(reading)
    os.close(writing)
    assert its != mine
    assert link.command("CLIENT", "ID") == mine


def test_more_threads_than_redis_py_foresees_may_ask_at_once(link: Link) -> None:
    with ExitStack() as stack:
        conversations = [stack.enter_context(link.conversation("a")) for _ in range(120)]
        for each in conversations:
            each.send(("CLIENT", "ID"))
        assert len({each.answer() for each in conversations}) == 120


def test_connections_that_are_all_in_use_are_told_as_that_and_not_as_a_store_that_is_away(
    own_store: StandaloneStore,
) -> None:
    url = f"{own_store.url}?max_connections=1"
    link = Link.open(url)
    with link.conversation("a"), pytest.raises(NoConnectionLeft) as refused:
        link.command("PING", at="a")
    assert "all 1 connections that this process may open for this are in use" in refused.value.what
    assert "max_connections=" in refused.value.remedy
    assert "cannot be reached" not in str(refused.value)
    assert "Make sure that it runs" not in str(refused.value)
    assert link.command("ECHO", "free again", at="a") == b"free again"
    link.close()

    client = open_client(url)
    folder = Path(__file__).parents[3] / "engine" / "bus" / "consuming" / "lua"
    held = client.connection_pool.get_connection()
    with pytest.raises(OutOfConnections, match="all 1 connections that this process may open"):
        ScriptFolder(client, folder).call("breaker_read", ["{a}:breaker"], [""])
    client.connection_pool.release(held)
    client.close()


def test_a_server_that_takes_no_more_is_told_as_that_and_what_is_open_stays_in_use(
    own_store: StandaloneStore, link: Link, server: redis.Redis
) -> None:
    mine = link.command("CLIENT", "ID")
    server.config_set("maxclients", 2)
    with link.conversation("a"), pytest.raises(NoConnectionLeft) as refused:
        link.command("PING", at="a")
    assert "takes no more connections: as many as its maxclients allows are open" in refused.value.what
    assert "raise its maxclients" in refused.value.remedy
    assert link.command("CLIENT", "ID") == mine

    client = open_client(own_store.url)
    folder = Path(__file__).parents[3] / "engine" / "bus" / "consuming" / "lua"
    with pytest.raises(OutOfConnections, match="its maxclients allows"):
        ScriptFolder(client, folder).call("breaker_read", ["{a}:breaker"], [""])
    client.close()
