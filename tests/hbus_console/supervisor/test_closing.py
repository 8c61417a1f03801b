"""What an installation keeps is closed to other accounts, also where an earlier release or a copy left it open."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hbus_console.supervisor.closing import close
from tests.installation import RunningInstallation


def _modes(folder: Path) -> dict[str, str]:
    paths = [folder, *folder.rglob("*")]
    return {path.name: oct(path.stat().st_mode & 0o777) for path in paths if not path.is_symlink()}


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A state folder as one that was copied with the usual mask of a shell."""
    state = tmp_path / "state"
    for name in ("hbus.sqlite3", "ledger.sqlite3-wal", "secrets/audit", "store/appendonlydir/1.aof", "bin/nsqd"):
        path = state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(0o644)
    (state / "bin" / "nsqd").chmod(0o755)
    for folder in (state, *(path for path in state.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return state


def test_an_open_folder_is_closed_and_that_is_said_once(opened: Path) -> None:
    said: list[str] = []
    close(opened, said.append)
    assert _modes(opened) == {
        "state": "0o700",
        "secrets": "0o700",
        "store": "0o700",
        "appendonlydir": "0o700",
        "bin": "0o700",
        "hbus.sqlite3": "0o600",
        "ledger.sqlite3-wal": "0o600",
        "audit": "0o600",
        "1.aof": "0o600",
        "nsqd": "0o700",
    }
    (sentence,) = said
    assert sentence.startswith(f"{opened} was open to other accounts of this machine: it is closed now")
    close(opened, said.append)
    assert said == [sentence]


def test_what_a_link_leads_to_is_left(opened: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "file").touch(mode=0o644)
    before = _modes(elsewhere)
    (opened / "link").symlink_to(elsewhere)
    (opened / "nowhere").symlink_to(tmp_path / "gone")
    close(opened, lambda _: None)
    assert _modes(elsewhere) == before


def test_what_the_commands_make_is_for_this_account_alone_and_a_start_closes_what_is_not(
    prepared: Path, tmp_path: Path
) -> None:
    assert {name: mode for name, mode in _modes(prepared).items() if int(mode, 8) & 0o077} == {}
    installation = RunningInstallation(tmp_path / "state")
    shutil.copytree(prepared, installation.state)
    for path in (installation.state, installation.state / "secrets" / "audit", installation.state / "hbus.sqlite3"):
        path.chmod(0o755)
    made = installation.manage("prepare", "--no-admin")
    assert f"{installation.state} was open to other accounts of this machine" in made.stdout
    assert {name: mode for name, mode in _modes(installation.state).items() if int(mode, 8) & 0o077} == {}
