from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from engine.core.errors import BadInput
from hbus_console.imports.models import ImportRun
from hbus_console.imports.services import ImportReport

CSV = "id,room,nights,at\n1,A,3,7/1/2015\n2,B,NULL,7/2/2015\n3,C,x,7/3/2015\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bookings.csv"
    path.write_text(CSV)
    return path


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps({"casts": {"nights": "integer"}, "fields": ["room", "nights"], "topic": "elsewhere"}))
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: Any) -> dict[str, Any]:
    call_command("import_events", *map(str, arguments), "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_mapping_file_and_options_together_and_options_win(
    file: Path, mapping: Path, topic: str, stored: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(
        capsys, file, "--mapping", mapping, "--topic", topic, "--key", "id", "--type", "hotel.booking",
        "--time", "at", "--time-format", "%m/%d/%Y",
    )  # fmt: skip
    assert (found["read"], found["published"], found["rejected"], found["holds"]) == (3, 1, 2, True)
    assert found["rejects_file"] == f"{file}.rejects.jsonl"
    (message,) = stored()
    assert (message["type"], message["partitionkey"], message["time"]) == (
        "hotel.booking",
        "1",
        "2015-07-01T00:00:00.000Z",
    )
    assert message["data"] == {"room": "A", "nights": 3}


def test_it_says_what_became_of_the_rows(file: Path, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("import_events", str(file), "--topic", topic)
    said = capsys.readouterr().out
    assert f"{file} → {topic}: 3 read = 0 published + 0 deduplicated + 3 rejected" in said
    assert f"{file}.rejects.jsonl" in said
    call_command("import_events", str(file), "--topic", topic)
    assert "An earlier run had finished it" in capsys.readouterr().out


def test_a_dry_run_names_lines_and_publishes_nothing(
    file: Path, topic: str, stored: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("import_events", str(file), "--topic", topic, "--dry-run")
    said = capsys.readouterr().out
    assert "line 2:" in said
    assert "0 would be published" in said
    assert stored() == []
    assert not ImportRun.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--batch", "0"], "batch"),
        (["--rate", "-1"], "rate"),
        (["--mapping", "/nowhere.json"], "mapping"),
        ([], "topic"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(file: Path, topic: str, arguments: list[str], field: str) -> None:
    named = ["--topic", topic] if arguments else []
    with pytest.raises(BadInput) as refused:
        call_command("import_events", str(file), *named, *arguments)
    assert refused.value.field == field


def test_an_account_that_does_not_hold_ends_with_one(
    file: Path, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ImportReport(topic, str(file), read=3, published=1, finished=True)
    monkeypatch.setattr("hbus_console.imports.management.commands.import_events.run_import", lambda *_, **__: wrong)
    with pytest.raises(SystemExit) as ended:
        call_command("import_events", str(file), "--topic", topic, "--json")
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["holds"] is False
