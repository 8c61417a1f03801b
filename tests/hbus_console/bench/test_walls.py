"""Where the time of a message goes: a figure in every cell, and steps that add up to what a script does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hbus_console.bench import walls
from hbus_console.bench.rig import Rig
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def rig(own_store: StandaloneStore, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, own_store, count=1_000, peer_count=1, samples=1)
    yield made
    made.close()


@pytest.mark.whole
def test_every_way_has_its_costs_and_its_peer_s(rig: Rig) -> None:
    head, *lines = walls.paths(rig)
    assert len(head) == 7
    assert len(lines) in (7, 11)
    for what, wall, process, _, *theirs in lines:
        if not what.startswith("NSQ:"):
            assert float(wall) > 0, what
            assert float(process) > 0, what
            assert float(theirs[0]) > 0, what


def test_only_the_ways_that_are_asked_for_are_gone(rig: Rig) -> None:
    _, *lines = walls.paths(rig, "One By One")
    assert [line[0] for line in lines if not line[0].startswith("NSQ:")] == ["publish one by one"]


def test_steps_leave_nothing_behind_and_the_log_as_it_was(rig: Rig) -> None:
    head, *lines = walls.steps(rig)
    assert [len(line) for line in (head, *lines)] == [3] * 9
    assert rig.client.config_get("appendonly") == {"appendonly": "yes"}
    # What was acknowledged and dropped last.
    assert rig.client.zcard("leases") == 0
    assert rig.client.xpending("s", "g")["pending"] == 0
