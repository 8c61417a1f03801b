"""What is kept beside the log is a convenience: where somebody changed it that is told, and nothing goes by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.pipeline.lake import commits
from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.lake.retention import let_go, set_rules
from engine.pipeline.lake.state import LakeState, TopicRules
from tests.engine.pipeline.lake.filling import Filled

Change = Callable[[dict[str, Any]], None]


TOPIC = "t"
_DAY_S = 86_400


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch, filled: Filled) -> Filled:
    """Two files, two days apart; its state is kept with each commit."""
    monkeypatch.setattr(commits, "EVERY", 1)
    filled.add(["booking/1", "booking/2"])
    filled.clock.advance(2 * _DAY_S)
    filled.add(["booking/1"])
    return filled


def newest(filled: Filled) -> Path:
    return max((filled.lake.root / "log" / "states").glob("*.json"))


def changed(filled: Filled, change: Change) -> Path:
    path = newest(filled)
    state = msgspec.json.decode(path.read_bytes())
    change(state)
    path.write_bytes(msgspec.json.encode(state))
    assert msgspec.json.decode(path.read_bytes(), type=LakeState)
    return path


def without_hold(state: dict[str, Any]) -> None:
    state["topics"][TOPIC]["rules"]["hold"] = ""


def without_a_file(state: dict[str, Any]) -> None:
    state["files"].pop(next(iter(state["files"])))


def with_another_hash(state: dict[str, Any]) -> None:
    next(iter(state["files"].values()))["sha256"] = "0" * 64


def of_a_version_to_come(state: dict[str, Any]) -> None:
    state["version"] += 1_000


@pytest.mark.parametrize("change", [without_a_file, with_another_hash, of_a_version_to_come])
def test_what_was_changed_beside_the_log_is_told(filled: Filled, change: Change) -> None:
    assert list(filled.lake.verify()) == []
    path = changed(filled, change)
    (flaw,) = filled.lake.verify()
    assert flaw.what == f"log/states/{path.name}"


def test_a_file_is_verified_by_its_commit_whatever_is_kept_beside(filled: Filled) -> None:
    changed(filled, without_a_file)
    file = next(iter(filled.lake.state().files.values()))
    everything, _ = commits.CommitLog(filled.lake.root).folded()
    (hidden,) = set(everything.files) - set(filled.lake.state().files)
    (filled.lake.root / hidden).write_bytes(b"other")
    assert {flaw.what for flaw in filled.lake.verify()} == {f"log/states/{newest(filled).name}", hidden}
    assert file.path != hidden


def test_a_hold_that_was_lifted_beside_the_log_holds(filled: Filled) -> None:
    set_rules(filled.lake, TOPIC, lambda _: TopicRules(keep_days=1, hold="case 13"), by="ada", reason="why")
    changed(filled, without_hold)
    with pytest.raises(LakeDamaged, match="does not say what its commits say"):
        erase(filled.lake, TOPIC, "booking/1", by="ada", reason="why")
    with pytest.raises(LakeDamaged, match="does not say what its commits say"):
        let_go(filled.lake)


def test_files_that_were_hidden_beside_the_log_are_not_swept(filled: Filled) -> None:
    changed(filled, without_a_file)
    everything, _ = commits.CommitLog(filled.lake.root).folded()
    filled.clock.advance(2 * GRACE_S)
    with pytest.raises(LakeDamaged):
        filled.lake.sweep()
    assert all((filled.lake.root / path).exists() for path in everything.files)
