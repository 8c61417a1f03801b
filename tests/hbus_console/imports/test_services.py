from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.bus.errors import PublishFailed, PublishUnknown
from engine.bus.producer import BatchItem
from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Conflict, HbusError, Unavailable
from hbus_console.access.permissions import ANONYMOUS, SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.imports import services
from hbus_console.imports.mapping import Mapping
from hbus_console.imports.models import ImportRun
from hbus_console.imports.rows import read_rows
from hbus_console.imports.services import ImportReport, run_import, try_import
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from tests.hbus_console.imports.conftest import imported, request
from tests.hbus_console.publishing.known import known_for_ms

CSV = "id,room,nights\n1,A,3\n2,B,2\n3,C,many\n4,D,-1\n5,E,1\n6,F\n7,G,4\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bookings.csv"
    path.write_text(CSV)
    return path


class Flaky:
    """The real producer; the first answers are lost on the way back, or the store does not take anything."""

    def __init__(self, *, lost: int = 0, away: int = 0) -> None:
        self._real = shared_producer()
        self._lost, self._away = lost, away
        self.calls = 0

    def publish_batch(self, topic: str, items: Sequence[BatchItem]) -> list[Any]:
        self.calls += 1
        if self._away:
            self._away -= 1
            return [PublishFailed("away")] * len(items)
        answers: list[Any] = self._real.publish_batch(topic, items)
        if self._lost:
            self._lost -= 1
            return [PublishUnknown("cut off") if not isinstance(a, HbusError) else a for a in answers]
        return answers


