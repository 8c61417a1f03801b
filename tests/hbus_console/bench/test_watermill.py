"""Watermill as a peer: the real program on the real store, or a row that says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis

from engine.core.errors import ConfigurationError
from hbus_console.bench.peers import watermill
from hbus_console.bench.rig import Rig
from hbus_console.supervisor import nsqd
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def program() -> Path:
    try:
        return watermill.build()
    except ConfigurationError as error:
        pytest.skip(f"no Watermill: {error}")


def test_it_publishes_and_settles_what_it_is_asked_to(program: Path, own_store: StandaloneStore) -> None:
    client = redis.Redis.from_url(own_store.url)
    assert watermill.publish_rate(program, own_store.url, count=1_000, size=200) > 0
    assert client.xlen("watermill") == 1_000
    body = client.xrange("watermill", count=1)[0][1][b"payload"]
    assert len(body) == 200
    client.flushall()
    assert watermill.consume_rate(program, own_store.url, count=1_000, size=200) > 0
    (group,) = client.xinfo_groups("watermill")
    assert (group["pending"], group["lag"], group["consumers"]) == (0, 0, 16)


def test_without_go_the_row_says_so_beside_our_own_figure(
    own_store: StandaloneStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsqd, "find_go", lambda: None)
    monkeypatch.setattr(watermill, "BINARIES", tmp_path)
    rig = Rig(tmp_path, own_store, count=100, peer_count=1, samples=1)
    row = rig.compared("w", ours=lambda: 5.0, peer="p", theirs=lambda: 1.0, goal=1.5, ready=watermill.build).measure()
    assert (row.ours, row.theirs, row.holds, row.peer) == (5.0, None, None, "p: no Go to build it with")


def test_other_sources_are_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = watermill.binary()
    for name in ("main.go", "go.mod", "go.sum"):
        (tmp_path / name).write_bytes((watermill.SOURCES / name).read_bytes() + b"\n")
    monkeypatch.setattr(watermill, "SOURCES", tmp_path)
    assert watermill.binary() != before


def test_the_name_tells_the_pinned_versions() -> None:
    pins = (watermill.SOURCES / "go.mod").read_text(encoding="utf-8")
    versions = re.findall(r"ThreeDotsLabs/watermill(?:-redisstream)? v(\S+)", pins)
    assert "Watermill {} + redisstream {}".format(*versions) == watermill.NAME
