"""Delta tables over a lake's files: what delta-rs, and whoever reads Delta, makes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow.dataset as ds
import pytest

from engine.core.errors import ConfigurationError
from engine.pipeline.delta import exporting
from engine.pipeline.delta.changes import MOST_COMMITS
from engine.pipeline.delta.exporting import Exported, export_tables
from engine.pipeline.delta.places import DELTA, sweep_tables, table_folder
from engine.pipeline.delta.tables import Table
from engine.pipeline.lake.compaction import FAN, compact
from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import GRACE_S, Lake
from engine.pipeline.lake.retention import let_go, set_rules
from engine.pipeline.lake.schema import SCHEMA
from engine.pipeline.lake.state import Kind, TopicRules
from tests.engine.pipeline.lake.filling import Filled

deltalake = pytest.importorskip("deltalake", reason="made by make spark")
DAY_S = 86_400


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path / "la ke" / "lake")


def opened(filled: Filled, topic: str = "t", version: int | None = None) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(table_folder(filled.root, topic, Kind.MESSAGES).as_uri(), version=version)


def ids(filled: Filled, topic: str = "t", version: int | None = None) -> list[str]:
    return sorted(opened(filled, topic, version).to_pyarrow_table()["id"].to_pylist())


def log_of(filled: Filled, topic: str = "t") -> list[list[dict[str, dict[str, object]]]]:
    """The actions of each of the table's commits, as anybody reads them."""
    folder = table_folder(filled.root, topic, Kind.MESSAGES) / "_delta_log"
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(folder.glob("*.json"))]


def changed_rows(actions: list[dict[str, dict[str, object]]]) -> list[object]:
    return [said["dataChange"] for action in actions for kind, said in action.items() if kind in ("add", "remove")]


@pytest.mark.parametrize("topic", ["t", "_hidden", ".dot", "a/b*c?[d],e%2F+g", "naïve ~ topic", "x" * 190])
def test_the_table_of_a_topic_of_any_name_is_what_the_lake_has(filled: Filled, topic: str) -> None:
    filled.add(["a", "b"], topic)
    filled.add(["c"], topic, log="h")
    filled.add(["d"], "another")
    made = export_tables(filled.lake, [topic])
    assert made == [Exported(topic, Kind.MESSAGES, table_folder(filled.root, topic, Kind.MESSAGES), 0, 2, 3)]
    assert ids(filled, topic) == ["m0", "m1", "m2"]
    assert opened(filled, topic).to_pyarrow_table().column_names == SCHEMA.names
    # A copy it is not: each file is the lake's own.
    inodes = {path.stat().st_ino for path in made[0].folder.rglob("*.parquet")}
    assert inodes == {Path(path).stat().st_ino for path in filled.lake.paths(filled.lake.state().files_of(topic))}


def test_a_table_follows_its_topic_and_is_left_alone_where_nothing_is_new(filled: Filled) -> None:
    filled.add(["a"])
    filled.add(["b"], "u")
    assert [(made.topic, made.version) for made in export_tables(filled.lake)] == [("t", 0), ("u", 0)]
    filled.add(["c"])
    assert [(made.topic, made.version, made.rows) for made in export_tables(filled.lake)] == [("t", 1, 2)]
    assert export_tables(filled.lake) == []
    assert (ids(filled), ids(filled, version=0), ids(filled, "u")) == (["m0", "m2"], ["m0"], ["m1"])


def test_who_follows_the_changes_is_told_of_new_rows_and_of_no_merge(filled: Filled) -> None:
    filled.add(["a"])
    export_tables(filled.lake)
    for _ in range(FAN):
        filled.add(["b"])
    compact(filled.lake)
    export_tables(filled.lake)
    assert ids(filled) == sorted(filled.ids())
    commits = [changed_rows(actions) for actions in log_of(filled)]
    assert commits[: FAN + 1] == [[True]] * (FAN + 1)
    assert len(commits) == FAN + 2
    assert set(commits[-1]) == {False}


def test_what_was_merged_and_swept_before_it_was_exported_is_not_missed(filled: Filled) -> None:
    filled.add(["a"])
    export_tables(filled.lake)
    for _ in range(FAN):
        filled.add(["b"])
    compact(filled.lake)
    filled.clock.advance(GRACE_S + 1)
    filled.lake.sweep()
    export_tables(filled.lake)
    assert ids(filled) == sorted(filled.ids())
    assert len(log_of(filled)) == 2
    assert all(changed_rows(log_of(filled)[-1]))


