"""The newest messages of a span, read by a process of its own."""

from __future__ import annotations

import subprocess

import pytest

from engine.bus import decode
from engine.core.errors import Unavailable
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.replay import sampling
from engine.pipeline.replay.sampling import SpanSample, sample
from engine.pipeline.replay.span import ReplaySpan, files_in
from tests.engine.pipeline.lake.filling import Filled

ALL = ReplaySpan("t", 0, 9_000_000_000_000)


def taken(filled: Filled, most: int, span: ReplaySpan = ALL) -> SpanSample:
    return sample(filled.root, span, files_in(filled.lake.state(), span), most)


def ids(found: SpanSample) -> list[str]:
    return [decode(row.envelope).id for row in found.rows if row.envelope is not None]


def test_the_newest_come_first_over_all_logs_also_those_of_one_instant(filled: Filled) -> None:
    for log in ("-", "p1", "-"):
        filled.add(["b", "a", "c", "a"], log=log)
        filled.clock.advance(1)
    found = taken(filled, 6)
    assert ids(found) == [f"m{number}" for number in range(11, 5, -1)]
    assert found.exact
    assert ids(taken(filled, 50, ReplaySpan("t", 0, ALL.to_ms, "c"))) == ["m10", "m6", "m2"]


def test_of_more_files_than_are_read_it_says_that_newer_ones_may_be_missing(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        filled.add(["a"])
        filled.clock.advance(1)
    monkeypatch.setattr(sampling, "MOST_FILES", 3)
    assert (ids(found := taken(filled, 9)), found.exact) == (["m3", "m2", "m1"], False)
    assert (ids(found := taken(filled, 2)), found.exact) == (["m3", "m2"], True)


def test_what_cannot_be_read_is_told(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = filled.add(["a"])
    path = filled.root / file.path
    path.chmod(0o600)
    path.write_bytes(b"PAR1")
    with pytest.raises(LakeDamaged, match="has other content"):
        taken(filled, 5)
    monkeypatch.setattr(sampling, "PATIENCE_S", 0.001)
    with pytest.raises(Unavailable) as late:
        taken(filled, 5)
    assert isinstance(late.value.__cause__, subprocess.TimeoutExpired)
