"""Today's figures beside those in the repository."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import BadInput
from hbus_console.bench import baseline, bus
from hbus_console.bench.rig import Rig
from hbus_console.bench.rows import Row
from hbus_console.supervisor.standalone import StandaloneStore

ROW = Row("bus", "publish", "msg/s", 50_000.0, "redis-py", 100_000.0, 0.5, 0.7, False, 3, "40,000 messages; more")


def test_what_is_saved_is_loaded_again_latencies_and_missing_peers_too(tmp_path: Path) -> None:
    rows = [
        ROW,
        replace(ROW, what="latency", unit="ms", p50=1.5, p99=3.0),
        replace(ROW, what="missing", ours=None, theirs=None, ratio=None, holds=None),
    ]
    file = tmp_path / "made" / "bus.jsonl"
    baseline.save(file, rows, [row.what for row in rows])
    assert list(baseline.load(file).values()) == rows


def test_saving_some_rows_keeps_the_others_in_the_table_s_order_and_forgets_what_is_measured_no_more(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bus.jsonl"
    baseline.save(file, [ROW, replace(ROW, what="old"), replace(ROW, what="z")], ["publish", "old", "z"])
    baseline.save(file, [replace(ROW, ours=1.0), replace(ROW, what="new")], ["new", "publish", "z"])
    saved = baseline.load(file)
    assert list(saved) == ["new", "publish", "z"]
    assert (saved["publish"].ours, saved["z"].ours) == (1.0, 50_000.0)


def test_the_table_sets_ratios_beside_each_other_and_says_what_is_new(tmp_path: Path) -> None:
    now = [replace(ROW, ours=80_000.0, ratio=0.8, conditions="4,000 messages"), replace(ROW, what="consume")]
    text = baseline.beside(now, {"publish": ROW})
    head, publish, consume, *conditions = text.splitlines()
    assert head.split() == ["what", "ours", "now", "then", "ratio", "now", "then", "now/then"]
    assert publish.split() == ["publish", "80,000", "msg/s", "50,000", "msg/s", "0.80", "0.50", "1.60"]
    assert "not in the baseline" in consume
    assert consume.split()[-2:] == ["-", "-"]
    assert conditions == ["now:  4,000 messages", "now:  40,000 messages", "then: 40,000 messages"]


@pytest.mark.parametrize("content", ["{}", "no json", json.dumps({"area": "bus", "pigeons": 3})])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bus.jsonl"
    file.write_text(f"{ROW.as_json()}\n{content}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"Line 2 of bus\.jsonl is no row"):
        baseline.load(file)


def test_without_a_baseline_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--save"):
        baseline.load(tmp_path / "bus.jsonl")


def test_the_baseline_of_the_repository_has_every_row_with_its_conditions(
    own_store: StandaloneStore, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, own_store, count=1, peer_count=1, samples=1)
    saved = baseline.load(baseline.file_of("bus"))
    assert list(saved) == [each.what for each in bus.measurements(rig)]
    assert all("cores" in row.conditions and row.ours for row in saved.values())
