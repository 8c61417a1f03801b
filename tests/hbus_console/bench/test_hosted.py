"""What idle subscriptions cost the process that hosts them: a figure in every cell, for each number asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hbus_console.bench import hosted
from hbus_console.bench.rig import Rig
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def rig(own_store: StandaloneStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(hosted, "SETTLE_S", 0.0)
    made = Rig(tmp_path, own_store, count=1, peer_count=1, samples=1)
    yield made
    made.close()


def test_each_subscription_has_its_threads_and_its_connection(rig: Rig) -> None:
    head, line = hosted.lines(rig, [4], 0.5)
    assert len(head) == len(line) == 8
    number, threads, connections, memory, _, _, commands, read_s = [float(cell.replace(",", "")) for cell in line]
    assert number == 4
    # Four handlers, and who reads, settles and renews.
    assert threads >= 4 * 7
    assert connections >= 4
    assert min(memory, commands, read_s) > 0
    assert "watched for 0.5 s" in hosted.conditions(rig, 0.5)


def test_what_does_not_come_to_read_is_an_error_and_no_figure(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "END", "hbus_console.bench.no_such_program")
    with pytest.raises(RuntimeError, match="instead of 'ready'"):
        list(hosted.lines(rig, [1], 0.5))
