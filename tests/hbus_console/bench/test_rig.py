"""How a row is measured, and what it says when it cannot be."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConfigurationError
from hbus_console.bench import beside_nsq
from hbus_console.bench.beside_redis import RedisWork
from hbus_console.bench.rig import PREFIX, Rig
from hbus_console.supervisor import nsqd
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def rig(own_store: StandaloneStore, tmp_path: Path) -> Rig:
    return Rig(tmp_path, own_store, count=1_000, peer_count=1, samples=1)


def test_processes_share_the_work(rig: Rig) -> None:
    tasks = rig.task("publish", processes=2)
    assert [(task["count"], task["name"]) for task in tasks] == [(500, "bench-0"), (500, "bench-1")]


def test_without_nsqd_both_sides_of_its_rows_are_missing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> Path:
        raise ConfigurationError("There is no nsqd.")

    monkeypatch.setattr(nsqd, "build", refuse)
    for each in beside_nsq.measurements(rig):
        row = each.measure()
        assert (row.ours, row.theirs, row.ratio, row.holds) == (None, None, None, None)
        assert row.peer.endswith(": There is no nsqd.")


def test_both_sides_of_nsq_do_all_of_the_work(rig: Rig) -> None:
    try:
        rig.nsqd  # noqa: B018 - started here
    except ConfigurationError as error:
        pytest.skip(f"no nsqd: {error}")
    try:
        for each in beside_nsq.measurements(rig):
            row = each.measure()
            assert row.ours is not None
            assert row.theirs is not None
            assert row.ratio == pytest.approx(row.ours / row.theirs)
        left = [
            channel for topic in _topics(rig) if topic["topic_name"].startswith("raw") for channel in topic["channels"]
        ]
        # One was only published to, the other read to its end.
        assert sorted(channel["depth"] + channel["in_flight_count"] for channel in left) == [0, 1_000]
    finally:
        rig.nsqd.kill()


def _topics(rig: Rig) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{rig.nsqd.url}/stats?format=json", timeout=5) as answer:
        found: list[dict[str, Any]] = json.load(answer)["topics"]
    return found


def test_a_count_that_is_no_multiple_of_a_batch_is_published_as_it_is(
    own_store: StandaloneStore, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, own_store, count=1_234, peer_count=1, samples=1)
    assert RedisWork(rig).publish().rate() > 0
    (stats,) = [key for key in rig.client.keys(f"{PREFIX}:*") if b"stats" in key]
    assert rig.client.hget(stats, "published") == b"1234"
