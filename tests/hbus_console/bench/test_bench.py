"""A small run of the real measurement: every row is printed, none is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT

SMALL = ["--messages", "2000", "--samples", "1", "--no-queues"]


def run(state: Path, *options: str, timeout_s: int = 240) -> subprocess.CompletedProcess[str]:
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


@pytest.mark.timeout(240)
def test_a_small_run_prints_every_row_with_its_peer(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", *SMALL)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    # A missed goal is exit 1: so small a run judges nothing. Anything else would be a failure of the command.
    assert done.returncode in (0, 1), done.stderr
    assert len(rows) == 18, done.stderr
    # Where there is no Go, there is neither Watermill nor nsqd, and their rows say so.
    without = [row for row in rows if row["theirs"] is None]
    assert all("no Go" in row["peer"] or "be built" in row["peer"] for row in without)
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in rows if row not in without)
    assert [row["what"] for row in rows if "ledger" in row["what"]]
    assert next(row for row in rows if row["unit"] == "ms")["p99"] > 0


def test_only_runs_the_rows_whose_name_contains_the_text(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", "--only", "ONE BY ONE", *SMALL)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["what"] for line in done.stdout.splitlines()] == [
        "publish one by one, each confirmed, facts on"
    ]


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