def test_a_table_that_fell_far_behind_takes_one_commit(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.pipeline.delta.changes.MOST_COMMITS", 2)
    assert MOST_COMMITS > 100
    filled.add(["a"])
    export_tables(filled.lake)
    for _ in range(3):
        filled.add(["b"])
    export_tables(filled.lake)
    assert (len(log_of(filled)), ids(filled)) == (2, sorted(filled.ids()))


def test_what_retention_takes_goes_and_stays_for_older_versions_as_long_as_in_the_lake(filled: Filled) -> None:
    filled.add(["a"])
    filled.clock.advance(3 * DAY_S)
    filled.add(["b"])
    export_tables(filled.lake)
    set_rules(filled.lake, "t", lambda rules: TopicRules(keep_days=2), by="gov", reason="law")
    let_go(filled.lake)
    export_tables(filled.lake)
    assert (ids(filled), ids(filled, version=0)) == (["m1"], ["m0", "m1"])
    assert sweep_tables(filled.lake) == 0
    filled.clock.advance(GRACE_S + 1)
    filled.lake.sweep()
    assert sweep_tables(filled.lake) == 1
    assert ids(filled) == ["m1"]
    with pytest.raises(Exception, match=r"(?i)no such file|not found"):
        ids(filled, version=0)


def test_a_topic_of_which_all_went_has_an_empty_table(filled: Filled) -> None:
    filled.add(["a"])
    export_tables(filled.lake)
    filled.clock.advance(3 * DAY_S)
    set_rules(filled.lake, "t", lambda rules: TopicRules(keep_days=1), by="gov", reason="law")
    let_go(filled.lake)
    assert [(made.files, made.rows) for made in export_tables(filled.lake)] == [(0, 0)]
    assert ids(filled) == []


def test_of_what_was_erased_no_file_of_a_table_has_a_row(filled: Filled) -> None:
    filled.add(["a", "secret-key"])
    export_tables(filled.lake)
    erase(filled.lake, "t", "secret-key", by="gov", reason="asked for")
    export_tables(filled.lake)
    assert ids(filled) == ["m0"]
    filled.clock.advance(GRACE_S + 1)
    filled.lake.sweep()
    sweep_tables(filled.lake)
    for path in (filled.root / DELTA).rglob("*"):
        if path.is_file():
            assert b"secret-key" not in path.read_bytes()
    assert ids(filled) == ["m0"]


def test_readers_leave_aside_files_by_the_time_and_never_one_too_many(filled: Filled) -> None:
    at = []
    for _ in range(3):
        at.append(datetime.fromtimestamp(filled.clock.now_ms() / 1000, UTC))
        filled.add(["a"])
        filled.clock.advance(60)
    export_tables(filled.lake)
    table = opened(filled).to_pyarrow_dataset()
    for n, moment in enumerate(at):
        only = ds.field("stored_at") == moment
        assert table.to_table(filter=only)["id"].to_pylist() == [f"m{n}"]
        assert len(list(table.get_fragments(filter=only))) == 1


def test_another_lake_or_an_older_copy_in_the_folder_makes_the_table_its_own(filled: Filled, tmp_path: Path) -> None:
    filled.add(["a"])
    copytree(filled.root, tmp_path / "copy")
    filled.add(["b"])
    filled.add(["c"])
    export_tables(filled.lake)
    # Restored from the copy, but for the tables, which nobody copies.
    for part in ("log", "data"):
        rmtree(filled.root / part)
        copytree(tmp_path / "copy" / part, filled.root / part)
    restored = Filled(filled.root, filled.clock, count=7)
    assert [made.rows for made in export_tables(restored.lake)] == [1]
    assert ids(restored) == ["m0"]
    restored.add(["d"])
    export_tables(restored.lake)
    assert ids(restored) == ["m0", "m7"]

    for part in ("log", "data"):
        rmtree(filled.root / part)
    filled.clock.advance(1)
    anew = Filled(filled.root, filled.clock, count=20)
    for _ in range(9):
        anew.add(["z"])
    export_tables(anew.lake)
    assert ids(anew) == sorted(anew.ids())


def test_who_comes_second_goes_on_with_what_the_first_made(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.add(["a"])
    export_tables(filled.lake)
    filled.add(["b"])
    commit, others = Table.commit, []

    def late(table: Table, change: object) -> None:
        if not others:
            others.append(True)
            assert [made.version for made in export_tables(Lake(filled.root, filled.clock))] == [1]
        commit(table, change)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "commit", late)
    assert export_tables(filled.lake) == []
    assert others
    assert (len(log_of(filled)), ids(filled)) == (2, ["m0", "m1"])


def test_processes_that_export_at_once_make_one_table(filled: Filled) -> None:
    for _ in range(5):
        filled.add(["a", "b"])
    program = (
        "import sys; from pathlib import Path; from engine.pipeline.delta.exporting import export_tables; "
        "from engine.pipeline.lake.lake import Lake; sys.stdin.read(1); export_tables(Lake(Path(sys.argv[1])))"
    )
    at_once = [
        subprocess.Popen([sys.executable, "-c", program, str(filled.root)], stdin=subprocess.PIPE) for _ in range(3)
    ]
    for each in at_once:
        assert each.stdin is not None
        each.stdin.close()
    assert [each.wait(60) for each in at_once] == [0, 0, 0]
    assert ids(filled) == sorted(filled.ids())
    assert len(log_of(filled)) == 1


def test_only_what_changed_is_opened_and_a_table_that_was_removed_is_made_anew(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("t", "u", "v"):
        filled.add(["a"], topic)
    assert len(export_tables(filled.lake)) == 3
    opened_of: list[str] = []
    begin = Table.__init__

    def counted(self: Table, root: Path, topic: str, kind: Kind, *, lake_id: str) -> None:
        opened_of.append(topic)
        begin(self, root, topic, kind, lake_id=lake_id)

    monkeypatch.setattr(Table, "__init__", counted)
    assert export_tables(filled.lake) == []
    assert opened_of == []
    filled.add(["b"], "u")
    assert [made.topic for made in export_tables(filled.lake)] == ["u"]
    assert set(opened_of) == {"u"}
    rmtree(table_folder(filled.root, "v", Kind.MESSAGES))
    assert [made.topic for made in export_tables(filled.lake)] == ["v"]
    assert ids(filled, "v") == ["m2"]


def test_a_run_that_was_ended_on_its_way_is_made_good_by_the_next(filled: Filled) -> None:
    for topic in ("t", "u"):
        filled.add(["a"], topic)
    looked = iter((None, KeyboardInterrupt()))

    def go_on() -> None:
        if (stop := next(looked)) is not None:
            raise stop

    with pytest.raises(KeyboardInterrupt):
        export_tables(filled.lake, go_on=go_on)
    assert [made.topic for made in export_tables(filled.lake)] == ["u"]


def test_a_copy_that_went_on_otherwise_is_looked_at_whole(filled: Filled, tmp_path: Path) -> None:
    filled.add(["a"], "t")
    copytree(filled.root, tmp_path / "copy")
    filled.add(["b"], "t")
    filled.add(["c"], "u")
    export_tables(filled.lake)
    for part in ("log", "data"):
        rmtree(filled.root / part)
        copytree(tmp_path / "copy" / part, filled.root / part)
    other = Filled(filled.root, filled.clock, count=7)
    # As many commits as before, and one more: what the tables were of is not among them.
    for topic in ("u", "u", "w"):
        other.add(["z"], topic)
    export_tables(other.lake)
    assert {topic: ids(other, topic) for topic in ("t", "u", "w")} == {"t": ["m0"], "u": ["m7", "m8"], "w": ["m9"]}


def test_a_link_that_a_killed_exporter_left_is_taken_as_it_is(filled: Filled) -> None:
    (file,) = filled.add(["a"])
    folder = table_folder(filled.root, "t", Kind.MESSAGES)
    link = folder.joinpath(*Path(file.path).parts[-2:])
    link.parent.mkdir(parents=True)
    link.hardlink_to(filled.root / file.path)
    export_tables(filled.lake)
    assert ids(filled) == ["m0"]


def test_tables_are_closed_to_other_accounts(filled: Filled) -> None:
    filled.add(["a"])
    (made,) = export_tables(filled.lake)
    assert {path.stat().st_mode & 0o77 for path in (made.folder, *made.folder.glob("2*"))} == {0}


def test_a_table_whose_log_was_broken_says_what_to_do_and_is_made_anew(filled: Filled) -> None:
    filled.add(["a"])
    (made,) = export_tables(filled.lake)
    for path in (made.folder / "_delta_log").glob("*"):
        path.write_text("{")
    filled.add(["b"])
    with pytest.raises(LakeDamaged) as raised:
        export_tables(filled.lake)
    assert "remove its folder below delta/" in raised.value.remedy
    rmtree(made.folder)
    export_tables(filled.lake)
    assert ids(filled) == ["m0", "m1"]


def test_without_the_library_it_says_how_it_is_installed(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.add(["a"])
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError) as raised:
        export_tables(filled.lake)
    assert "make spark" in raised.value.remedy
    assert not (filled.root / DELTA).exists()
