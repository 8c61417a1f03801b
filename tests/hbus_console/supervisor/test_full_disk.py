"""The embedded store on a disk that is really full, under the supervisor."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from hbus_console import remembered
from hbus_console.supervisor import state, store
from hbus_console.supervisor.console import Console
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import find
from hbus_console.supervisor.supervisor import Pace, Supervisor
from tests.full_disk import SmallDisk, small_disk

PACE = Pace(probe_first_s=0.05, probe_running_s=0.1, backoff_first_s=0.1, backoff_most_s=0.5)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def test_a_store_that_its_full_disk_ends_is_started_until_there_is_room_and_has_what_it_confirmed(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE", str(disk.folder))
    port = store.free_port()
    (disk.folder / "run").mkdir()
    remembered.remember_store(disk.folder, port)
    at = Installation(disk.folder, "127.0.0.1", 8119, "t", "localhost", "", port)
    said = io.StringIO()
    confirmed = 0

    def write(client: redis.Redis) -> bool:
        nonlocal confirmed
        try:
            client.xadd("stream", {"n": "y" * 500})
        except redis.RedisError:
            return False
        confirmed += 1
        return True

    def seen() -> state.RoleState:
        snapshot = state.read(disk.folder)
        return snapshot.roles[0] if snapshot else state.RoleState("?", 0)

    async def until(true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not true():
            assert time.monotonic() < deadline, said.getvalue()
            await asyncio.sleep(0.02)

    async def scenario() -> None:
        supervisor = Supervisor(at, [(find("store"), 0)], Console(said), pace=PACE)
        running = asyncio.create_task(supervisor.run())
        await until(lambda: seen().state == state.READY)
        with redis.Redis.from_url(at.store_url) as client:
            assert all(write(client) for _ in range(50))
            disk.fill()
            # Each start is well until the first write; the store then ends, for it could not keep its promise.
            await until(lambda: not write(client) and said.getvalue().count("store ended: exit code 1") >= 2)
            disk.make_room()
            await until(lambda: write(client) and seen().state == state.READY)
            assert client.xlen("stream") >= confirmed
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(running, 20) == 0

    asyncio.run(scenario())
    assert said.getvalue().count("What runs cannot be noted in") == said.getvalue().count("What runs is noted again.")
    assert seen().restarts >= 2
