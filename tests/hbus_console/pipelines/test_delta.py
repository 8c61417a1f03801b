"""Delta tables over the archive: by the switch with each run, and by the command."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from pytest_django import Settings

from engine.core.errors import NotThere
from engine.pipeline.delta.places import DELTA, table_folder
from engine.pipeline.lake.state import Kind
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.services import archive_topic
from hbus_console.topics.models import Topic
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, kept, publish

deltalake = pytest.importorskip("deltalake", reason="made by make spark")
pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "the auditors ask for it"


def archive(*words: str) -> str:
    out = StringIO()
    call_command("archive", *words, stdout=out)
    return out.getvalue()


def in_table(topic: str = TOPIC) -> list[str]:
    table = deltalake.DeltaTable(table_folder(lake().root, topic, Kind.MESSAGES).as_uri())
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_nothing_of_it_is_there_unless_somebody_wants_it(topic: Topic, governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    assert not (lake().root / DELTA).exists()


def test_with_the_switch_each_run_brings_tables_up_to_date(topic: Topic, governor: Actor, settings: Settings) -> None:
    settings.HBUS_DELTA = True
    assert archive("run", "--json") == ""
    archive_topic(governor, TOPIC, WHY)
    assert "1 Delta table brought up to date." in archive("run").splitlines()
    assert in_table() == sorted(kept())
    publish(3)
    archive("run")
    assert in_table() == sorted(kept())
    assert len(in_table()) == 43
    assert "Delta" not in archive("run")


def test_the_command_does_it_now_for_topics_that_are_named(topic: Topic, governor: Actor) -> None:
    for name in (TOPIC, OTHER):
        archive_topic(governor, name, WHY)
    publish(2, OTHER)
    archive("run")
    (said,) = [json.loads(line) for line in archive("delta", OTHER, "--json").splitlines()]
    folder = table_folder(lake().root, OTHER, Kind.MESSAGES)
    assert said == {
        "topic": OTHER,
        "kind": "messages",
        "folder": str(folder),
        "version": 0,
        "files": 1,
        "rows": 2,
    }
    assert not table_folder(lake().root, TOPIC, Kind.MESSAGES).exists()
    assert archive("delta") == f"{table_folder(lake().root, TOPIC, Kind.MESSAGES)}: 40 rows in 1 file, version 0.\n"
    assert archive("delta") == ""
    with pytest.raises(NotThere) as raised:
        archive("delta", "nobody")
    assert raised.value.field == "topic"


def test_what_the_lake_sweeps_goes_from_the_tables_as_well(
    topic: Topic, governor: Actor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HBUS_DELTA = True
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    folder = table_folder(lake().root, TOPIC, Kind.MESSAGES)
    (link,) = folder.glob("2*/*.parquet")
    archive("erase", TOPIC, "--key", "H-0", "--reason", WHY)
    # The switch may be off again: what was erased goes all the same.
    settings.HBUS_DELTA = False
    clock = lake().clock
    now_ms = clock.now_ms()
    monkeypatch.setattr(type(clock), "now_ms", lambda self: now_ms + 7_200_000)
    archive("tend")
    assert not link.exists()
