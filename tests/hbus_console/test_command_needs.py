from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import manage
from hbus_console import command_needs
from hbus_console.command_needs import MAKING, NEEDING_NONE, typed
from hbus_console.listing import listing
from hbus_console.state import ROOT

#: Words without which a command would refuse for their lack; nothing is asked of the others.
_WORDS = {"role": ["web"]}


def _commands() -> list[str]:
    """All there are: of Django, of the console, of the example, and those that measure."""
    told = set(re.findall(r"^ {4}(\S+)$", listing("manage.py"), re.MULTILINE))
    return sorted(told | manage.MEASUREMENTS)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A STATE that does not exist, and still does not at the end."""
    state = tmp_path / "nothing" / "here"
    monkeypatch.setenv("STATE", str(state))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    yield state
    assert list(tmp_path.iterdir()) == []


def test_what_is_named_is_a_command() -> None:
    assert set(_commands()) > MAKING
    assert NEEDING_NONE - {"help", "version", "--version"} < set(_commands())
    assert not MAKING & NEEDING_NONE


@pytest.mark.parametrize("command", [name for name in _commands() if name not in MAKING | NEEDING_NONE])
def test_a_command_on_no_installation_says_so_and_makes_nothing(
    command: str, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", command, *_WORDS.get(command, [])])
    assert manage.main() == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert f"hbus: There is no installation in {nowhere}." in told.err
    assert "make run" in told.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["check"], 0, "no issues"),
        (["growth"], 0, "messages a day"),
        (["status", "--help"], 0, "Show the roles"),
        (["cron", "next", "0 9 * * *"], 0, "At 09:00 every day"),
        (
            ["job", "import-beat", "tests.hbus_console.jobs.beat.periodic:app", "--owner", "ops"],
            0,
            "name: every-minute",
        ),
        (["bench", "bus", "--only", "nothing of that name"], 2, ""),
    ],
)
def test_a_command_that_needs_none_leaves_none_behind(nowhere: Path, words: list[str], code: int, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "hbus_console.settings"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, says in done.stdout) == (code, True), done.stdout + done.stderr


@pytest.mark.parametrize("words", [["up"], ["prepare"], ["role", "store"], ["hotel_demo", "--fast"]])
def test_what_makes_an_installation_may_begin_on_none(nowhere: Path, words: list[str]) -> None:
    command_needs.look_first(words)


def test_a_database_elsewhere_is_an_installation(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://hbus@database/hbus")
    command_needs.look_first(["status"])


@pytest.mark.parametrize(
    ("state", "port", "words"),
    [
        ("", "", "make demo"),
        (str(ROOT / "var"), "8000", "make demo"),
        ("/srv/two", "8001", "STATE=/srv/two PORT=8001 make demo"),
        ("/srv/our bus", "", "STATE='/srv/our bus' make demo"),
    ],
)
def test_a_command_is_told_as_it_is_typed_for_this_installation(
    monkeypatch: pytest.MonkeyPatch, state: str, port: str, words: str
) -> None:
    monkeypatch.setenv("STATE", state)
    monkeypatch.setenv("PORT", port)
    assert typed("make demo") == words
