"""Each message is in the lake once: run after run, cut into rounds, beside another run, and what is gone is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.bus.partitions import Partitioned
from engine.bus.transport import Priority
from engine.pipeline.archive import rounds
from engine.pipeline.archive.archiving import Archived, Archiver, Execute
from engine.pipeline.archive.tasks import ArchiveTask, in_this_process
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import GRACE_S, SWEEP_EVERY_S, Lake
from engine.pipeline.lake.state import Act, Commit, LakeFile, LakeState
from tests.engine.pipeline.conftest import Topic


@pytest.fixture
def lake(tmp_path: Path, topic: Topic) -> Lake:
    return Lake(tmp_path / "lake", topic.clock)


def archiver(lake: Lake, topic: Topic, execute: Execute = in_this_process, **said: int) -> Archiver:
    return Archiver(lake, topic.config, execute, **said)


def held(lake: Lake, topic: str = "booking.created") -> list[str]:
    """The ids that the lake has, in the order of its files."""
    found: list[str] = []
    for path in lake.paths(lake.state().files_of(topic)):
        found += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return found


def numbered(first: int, beyond: int) -> Counter[str]:
    return Counter(f"m{number}" for number in range(first, beyond))


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "TASK", 100)


def test_run_after_run_each_message_is_in_it_once(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 300)
    first = archiver(lake, topic).run([topic.name])
    topic.publish_many(300, 50)
    second = archiver(lake, topic).run([topic.name])

    assert (first.messages, second.messages) == ({topic.name: 300}, {topic.name: 50})
    assert Counter(held(lake)) == numbered(0, 350)
    assert lake.state().topics[topic.name].losses == []
    assert list(lake.verify()) == []


def test_a_run_with_nothing_to_do_commits_nothing(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 10)
    archiver(lake, topic).run([topic.name])
    before = lake.state()
    assert archiver(lake, topic).run([topic.name]).commits == 0
    assert lake.state() == before


def test_logs_that_were_never_written_to_make_no_commit(lake: Lake, topic: Topic) -> None:
    # A group makes all three streams of a topic, empty.
    topic.transport.admin.create_group(topic.name, "readers")
    topic.publish_many(0, 10)
    assert archiver(lake, topic).run([topic.name]).commits == 1


def test_every_log_is_in_it(lake: Lake, topic: Topic) -> None:
    assert isinstance(topic.transport, Partitioned)
    topic.transport.set_partitions(topic.name, 3)
    for partition in range(3):
        topic.publish(topic.envelope(partition), partition=partition)
    topic.publish_many(3, 20, priority=Priority.HIGH)

    archiver(lake, topic).run([topic.name])

    assert Counter(held(lake)) == numbered(0, 23)
    assert set(lake.state().reached(topic.name)) == {"-", "p1", "p2", "h"}


@pytest.mark.usefixtures("small_tasks")
def test_what_was_committed_before_a_failure_is_not_done_again(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 1_000)
    rounds_run: list[int] = []

    def fails_in_the_third(tasks: Sequence[ArchiveTask]) -> Iterator[list[LakeFile]]:
        rounds_run.append(len(tasks))
        if len(rounds_run) == 3:
            raise OSError("no space left on device")
        return in_this_process(tasks)

    with pytest.raises(OSError, match="no space"):
        archiver(lake, topic, fails_in_the_third, cores=1, depth=2).run([topic.name])
    half = held(lake)
    assert 0 < len(half) < 1_000
    again = archiver(lake, topic, cores=1, depth=2).run([topic.name])

    assert again.messages == {topic.name: 1_000 - len(half)}
    assert Counter(held(lake)) == numbered(0, 1_000)
    assert lake.state().topics[topic.name].losses == []


@pytest.mark.usefixtures("small_tasks")
def test_progress_counts_up_to_all_of_it(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 1_000)
    told: list[tuple[int, int | None]] = []

    archiver(lake, topic, cores=1, depth=3).run([topic.name], lambda done, total: told.append((done, total)))

    assert told == sorted(told)
    assert told[-1] == (1_000, 1_000)
    assert len(told) > 2


def test_what_is_gone_before_it_was_archived_is_a_loss_and_told_once(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 100)
    archiver(lake, topic).run([topic.name])
    topic.publish_many(100, 100)
    topic.trim(30)

    outcome = archiver(lake, topic).run([topic.name])
    archiver(lake, topic).run([topic.name])

    assert [loss.messages for loss in outcome.losses[topic.name]] == [70]
    assert [known.loss.messages for known in lake.state().topics[topic.name].losses] == [70]
    assert Counter(held(lake)) == numbered(0, 100) + numbered(170, 200)


def test_what_was_gone_before_the_first_run_is_told_too(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 100)
    topic.trim(40)
    outcome = archiver(lake, topic).run([topic.name])
    assert [loss.messages for loss in outcome.losses[topic.name]] == [60]
    assert Counter(held(lake)) == numbered(60, 100)


def test_all_of_it_gone_is_a_loss_of_all(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 100)
    topic.trim(0)
    outcome = archiver(lake, topic).run([topic.name])
    assert [loss.messages for loss in outcome.losses[topic.name]] == [100]
    assert archiver(lake, topic).run([topic.name]).losses == {}


@pytest.mark.usefixtures("small_tasks")
def test_what_retention_takes_while_it_reads_is_counted(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 1_000)

    def trims_meanwhile(tasks: Sequence[ArchiveTask]) -> Iterator[list[LakeFile]]:
        for task in tasks:
            if task.number == 2:
                topic.trim(500)
            yield from in_this_process([task])

    outcome = archiver(lake, topic, trims_meanwhile, cores=1, depth=4).run([topic.name])

    (loss,) = outcome.losses[topic.name]
    assert loss.messages == 1_000 - len(held(lake)) > 0
    assert sum(known.loss.messages or 0 for known in lake.state().topics[topic.name].losses) == loss.messages
    assert max(Counter(held(lake)).values()) == 1


@pytest.mark.usefixtures("small_tasks")
def test_what_was_missing_when_a_run_died_is_found_by_the_next(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 1_000)

    def trims_and_dies(tasks: Sequence[ArchiveTask]) -> Iterator[list[LakeFile]]:
        if tasks[0].number == 2:
            topic.trim(500)
        if tasks[0].number == 6:
            raise OSError("died")
        return in_this_process(tasks)

    with pytest.raises(OSError, match="died"):
        archiver(lake, topic, trims_and_dies, cores=1, depth=2).run([topic.name])
    archiver(lake, topic).run([topic.name])

    losses = [known.loss.messages or 0 for known in lake.state().topics[topic.name].losses]
    assert sum(losses) == 1_000 - len(held(lake)) > 0
    assert max(Counter(held(lake)).values()) == 1


def test_a_topic_made_anew_is_archived_on(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 50)
    archiver(lake, topic).run([topic.name])
    topic.empty()
    topic.publish_many(50, 20)

    outcome = archiver(lake, topic).run([topic.name])
    again = archiver(lake, topic).run([topic.name])

    assert [str(loss.why) for loss in outcome.losses[topic.name]] == ["emptied"]
    assert (again.commits, again.losses) == (0, {})
    assert Counter(held(lake)) == numbered(0, 70)


def test_of_two_runs_at_once_one_gives_up_and_nothing_is_doubled(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 200)
    inner: list[Archived] = []

    def overtaken(tasks: Sequence[ArchiveTask]) -> list[list[LakeFile]]:
        made = list(in_this_process(tasks))
        inner.append(archiver(lake, topic).run([topic.name]))
        return made

    with pytest.raises(Superseded):
        archiver(lake, topic, overtaken).run([topic.name])

    assert Counter(held(lake)) == numbered(0, 200)
    lake.sweep()
    files = [path for path in (lake.root / "data").rglob("*") if path.is_file()]
    assert len(files) == inner[0].files


def test_another_topic_beside_it_disturbs_nobody(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 100)
    other = Topic(topic.config.url, topic.config.prefix, "payment.taken")
    other.publish_many(0, 10)

    def overtaken(tasks: Sequence[ArchiveTask]) -> list[list[LakeFile]]:
        archiver(lake, other).run([other.name])
        return list(in_this_process(tasks))

    archiver(lake, topic, overtaken).run([topic.name])

    assert Counter(held(lake)) == numbered(0, 100)
    assert Counter(held(lake, other.name)) == numbered(0, 10)


def test_what_a_dead_run_left_is_swept_and_what_a_living_one_writes_is_not(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 100)
    swept: list[list[Path]] = []

    def sweeps(tasks: Sequence[ArchiveTask]) -> list[list[LakeFile]]:
        made = list(in_this_process(tasks))
        swept.append(lake.sweep())
        return made

    archiver(lake, topic, sweeps).run([topic.name])
    assert swept == [[]]
    kept = set(held(lake))
    orphan = next((lake.root / "data").rglob("*.parquet")).with_name("rfedcba9876543210-0-1-0.parquet")
    orphan.write_bytes(b"half")
    draft = orphan.with_name(".rfedcba9876543210-0-1-1.parquet.ab.tmp")
    draft.write_bytes(b"h")

    assert sorted(lake.sweep()) == sorted([draft, orphan])
    assert set(held(lake)) == kept


def test_what_is_left_is_looked_for_once_an_hour(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 10)
    archiver(lake, topic).run([topic.name])
    assert lake.sweep_when_due() == []
    orphan = next((lake.root / "data").rglob("*.parquet")).with_name("rfedcba9876543210-0-1-0.parquet")
    orphan.write_bytes(b"half")
    assert lake.sweep_when_due() == []
    topic.clock.advance(SWEEP_EVERY_S + 1)
    assert lake.sweep_when_due() == [orphan]


def test_no_lake_is_made_by_who_looks_for_what_is_left(lake: Lake) -> None:
    assert lake.sweep_when_due() == []
    assert not lake.root.exists()


def test_what_counts_no_longer_stays_for_who_began_to_read(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 10)
    archiver(lake, topic).run([topic.name])
    (path,) = lake.state().files

    def without(state: LakeState) -> Commit:
        return lake.following(
            state,
            Act.RETENTION,
            "r0",
            removed=[path],
        )

    lake.publish(without)
    assert lake.sweep() == []
    topic.clock.advance(GRACE_S + 1)
    assert lake.sweep() == [lake.root / path]


@pytest.mark.parametrize("harm", ["gone", "longer", "changed"])
def test_harm_to_a_file_is_found(lake: Lake, topic: Topic, harm: str) -> None:
    topic.publish_many(0, 10)
    archiver(lake, topic).run([topic.name])
    (path,) = (lake.root / name for name in lake.state().files)
    raw = path.read_bytes()
    damage: dict[str, Callable[[], object]] = {
        "gone": path.unlink,
        "longer": lambda: path.write_bytes(raw + b"x"),
        "changed": lambda: path.write_bytes(raw[:100] + bytes([raw[100] ^ 1]) + raw[101:]),
    }
    damage[harm]()
    assert [flaw.what for flaw in lake.verify()] == list(lake.state().files)


def test_hostile_bytes_are_archived_as_they_are(lake: Lake, topic: Topic) -> None:
    hostile = [b"", b"\xff\x00", b"[" * 20_000, b'{"specversion":"1.0"}']
    topic.publish(topic.envelope(0), *hostile[1:], topic.envelope(1))

    archiver(lake, topic).run([topic.name])

    (path,) = lake.paths(lake.state().files_of(topic.name))
    found = pq.read_table(path).to_pylist()
    assert {row["original"] for row in found if row["malformed"]} == set(hostile[1:])
    assert {row["id"] for row in found if not row["malformed"]} == {"m0", "m1"}
