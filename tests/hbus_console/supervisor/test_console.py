from __future__ import annotations

import io
from pathlib import Path

import pytest

from hbus_console.supervisor import console
from hbus_console.supervisor.console import Console, LogFile
from tests.full_disk import no_room


def _shown(line: str) -> str:
    stream = io.StringIO()
    Console(stream).show("web", 36, line)
    return stream.getvalue()


def test_a_json_line_is_shown_as_a_sentence() -> None:
    line = '{"event": "sign in refused", "level": "warning", "user": "ann", "timestamp": "2026-11-21T08:00:00Z"}'
    assert _shown(line) == "web         WARNING sign in refused user=ann\n"


def test_an_exception_is_shown_below_its_line() -> None:
    assert _shown('{"event": "failed", "level": "error", "exception": "Traceback\\n  boom"}').splitlines() == [
        "web         ERROR   failed",
        "Traceback",
        "  boom",
    ]


@pytest.mark.parametrize("line", ["plain words", "{not json", '{"no": "event"}', "[1]"])
def test_any_other_line_is_shown_as_it_is(line: str) -> None:
    assert _shown(line) == f"web         {line}\n"


def test_colours_are_for_terminals_and_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in _shown("x")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert _shown("x").startswith("\x1b[36mweb")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in _shown("x")


def test_a_log_file_turns_over_by_size_and_keeps_lines_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_MAX_BYTES", 100)
    log = LogFile(tmp_path, "web", print)
    for number in range(60):
        log.write(f'{{"event": "line %s {number:03d}"}}')
    log.close()
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert files == ["web.log", "web.log.1", "web.log.2", "web.log.3"]
    assert (tmp_path / "logs" / "web.log").read_text().splitlines()[-1] == '{"event": "line %s 059"}'


def test_a_log_that_takes_no_line_is_told_once_and_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    log = LogFile(tmp_path, "web", said.append)
    log.write("before")
    with no_room():
        log.write("lost")
        log.write("lost as well")
    log.write("after")
    log.close()
    assert (tmp_path / "logs" / "web.log").read_text().splitlines() == ["before", "after"]
    told, over = said
    assert told.startswith(f"{tmp_path}/logs/web.log cannot be written (")
    assert over.endswith("is written again; 2 lines are not in it.")


def test_lines_that_nobody_takes_are_counted(tmp_path: Path) -> None:
    with (tmp_path / "shown").open("w", encoding="utf-8") as stream:
        terminal = Console(stream)
        terminal.say("before")
        with no_room():
            terminal.say("lost")
        terminal.say("after")
    assert "Up to 1 lines are missing here.\n" in (tmp_path / "shown").read_text()
    assert (tmp_path / "shown").read_text().endswith("hbus        after\n")


def test_a_line_nested_deeper_than_anyone_reads_is_shown_as_it_is() -> None:
    line = '{"event": ' + "[" * 20_000
    assert _shown(line) == f"web         {line}\n"
