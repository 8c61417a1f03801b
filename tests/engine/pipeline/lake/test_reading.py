"""A file of the lake is read as it was committed, and its texts come once each where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.reading import read_checked
from tests.engine.pipeline.lake.filling import Filled

KEYS = ["a", "b", "a", "c", "a"]


def test_texts_that_are_coded_are_the_same_texts(tmp_path: Path) -> None:
    (file,) = Filled(tmp_path).add(KEYS)
    # Of targets there are none at all.
    names = ["id", "partitionkey", "source", "hbustarget"]
    plain = read_checked(tmp_path, file, names)
    coded = read_checked(tmp_path, file, names, coded=names[1:])
    assert plain["partitionkey"].type == coded["id"].type == pa.string()
    assert sorted(coded["partitionkey"].unify_dictionaries().chunk(0).dictionary.to_pylist()) == ["a", "b", "c"]
    assert coded.to_pylist() == plain.to_pylist()
    assert sorted(coded["partitionkey"].to_pylist()) == sorted(KEYS)


def test_another_content_is_refused_however_it_is_read(tmp_path: Path) -> None:
    (file,) = Filled(tmp_path).add(KEYS)
    content = bytearray((tmp_path / file.path).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / file.path).write_bytes(content)
    for coded in ((), ("source",)):
        with pytest.raises(LakeDamaged, match="has other content than was committed"):
            read_checked(tmp_path, file, ["source"], coded=coded)
