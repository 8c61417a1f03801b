"""The applications of the hotel example run as jobs do."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cron.work.spark.installed import InstalledSpark, find_spark
from engine.cron.work.spark.progress import SparkProgress
from engine.cron.work.spark.submit import Submission, run_application
from hbus_console.state import ROOT
from tests.engine.cron.work.conftest import Given
from tests.engine.pipeline.lake.filling import Filled

pytestmark = pytest.mark.long


@pytest.mark.whole
def test_the_example_runs_where_pypi_alone_brings_a_java(given: Given, spark: InstalledSpark, tmp_path: Path) -> None:
    header = "hotel,reservation_status,stays_in_weekend_nights,stays_in_week_nights\n"
    rows = "Resort Hotel,Check-Out,2,5\nCity Hotel,Check-Out,0,1\nCity Hotel,Canceled,2,9\nResort Hotel,Check-Out,1,0\n"
    (tmp_path / "bookings.csv").write_text(header + rows)
    of_pypi = find_spark({"PATH": ""})
    assert not of_pypi.java.has_vector
    context = given(bookings=str(tmp_path / "bookings.csv"))
    application = ROOT / "examples" / "hotel" / "spark_apps" / "stays_by_hotel.py"
    progress: list[SparkProgress] = []
    outcome = run_application(context, of_pypi, Submission(application), tmp_path / "scratch", progress.append)
    told = context.log.read(last=True)
    assert progress[-1].tasks.done == progress[-1].tasks.total > 0, told
    assert outcome.done, told
    assert f"Java version {of_pypi.java.version}" in told
    assert "City Hotel: 1 stays, 1 nights\nResort Hotel: 2 stays, 8 nights\n" in told


def test_an_application_reads_the_archive_by_two_lines(given: Given, spark: InstalledSpark, tmp_path: Path) -> None:
    filled = Filled(tmp_path / "lake")
    filled.add(["a", "b", "a"], "booking.created")
    context = given(lake=str(filled.root), topic="booking.created")
    application = ROOT / "examples" / "hotel" / "spark_apps" / "busiest_keys.py"
    outcome = run_application(context, spark, Submission(application), tmp_path / "scratch")
    told = context.log.read(last=True)
    assert outcome.done, told
    assert "a: 2 messages\nb: 1 messages\n" in told


def test_payloads_of_the_archive_are_columns_and_each_event_counts_once(
    given: Given, spark: InstalledSpark, tmp_path: Path
) -> None:
    filled = Filled(tmp_path / "lake")
    for booking, hotel, arrival, nights in (
        ("b1", "City Hotel", "2026-11-30", 3),
        ("b2", "City Hotel", "2026-11-01", 4),
        ("b3", "Resort Hotel", "2026-12-01", 1_000),
    ):
        stay = {"arrival": arrival, "nights": nights, "room": "A"}
        filled.add(["k"], "booking.created", data={"booking_id": booking, "hotel": hotel, "stay": stay})
        # Stored again, as it was.
        filled.count -= 1
        filled.add(["k"], "booking.created", data={"booking_id": booking, "hotel": hotel, "stay": stay})
    gone = {"arrival": "2026-11-02", "nights": 3, "room": "A"}
    filled.add(["k"], "booking.cancelled", data={"booking_id": "b2", "reason": "no_show", "released": gone})
    context = given(lake=str(filled.root))
    application = ROOT / "examples" / "hotel" / "spark_apps" / "room_nights.py"
    outcome = run_application(context, spark, Submission(application), tmp_path / "scratch")
    told = context.log.read(last=True)
    assert outcome.done, told
    assert "City Hotel, 2026-11: 7 nights booked, 3 of them cancelled\n" in told
    assert "Resort Hotel, 2026-12: 1,000 nights booked, 0 of them cancelled\n" in told
