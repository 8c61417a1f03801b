"""The real measurement of the pipeline, small: its lake, its audits beside their peers, and a row of each rate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from engine.core.errors import BadInput
from engine.pipeline.lake.files import sha256_of
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Act, Commit, Kind, LakeState
from hbus_console.bench import pipeline, pipeline_audits
from hbus_console.bench.pipeline_agreement import difference, unlike_planted
from hbus_console.bench.pipeline_rig import PipelineRig
from hbus_console.bench.pipeline_story import TOPIC, PipelineStory
from hbus_console.bench.rig import chosen
from hbus_console.bench.rows import Row

pytestmark = pytest.mark.long

EVENTS = 4_000


@pytest.fixture(scope="module")
def rig() -> Iterator[PipelineRig]:
    """One for all tests: its lake and its session of Spark take seconds to make."""
    with pytest.MonkeyPatch.context() as patch:
        # Those of the tests would have every measured process start a store that nobody uses.
        patch.setenv("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
        patch.setenv("HBUS_APPS", "")
        with pipeline.measured(events=EVENTS, samples=1) as made:
            yield made


def only(rig: PipelineRig, what: str) -> list[Row]:
    return [each.measure() for each in chosen(list(pipeline.measurements(rig)), what)]


def test_each_row_bears_a_name_of_its_own_and_the_larger_one_is_made_where_asked(rig: PipelineRig) -> None:
    names = [each.what for each in pipeline.measurements(rig)]
    assert len(set(names)) == len(names) == 15
    asked = [each.what for each in pipeline.measurements(rig, larger=False)]
    assert [name for name in names if name not in asked] == [names[-1]]
    assert "20,000" in names[-1]


def test_audits_agree_with_their_peers_and_with_what_was_planted(rig: PipelineRig) -> None:
    ours = rig.audited(rig.lake_of(EVENTS), EVENTS)
    assert ours["planted"] == PipelineStory(EVENTS).expected()
    assert unlike_planted(ours) == ""
    # 4,000 messages, of which some were never published, or not archived, and some were stored twice.
    assert (ours["published"], ours["archived"]) == (3_994, 3_997)
    for what, goal in (("no side computed, beside", 0.004), ("a commit more", 0.0008)):
        rows = only(rig, what)
        assert [row.peer for row in rows if "beside one of" not in row.what] == list(pipeline_audits.PEERS)
        for row in rows[:2]:
            assert row.ours is not None
            assert (row.area, row.unit, row.goal) == ("pipeline", "s", pytest.approx(goal))
            assert row.ratio == pytest.approx(row.ours / (row.theirs or 0))
            assert row.holds is (row.ours <= (row.goal or 0))
            assert "MB" in row.conditions


def test_a_commit_more_is_audited_by_the_sides_that_are_there(rig: PipelineRig) -> None:
    rig.audited(rig.lake, EVENTS)
    rig.add_commit()
    again = rig.audited(rig.lake, EVENTS)
    assert 0 < again["computed"] < again["files"]
    assert unlike_planted(again) == ""


def without_some(root: Path, number: int) -> None:
    """So many messages of the lake are lost, by somebody who commits it."""
    lake = Lake(root)
    (file, *_) = lake.state().files_of(TOPIC)
    kept = pq.read_table(root / file.path).slice(number)
    other = renamed(file.path)
    pq.write_table(kept, root / other)
    made = msgspec.structs.replace(
        file, path=other, rows=len(kept), bytes=(root / other).stat().st_size, sha256=sha256_of(root / other)
    )

    def make(state: LakeState) -> Commit:
        return lake.following(state, Act.COMPACTION, "", added=[made], removed=[file.path])

    lake.publish(make)


def renamed(path: str) -> str:
    return path.replace(".parquet", "-less.parquet")


@pytest.mark.parametrize("peer", list(pipeline_audits.PEERS))
def test_a_fault_that_is_planted_changes_the_counts_of_all(rig: PipelineRig, peer: str) -> None:
    root = rig.lake_of(EVENTS)
    _, program = pipeline_audits.PEERS[peer]
    before = rig.audited(root, EVENTS)
    without_some(root, 5)
    ours, theirs = rig.audited(root, EVENTS), rig.audited(root, EVENTS, by=program)
    assert ours["findings"]["missing"] == before["findings"]["missing"] + 5
    assert ours["archived"] == before["archived"] - 5
    assert difference(ours, theirs) == ""
    assert "missing" in unlike_planted(ours)
    # Whoever did not see it is told.
    assert difference(before, theirs) != ""


def test_a_peer_that_finds_otherwise_is_no_peer(rig: PipelineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    audited = rig.audited

    def blind(root: Path, events: int, **options: Any) -> dict[str, Any]:
        found = audited(root, events, **options)
        if "by" in options:
            found["findings"]["duplicate"] = 0
        return found

    monkeypatch.setattr(rig, "audited", blind)
    row = only(rig, "no side computed, beside DuckDB")[0]
    assert (row.theirs, row.ratio, row.holds) == (None, None, False)
    assert row.peer == "DuckDB found otherwise: duplicate: 0, ours 3"
    assert row.ours is not None


def test_a_peer_that_is_not_installed_is_named_beside_our_own_figure(
    rig: PipelineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pipeline_audits.PEERS, "Polars", ("no_such_module", "peers.polars_audit"))
    row = only(rig, "no side computed, beside Polars")[0]
    assert (row.peer, row.theirs, row.holds) == ("Polars: not installed", None, None)
    assert row.ours is not None


TOLD: dict[str, Any] = {
    "findings": {"missing": 3},
    "published": 9,
    "archived": 9,
    "settled": 8,
    "windows": {"0": [9, 9]},
    "settled_after": [100.0, 200.0],
}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"findings": {"missing": 4}}, "missing: 4, ours 3"),
        ({"settled": 7}, "settled: 7, ours 8"),
        ({"windows": {"0": [9, 8]}}, "the window of 0: 9 and 8, ours 9 and 9"),
        ({"windows": {"0": [9, 9], "60": [1, 0]}}, "the window of 60: 1 and 0, ours 0 and 0"),
        ({"settled_after": [100.0, 204.0]}, "a percentile: 204.0 ms, ours 200.0"),
        ({"settled_after": [101.0, 201.0]}, ""),
    ],
)
def test_what_differs_is_told(other: dict[str, Any], said: str) -> None:
    assert difference(TOLD, TOLD | other) == said


def test_too_few_events_are_refused() -> None:
    with pytest.raises(BadInput, match=r"1,999 events hold no faults"), pipeline.measured(events=1_999, samples=1):
        pass


def test_the_engine_s_own_rates_have_their_figures_and_goals_are_judged(rig: PipelineRig) -> None:
    (archived,) = only(rig, "archived in one process")
    assert archived.ours is not None
    assert (archived.unit, archived.goal) == ("rows/s", 200_000)
    assert archived.holds is (archived.ours >= 200_000)
    assert "the topic has 999 messages" in archived.conditions or "the topic has 1,000 messages" in archived.conditions
    (replayed,) = only(rig, "replayed from the lake")
    assert replayed.ours is not None
    assert replayed.theirs is not None
    assert json.loads(replayed.as_json())["what"] == replayed.what


@pytest.mark.whole
@pytest.mark.xdist_group("spark")
def test_rates_on_spark_have_their_figures(rig: PipelineRig) -> None:
    rows = only(rig, "by Spark")
    assert [row.goal for row in rows] == [400_000, None, None, 200_000, None, 200_000]
    for row in rows:
        assert row.ours is not None
        assert row.ours > 0
        assert (row.holds is None) is (row.goal is None)


@pytest.mark.whole
@pytest.mark.xdist_group("spark")
def test_a_start_has_its_figure_and_its_goal_is_judged(rig: PipelineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    # With a folder of settings Java shares no classes.
    monkeypatch.delenv("SPARK_CONF_DIR")
    (started,) = only(rig, "to its first result")
    assert started.ours is not None
    assert started.theirs is not None
    assert (started.unit, started.goal, started.holds) == ("s", 4.0, started.ours <= 4.0)


def test_the_story_is_the_same_ever(rig: PipelineRig) -> None:
    def content(root: Path) -> list[tuple[Kind, int, str, str]]:
        files = Lake(root).state().files.values()
        return [(file.kind, file.rows, file.first, file.sha256) for file in files]

    assert content(rig.lake_of(EVENTS)) == content(rig.lake_of(EVENTS))
