"""Files of the lake: by day, by key, whole, and named so that nothing a topic is called can lead out."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.bus import Message
from engine.bus.message import encode
from engine.pipeline.lake.files import folder_of
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.schema import READ, SCHEMA, key_hash
from engine.pipeline.lake.state import LakeFile
from engine.pipeline.lake.writing import PortionFiles
from engine.pipeline.source.columns import Columns, Rows

NOON = 1_795_867_200_000
DAY = 86_400_000


def write(root: Path, *batches: Sequence[tuple[int, str, bytes | None]], topic: str = "t") -> list[LakeFile]:
    """Each message by when, its key, and its body if it is no plain one."""
    files = PortionFiles(root, topic, "-", "r0123456789abcdef-0")
    columns = Columns(READ)
    number = 0
    for batch in batches:
        bodies, at_ms, positions = [], [], []
        for when, key, body in batch:
            bodies.append(body or encode(Message(id=f"m{number}", source="s", type="t", partitionkey=key)))
            at_ms.append(when)
            positions.append(f"{when}-{number}")
            number += 1
        files.add(columns.table(Rows(topic, "-", positions, at_ms, bodies)), at_ms)
    return files.close()


def rows(root: Path, file: LakeFile) -> list[tuple[str, str]]:
    return [(row["id"], row["partitionkey"]) for row in pq.read_table(root / file.path).to_pylist()]


def test_each_day_has_its_files(tmp_path: Path) -> None:
    files = write(tmp_path, [(NOON, "a", None), (NOON + DAY, "a", None)], [(NOON + DAY + 1, "a", None)])
    assert [(file.date, file.rows) for file in files] == [("2026-11-28", 1), ("2026-11-29", 2)]
    first, second = files
    assert (first.first_ms, first.last_ms, first.first, first.last) == (NOON, NOON, f"{NOON}-0", f"{NOON}-0")
    assert (second.first, second.last) == (f"{NOON + DAY}-1", f"{NOON + DAY + 1}-2")
    assert [path.parent.name for path in map(Path, (file.path for file in files))] == ["2026-11-28", "2026-11-29"]


def test_what_belongs_to_a_key_lies_together_in_its_order(tmp_path: Path) -> None:
    keys = [f"k{number % 5}" for number in range(60)]
    (file,) = write(tmp_path, *[[(NOON, key, None) for key in keys[start : start + 7]] for start in range(0, 60, 7)])

    table = pq.read_table(tmp_path / file.path)

    assert table.schema == SCHEMA
    found = rows(tmp_path, file)
    assert table["key_hash"].to_pylist() == [key_hash(key) for _, key in found]
    assert sorted({key_hash(key) for _, key in found}) == list(dict.fromkeys(table["key_hash"].to_pylist()))
    for key in set(keys):
        numbers = [int(id_[1:]) for id_, of in found if of == key]
        assert numbers == sorted(numbers)
        assert len(numbers) == 12


def test_what_has_no_key_and_what_is_no_envelope_is_in_it_too(tmp_path: Path) -> None:
    odd = b'{"specversion":"1.0","id":"x","source":"s","type":"t","time":"noon"}'
    (file,) = write(tmp_path, [(NOON, "", None), (NOON, "k", None), (NOON, "", b"\xff"), (NOON, "", odd)])

    found = pq.read_table(tmp_path / file.path).to_pylist()

    assert [row["key_hash"] for row in found] == [key_hash("k"), None, None, None]
    assert [row["original"] for row in found] == [None, None, b"\xff", odd]
    assert found[2]["malformed"] is not None


def test_a_hash_of_a_key_never_changes() -> None:
    assert key_hash("hotel-1") == -7_392_427_241_446_693_882
    assert key_hash("") != key_hash("\0")


@pytest.mark.parametrize(
    "topic", ["../../etc", "/etc/passwd", ".", "..", ".hidden", "a/b", "a*b?[c]", "ü" * 200, "x" * 200]
)
def test_no_name_of_a_topic_leads_out_or_means_something(tmp_path: Path, topic: str) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (file,) = write(root, [(NOON, "a", None)], topic=topic)
    assert (root / file.path).resolve().is_relative_to(root / "data")
    assert len(Path(file.path).parts) == 5
    assert not set("*?[]/\\ ") & set(folder_of(topic))
    assert not folder_of(topic).startswith(".")


def test_names_that_are_alike_have_folders_of_their_own() -> None:
    names = ["a/b", "a%2Fb", "a.b", "A.b", "x" * 200, "x" * 199, "ü" * 100, "ü" * 99]
    assert len({folder_of(name) for name in names}) == len(names)


def test_files_are_closed_to_others_and_weighed(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (file,) = write(root, [(NOON, "a", None)])
    path = root / file.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in list(path.parents)[:3]} == {0o700}
    assert path.stat().st_size == file.bytes
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert list(Lake(root).verify()) == []
