"""The log of commits: whole or not at all, one winner, a chain, and damage is told."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest

from engine.pipeline.lake.commits import EVERY, KEPT, CommitLog
from engine.pipeline.lake.errors import LakeDamaged, Superseded
from engine.pipeline.lake.state import Act, Commit, DoesNotFit, Kind, LakeFile, LakeState, TopicCommit
from engine.pipeline.source.planning import Loss, Why
from engine.pipeline.source.reached import LogReached


def file(name: str, topic: str = "t", date: str = "2026-11-28") -> LakeFile:
    return LakeFile(f"data/{name}", Kind.MESSAGES, topic, "-", date, 10, 100, 1_000, "ab", 1, 2, "1-0", "2-0")


def adding(*names: str, removed: tuple[str, ...] = (), act: Act = Act.ARCHIVE) -> object:
    def make(state: LakeState) -> Commit:
        return Commit(
            version=state.version + 1,
            act=act,
            run="r",
            at_ms=7,
            before=state.digest,
            topics={"t": TopicCommit({"-": LogReached(str(state.version), state.version)})},
            added=[file(name) for name in names],
            removed=[f"data/{name}" for name in removed],
        )

    return make


def publish(log: CommitLog, *names: str, removed: tuple[str, ...] = ()) -> LakeState:
    return log.publish(adding(*names, removed=removed))  # type: ignore[arg-type]


def names(state: LakeState) -> list[str]:
    return [path.removeprefix("data/") for path in state.files]


def test_a_lake_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert CommitLog(tmp_path / "lake").state() == LakeState()
    assert not (tmp_path / "lake").exists()


def test_commits_follow_each_other(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    publish(log, "a", "b")
    state = publish(log, "c")

    assert names(state) == ["a", "b", "c"]
    assert state == CommitLog(tmp_path).state()
    assert [commit.version for commit in log.commits()] == [1, 2]
    assert state.topics["t"].reached == {"-": LogReached("1", 1)}


def test_what_takes_the_place_of_others_stands_where_they_stood(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    for name in "abcd":
        publish(log, name)
    assert names(publish(log, "bc", removed=("b", "c"))) == ["a", "bc", "d"]
    assert names(publish(log, removed=("a",))) == ["bc", "d"]


def test_losses_are_kept_with_when_they_were_found(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    loss = Loss("-", Why.TRIMMED, "1-0", "3-0", 5)

    def make(state: LakeState) -> Commit:
        return Commit(version=1, act=Act.ARCHIVE, run="r", at_ms=9, before="", topics={"t": TopicCommit({}, [loss])})

    log.publish(make)
    publish(log, "a")
    (known,) = log.state().topics["t"].losses
    assert (known.loss, known.at_ms) == (loss, 9)


@pytest.mark.parametrize(
    ("names", "removed"), [(("a",), ()), (("b", "b"), ()), ((), ("z",))], ids=["twice", "doubled", "not there"]
)
def test_what_does_not_fit_changes_nothing(tmp_path: Path, names: tuple[str, ...], removed: tuple[str, ...]) -> None:
    log = CommitLog(tmp_path)
    before = publish(log, "a")
    with pytest.raises(DoesNotFit):
        publish(log, *names, removed=removed)
    assert log.state() == before


def test_who_gives_up_leaves_nothing(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)

    def make(state: LakeState) -> Commit:
        raise Superseded("no", remedy="")

    with pytest.raises(Superseded):
        log.publish(make)
    assert list(tmp_path.rglob("*.json")) == []


def test_the_state_that_is_kept_beside_is_the_same_and_nobody_depends_on_it(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    for number in range(EVERY * (KEPT + 2) + 3):
        state = publish(log, f"f{number}")
    kept = sorted((tmp_path / "log" / "states").glob("*.json"))
    assert len(kept) == KEPT
    assert CommitLog(tmp_path).state() == state
    # Of files the order counts, too.
    assert names(CommitLog(tmp_path).state()) == [f"f{number}" for number in range(state.version)]

    kept[-1].write_bytes(kept[-1].read_bytes()[:-20])
    assert CommitLog(tmp_path).state() == state
    shutil.rmtree(tmp_path / "log" / "states")
    assert CommitLog(tmp_path).state() == state


def commit_path(root: Path, version: int) -> Path:
    return root / "log" / f"{version:020}.json"


@pytest.mark.parametrize("harm", ["changed", "missing", "torn", "nonsense"])
def test_damage_is_told(tmp_path: Path, harm: str) -> None:
    log = CommitLog(tmp_path)
    for name in "abc":
        publish(log, name)
    second = commit_path(tmp_path, 2)
    if harm == "changed":
        second.write_bytes(second.read_bytes().replace(b"data/b", b"data/x"))
    elif harm == "missing":
        second.unlink()
    elif harm == "torn":
        second.write_bytes(second.read_bytes()[:50])
    else:
        second.write_bytes(b"[]")
    with pytest.raises(LakeDamaged):
        log.state()
    with pytest.raises(LakeDamaged):
        list(log.commits())


def test_drafts_of_the_killed_do_no_harm(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    publish(log, "a")
    (tmp_path / "log" / ".2.abcd.tmp").write_bytes(b"{half")
    assert names(publish(log, "b")) == ["a", "b"]


def _add(root: Path, number: int, each: int) -> None:
    log = CommitLog(root)
    for index in range(each):
        publish(log, f"{number}-{index}")


def test_of_many_at_once_each_counts_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(tmp_path, number, 12)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    state = CommitLog(tmp_path).state()
    assert state.version == 48
    assert sorted(names(state)) == sorted(f"{number}-{index}" for number in range(4) for index in range(12))