class WillingClock(ManualClock):
    """Whoever waits on it moves it, and it remembers for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.advance(seconds)
        return event.is_set()


def play(file: Path, topic: str, producer: Any) -> ImportReport:
    return run_import(SYSTEM, request(file, topic), producer, stop=threading.Event(), clock=WillingClock())


def test_every_row_is_published_or_rejected_with_its_line_and_reason(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    report = imported(request(file, topic))
    assert (report.read, report.published, report.deduplicated, report.rejected) == (7, 4, 0, 3)
    assert report.holds
    assert report.finished
    assert [message["data"]["room"] for message in stored()] == ["A", "B", "E", "G"]
    rejects = [json.loads(line) for line in Path(report.rejects_file).read_text().splitlines()]
    assert [(one["line"], one["row"]) for one in rejects] == [(4, 3), (5, 4), (7, 6)]
    assert "nights holds 'many', which is no integer" in rejects[0]["reason"]
    assert "breaks the schema" in rejects[1]["reason"]
    assert "2 columns where the header has 3" in rejects[2]["reason"]
    assert rejects[0]["values"] == {"id": "3", "room": "C", "nights": "many"}


def test_start_and_end_stand_in_the_audit_log(file: Path, topic: str) -> None:
    imported(request(file, topic))
    entries = list(AuditEntry.objects.filter(action__startswith="import.").order_by("seq"))
    assert [(entry.action, entry.target) for entry in entries] == [("import.start", topic), ("import.finish", topic)]
    assert entries[1].after["published"] == 4


def test_a_stopped_import_goes_on_where_it_stopped(file: Path, topic: str, stored: Callable[[], list[Any]]) -> None:
    stop = threading.Event()
    first = imported(request(file, topic), stop=stop, progress=lambda report: report.read >= 4 and stop.set())
    assert (first.read, first.finished) == (4, False)
    second = imported(request(file, topic))
    assert (second.resumed_after, second.read, second.published, second.rejected) == (4, 7, 4, 3)
    assert second.deduplicated == 0
    assert len(stored()) == 4


def test_a_batch_published_but_not_accounted_for_is_recognised(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    # Given that a run died after publishing its second batch and writing rejects, before accounting for either
    imported(request(file, topic))
    run = ImportRun.objects.get()
    run.read, run.published, run.rejected, run.rejects_bytes, run.finished_at = 2, 2, 0, 0, None
    run.save()
    # When the next one goes on
    report = imported(request(file, topic))
    # Then nothing is stored twice, the account holds, and no row is rejected twice
    assert (report.read, report.published, report.deduplicated, report.rejected) == (7, 2, 2, 3)
    assert report.holds
    assert len(stored()) == 4
    assert len(Path(report.rejects_file).read_text().splitlines()) == 3


def test_it_is_recognised_after_a_weekend_though_the_topic_forgets_within_a_minute(file: Path, topic: str) -> None:
    Topic.objects.update(idempotency_window_s=60)
    catalog.changed()
    imported(request(file, topic))
    left_ms = known_for_ms(topic)
    assert len(left_ms) == 4
    assert min(left_ms) > 64 * 3_600_000, "from Friday at five to Monday at nine"


def test_a_finished_import_does_nothing_and_tells_the_same(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    first, second = imported(request(file, topic)), imported(request(file, topic))
    assert (second.read, second.published, second.rejected) == (first.read, first.published, first.rejected)
    assert second.resumed_after == 7
    assert len(stored()) == 4
    assert AuditEntry.objects.filter(action="import.finish").count() == 1


def test_from_the_start_again_everything_is_recognised(file: Path, topic: str, stored: Callable[[], list[Any]]) -> None:
    imported(request(file, topic))
    again = imported(request(file, topic, from_start=True))
    assert (again.published, again.deduplicated, again.rejected) == (0, 4, 3)
    assert len(stored()) == 4


def test_an_unknown_outcome_is_repeated_under_the_same_keys(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    report = play(file, topic, Flaky(lost=1))
    assert (report.read, report.published, report.deduplicated, report.rejected) == (7, 2, 2, 3)
    assert len(stored()) == 4


def test_an_absent_store_is_waited_for(file: Path, topic: str, stored: Callable[[], list[Any]]) -> None:
    report = play(file, topic, Flaky(away=3))
    assert report.published == 4
    assert len(stored()) == 4


def test_a_store_that_stays_away_ends_the_run_and_the_next_goes_on(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    with pytest.raises(Unavailable, match="goes on from here"):
        play(file, topic, Flaky(away=1_000))
    assert imported(request(file, topic)).published == 4
    assert len(stored()) == 4


def test_the_rate_holds_back_each_batch_after_the_first(file: Path, topic: str) -> None:
    clock = WillingClock()
    imported(request(file, topic, rate=2.0), clock=clock)
    # Batches of 2, 1, 1 and 1 messages (rejected rows cost nothing) at two a second: each waits for the one before.
    assert clock.waits == [1.0, 0.5, 0.5]


def test_a_dry_run_checks_everything_and_leaves_nothing(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    report, problems = try_import(SYSTEM, request(file, topic), shared_producer())
    assert (report.read, report.published, report.rejected, report.holds) == (7, 4, 3, True)
    assert [problem.partition(":")[0] for problem in problems] == ["line 4", "line 5", "line 7"]
    assert stored() == []
    assert not ImportRun.objects.exists()
    assert not (file.parent / "rejects.jsonl").exists()


def test_who_may_not_publish_may_not_import(file: Path, topic: str) -> None:
    with pytest.raises(Forbidden):
        run_import(ANONYMOUS, request(file, topic), shared_producer(), stop=threading.Event())
    assert not ImportRun.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"), [({"batch": 0}, "batch"), ({"batch": 5_001}, "batch"), ({"rate": -1}, "rate")]
)
def test_options_out_of_bounds_are_refused(file: Path, topic: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        imported(request(file, topic, **changes))
    assert refused.value.field == field


def test_an_unwritable_rejects_file_is_refused_by_name(file: Path, topic: str) -> None:
    with pytest.raises(BadInput) as refused:
        imported(request(file, topic, rejects=file.parent / "no such folder" / "rejects"))
    assert refused.value.field == "rejects"


def write(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes() + text.encode())


def test_of_a_file_that_has_grown_only_what_is_new_is_published(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    imported(request(file, topic))
    for number in (8, 9):
        write(file, f"{number},N{number},1\n{number},bad\n")
        report = imported(request(file, topic))
        assert (report.published, report.deduplicated, report.rejected, report.holds) == (1, 0, 1, True)
        assert report.taken_over == report.read - 2
    assert [message["data"]["room"] for message in stored()] == ["A", "B", "E", "G", "N8", "N9"]
    # The rejects of all stand in the one file.
    rejects = [json.loads(line)["line"] for line in Path(report.rejects_file).read_text().splitlines()]
    assert rejects == [4, 5, 7, 10, 12]
    # And from the start everything is recognised, whichever of the files it was read from.
    again = imported(request(file, topic, from_start=True))
    assert (again.taken_over, again.published, again.deduplicated, again.rejected) == (0, 0, 6, 5)


def test_a_gzip_that_has_grown_by_a_member_goes_on(tmp_path: Path, topic: str, stored: Callable[[], list[Any]]) -> None:
    file = tmp_path / "bookings.csv.gz"
    file.write_bytes(gzip.compress(CSV.encode()))
    imported(request(file, topic))
    file.write_bytes(file.read_bytes() + gzip.compress(b"8,H,1\n"))
    report = imported(request(file, topic))
    assert (report.taken_over, report.published) == (7, 1)
    assert len(stored()) == 5


def test_a_row_that_was_not_whole_yet_is_published_once_it_is(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    write(file, "8,Hall,1")
    first = imported(request(file, topic))
    assert (first.published, first.rejected) == (5, 3)
    write(file, "2\n9,I,")
    second = imported(request(file, topic))
    assert (second.taken_over, second.published, second.rejected, second.holds) == (7, 1, 1, True)
    write(file, "1\n")
    third = imported(request(file, topic))
    assert (third.taken_over, third.published, third.holds) == (8, 1, True)
    nights = [(message["data"]["room"], message["data"]["nights"]) for message in stored()]
    assert nights[4:] == [("Hall", 1), ("Hall", 12), ("I", 1)]


def test_an_import_that_was_stopped_before_its_file_grew_goes_on(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    stop = threading.Event()
    imported(request(file, topic), stop=stop, progress=lambda report: report.read >= 4 and stop.set())
    # Given that its second batch was published and not accounted for
    second = next(row for row in read_rows(file) if row.number == 2)
    ImportRun.objects.update(
        read=2, published=2, rejected=0, rejects_bytes=0, last_line=second.line, last_row=second.digest
    )
    write(file, "8,H,1\n")
    report = imported(request(file, topic))
    assert (report.taken_over, report.published, report.rejected, report.holds) == (2, 3, 3, True)
    assert len(stored()) == 5
    assert len(Path(report.rejects_file).read_text().splitlines()) == 3


def test_a_file_that_changed_in_its_beginning_has_not_grown(file: Path, topic: str) -> None:
    imported(request(file, topic))
    file.write_text(CSV.replace("1,A,3", "1,Z,3") + "8,H,1\n")
    report = imported(request(file, topic, rejects=file.with_name("others.jsonl")))
    assert (report.taken_over, report.published) == (0, 5)


def test_another_mapping_takes_nothing_over(file: Path, topic: str) -> None:
    imported(request(file, topic))
    write(file, "8,H,1\n")
    mapping = Mapping(topic=topic, casts={"nights": "integer"}, const={"source": "pms"})
    report = imported(request(file, topic, mapping=mapping, rejects=file.with_name("others.jsonl")))
    assert (report.taken_over, report.published) == (0, 5)


def test_rows_that_moved_because_a_quote_was_open_are_told_and_not_lost(file: Path, topic: str) -> None:
    write(file, '8,"H\n9,I,1\n')
    imported(request(file, topic))
    write(file, '",2\n10,J,1\n')
    with pytest.raises(BadInput, match="has grown since it was imported, and its rows no longer lie where they did"):
        imported(request(file, topic))
    report = imported(request(file, topic, from_start=True))
    assert (report.published, report.deduplicated, report.holds) == (2, 4, True)


def test_a_batch_is_bounded_in_bytes(file: Path, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "BATCH_BYTES", 12)
    producer = Flaky()
    asked = request(file, topic, batch=5_000)
    report = run_import(SYSTEM, asked, producer, stop=threading.Event(), clock=WillingClock())  # type: ignore[arg-type]
    assert (report.published, report.rejected) == (4, 3)
    # The rows have 6, 6 | 9, 7 | 6, 4, 6 bytes.
    assert producer.calls == 3


def foreign(path: Path) -> None:
    path.write_text("my notes\n")


@pytest.mark.parametrize("before", [False, True])
def test_a_file_that_it_did_not_write_is_never_overwritten(file: Path, topic: str, before: bool) -> None:
    asked = request(file, topic, rejects=file.with_name("notes"))
    if before:
        # Also where its own has been replaced by another.
        imported(asked)
        asked = request(file, topic, rejects=file.with_name("notes"), from_start=True)
    foreign(asked.rejects)
    with pytest.raises(BadInput, match="holds what this import did not write") as refused:
        imported(asked)
    assert refused.value.field == "rejects"
    assert asked.rejects.read_text() == "my notes\n"


def test_the_rejects_of_another_import_are_not_overwritten(file: Path, topic: str, tmp_path: Path) -> None:
    first = imported(request(file, topic))
    kept = Path(first.rejects_file).read_text()
    other = tmp_path / "other.csv"
    other.write_text(CSV.replace("C", "K"))
    with pytest.raises(BadInput, match="did not write"):
        imported(request(other, topic))
    assert Path(first.rejects_file).read_text() == kept


def test_a_file_that_comes_while_it_runs_is_not_overwritten_either(file: Path, topic: str) -> None:
    asked = request(file, topic)
    with pytest.raises(BadInput, match="made by somebody else"):
        imported(asked, progress=lambda report: report.read == 2 and foreign(asked.rejects))
    assert asked.rejects.read_text() == "my notes\n"


def test_an_empty_file_of_rejects_is_taken(file: Path, topic: str) -> None:
    asked = request(file, topic)
    asked.rejects.touch()
    assert len(Path(imported(asked).rejects_file).read_text().splitlines()) == 3


def test_an_import_that_an_earlier_release_began_goes_on_with_its_file_of_rejects(file: Path, topic: str) -> None:
    asked = request(file, topic)
    stop = threading.Event()
    imported(asked, stop=stop, progress=lambda report: report.read >= 4 and stop.set())
    ImportRun.objects.update(rejects_file="", file_bytes=0, origin="", last_line=0, last_row="")
    report = imported(asked)
    assert (report.read, report.rejected, report.holds) == (7, 3, True)
    assert [json.loads(line)["row"] for line in Path(report.rejects_file).read_text().splitlines()] == [3, 4, 6]


class Overtaken(Flaky):
    """While its first batch is under way another import of the same file goes through all of it."""

    def __init__(self, file: Path, topic: str) -> None:
        super().__init__()
        self._file, self._topic = file, topic

    def publish_batch(self, topic: str, items: Sequence[BatchItem]) -> list[Any]:
        answers = super().publish_batch(topic, items)
        if self.calls == 1:
            play(self._file, self._topic, shared_producer())
        return answers


def test_of_two_imports_of_one_file_the_second_to_account_for_a_row_gives_way(
    file: Path, topic: str, stored: Callable[[], list[Any]]
) -> None:
    """Found by a stranger: the first wrote its old figures over those of the one that had finished."""
    with pytest.raises(Conflict) as raised:
        play(file, topic, Overtaken(file, topic))
    assert raised.value.field == "file"
    run = ImportRun.objects.get()
    assert (run.read, run.published + run.deduplicated, run.rejected) == (7, 4, 3)
    assert run.finished_at is not None
    report = play(file, topic, shared_producer())
    assert (report.read, report.published + report.deduplicated, report.rejected, report.holds) == (7, 4, 3, True)
    assert [message["data"]["room"] for message in stored()] == ["A", "B", "E", "G"]
