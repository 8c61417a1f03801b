"""What open pages hear of a store that goes away and comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytest_django import Settings

from hbus_console.cluster import live, probes, services
from hbus_console.cluster.probes import StoreState
from hbus_console.spark_fetch.progress import Living, Phase, Progress, write

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
AWAY = StoreState("x", error="Timeout")
WELL = StoreState("x", server="Valkey", durable=True)


def test_nothing_is_called_live_while_the_store_is_away_and_its_return_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "living", lambda: ([], ""))
    monkeypatch.setattr(probes, "store_state", lambda: AWAY)
    away = live.cells(0, ("*",))
    monkeypatch.setattr(probes, "store_state", lambda: WELL)
    well = live.cells(0, ("*",))
    assert (away.stale, well.stale) == (AWAY.away, "")
    assert away.marks["store"] != well.marks["store"]


def test_how_far_the_fetch_of_spark_is_is_a_text_and_each_phase_a_mark(tmp_path: Path, settings: Settings) -> None:
    settings.STATE = tmp_path
    here = Living.of(os.getpid())
    found = [live.cells(0, ("*",))]
    for phase, done in ((Phase.DOWNLOADING, 1_000_000), (Phase.DOWNLOADING, 2_000_000), (Phase.READY, 0)):
        write(tmp_path, Progress(phase, here, here, "pyspark", done, 3_000_000))
        found.append(live.cells(0, ("*",)))
    assert [each.marks["spark"] for each in found] == ["", "downloading", "downloading", "ready"]
    assert [each.texts["spark"].removeprefix("Spark is ") for each in found] == [
        "", "being fetched: 1 of 3 MB of pyspark.", "being fetched: 2 of 3 MB of pyspark.", "ready.",
    ]  # fmt: skip
