"""The real measurement, small: rows of every kind, and what the command says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hbus_console.bench import bus
from hbus_console.bench.rig import Rig, chosen
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore

SMALL = ["--messages", "2000", "--samples", "1", "--no-queues"]


def run(state: Path, *options: str, timeout_s: int = 600) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STATE": str(state), "HBUS_APPS": ""}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    return subprocess.run(
        [sys.executable, "manage.py", "bench", "bus", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


@pytest.fixture
def rig(own_store: StandaloneStore, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, own_store, count=2_000, peer_count=1, samples=1)
    yield made
    made.close()


def test_no_row_is_left_out(rig: Rig) -> None:
    names = [each.what for each in bus.measurements(rig, queues=False)]
    assert len(set(names)) == len(names) == 18
    assert set(KINDS) <= set(names)


#: One row of each way of measuring; the others differ in an argument. Publishing is measured below, in batches and one
#: by one, and NSQ in test_rig.py. CI measures every row at its end.
KINDS = (
    "consume and settle, no-op handler, 2 processes, facts on",
    "consume and settle, 1 process, every message in the ledger",
    "consume and settle, no-op handler, 1 process, order on, 8 partitions, facts on",
    "publish to handler at 200 msg/s",
    "consume and settle, 1 process, beside Watermill with 16 subscribers of one group",
)


@pytest.mark.parametrize("what", KINDS)
def test_a_row_of_each_kind_has_its_figure_and_its_peer_s(rig: Rig, what: str) -> None:
    row = chosen(list(bus.measurements(rig, queues=False)), what)[0].measure()
    assert row.what == what
    assert row.ours is not None
    assert row.ours > 0
    if row.theirs is None:
        # Where there is no Go, there is no Watermill, and the row says so.
        assert "Watermill" in what
        assert "no Go" in row.peer or "be built" in row.peer
    else:
        assert row.theirs > 0
    assert row.unit == "msg/s" or (row.unit == "ms" and (row.p99 or 0) > 0)


def test_only_runs_the_rows_whose_name_contains_the_text(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", "--only", "ONE BY ONE", *SMALL)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == any(row["holds"] is False for row in rows), done.stderr
    assert [row["what"] for row in rows] == ["publish one by one, each confirmed, facts on"]


def test_a_text_that_no_row_contains_is_refused_and_the_rows_are_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "pigeon", *SMALL)
    assert done.returncode == 2
    assert "No row's name contains 'pigeon'" in done.stderr
    assert "publish batched, beside Watermill" in done.stderr
    assert "consume and settle, NSQ" in done.stderr
    assert done.stdout == ""


def test_a_comparison_prints_the_baseline_beside_and_judges_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--compare", "--only", "publish in confirmed batches of 500, 1 process", *SMALL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("what")
    assert "ratio now" in done.stdout.splitlines()[0]
    assert "now:  2,000 messages" in done.stdout
    assert "then: " in done.stdout
