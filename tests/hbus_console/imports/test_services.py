from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.bus.errors import PublishFailed, PublishUnknown
from engine.bus.producer import BatchItem
from engine.core.clock import ManualClock
from engine.core.errors import BadInput, HbusError, Unavailable
from hbus_console.access.permissions import ANONYMOUS, SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.imports.models import ImportRun
from hbus_console.imports.services import ImportReport, run_import, try_import
from hbus_console.publishing.producer import shared_producer
from tests.hbus_console.imports.conftest import imported, request

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
