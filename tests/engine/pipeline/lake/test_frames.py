"""The archive as a table of Spark, for programs of anybody."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from engine.core.errors import BadInput
from engine.pipeline.lake.frames import archived
from engine.pipeline.lake.schema import SCHEMA
from tests.engine.pipeline.lake.filling import Filled

DAY_S = 86_400


def ids(frame: Any) -> list[str]:
    return sorted(row["id"] for row in frame.select("id").collect())


@pytest.mark.parametrize("topic", ["t", "_hidden", ".dot", "a/b*c?[d],e%2F"])
def test_all_that_was_archived_of_a_topic_is_its_table(spark: Any, filled: Filled, topic: str) -> None:
    filled.add(["a", "b"], topic)
    filled.add(["c"], topic, log="h")
    filled.add(["d"], "another")
    frame = archived(spark, topic, filled.root)
    assert frame.columns == SCHEMA.names
    assert ids(frame) == ["m0", "m1", "m2"]
    # Whatever the zone of the machine, an instant is the one that was stored.
    assert {row["at"] for row in frame.selectExpr("unix_millis(stored_at) at").collect()} == {filled.clock.now_ms()}


def test_a_folder_of_any_name_is_read_as_it_is_called(spark: Any, tmp_path: Path) -> None:
    filled = Filled(tmp_path / "la ke [x] {y,z}*" / "lake")
    filled.add(["a"])
    assert ids(archived(spark, "t", filled.root)) == ["m0"]


def test_days_are_those_of_storing_and_both_ends_count(spark: Any, filled: Filled) -> None:
    first = date.fromisoformat(filled.add(["a"])[0].date)
    days = [first]
    for _ in range(3):
        filled.clock.advance(DAY_S)
        days.append(date.fromisoformat(filled.add(["a"])[0].date))
    assert ids(archived(spark, "t", filled.root, first_day=days[1], last_day=days[2])) == ["m1", "m2"]
    assert ids(archived(spark, "t", filled.root, first_day=days[3])) == ["m3"]
    nothing = archived(spark, "t", filled.root, last_day=date(2000, 1, 1))
    assert (nothing.columns, nothing.count()) == (SCHEMA.names, 0)


def test_a_kind_without_rows_has_its_columns(spark: Any, filled: Filled) -> None:
    filled.add(["a"])
    assert "subscription" in archived(spark, "t", filled.root, kind="deliveries").columns


def test_a_table_stays_as_it_was_while_the_lake_goes_on(spark: Any, filled: Filled) -> None:
    filled.add(["a"])
    filled.add(["b"])
    frame = archived(spark, "t", filled.root)
    filled.clock.advance(2 * DAY_S)
    filled.add(["c"])
    assert ids(frame) == ["m0", "m1"]


def test_what_is_gone_since_ends_an_action_and_is_not_left_out(spark: Any, filled: Filled) -> None:
    filled.add(["a"])
    filled.add(["b"])
    frame = archived(spark, "t", filled.root)
    for path in filled.lake.paths(filled.lake.state().files_of("t"))[:1]:
        Path(path).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"(?i)does not exist|not found|FileNotFound"):
            ids(frame)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_the_environment_names_the_lake(spark: Any, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.add(["a"])
    monkeypatch.setenv("HBUS_LAKE", str(filled.root))
    assert ids(archived(spark, "t")) == ["m0"]


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        ({"lake": ""}, "lake", "No lake was named"),
        ({"lake": "nowhere"}, "lake", "is no lake"),
        ({"topic": "u"}, "topic", "nothing of the topic u"),
        ({"kind": "letters"}, "kind", "no kind of rows"),
    ],
)
def test_what_is_not_there_is_refused_and_named(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], field: str, words: str
) -> None:
    monkeypatch.delenv("HBUS_LAKE", raising=False)
    monkeypatch.chdir(filled.root.parent)
    filled.add(["a"])
    with pytest.raises(BadInput, match=words) as refused:
        # Refused before anything is asked of Spark.
        archived(cast("Any", None), **{"topic": "t", "lake": "lake"} | said)
    assert (refused.value.field, bool(refused.value.remedy)) == (field, True)
    assert not Path("nowhere").exists()
