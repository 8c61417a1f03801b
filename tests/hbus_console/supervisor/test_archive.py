"""An archive is read as it was made, or not at all; and a restore that is refused leaves nothing."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import BadInput, ConfigurationError
from hbus_console.state import ROOT
from hbus_console.supervisor import pg_tools, restore
from hbus_console.supervisor.archive import FORMAT, MANIFEST, Manifest, pack, refuse_existing, unpack


def manifest(**more: Any) -> Manifest:
    fields: dict[str, Any] = {
        "format": FORMAT,
        "made_at": "2026-01-01T00:00:00.000Z",
        "databases": {"default": "sqlite"},
        "migrations": {"audit": ["0001_initial"], "auth": ["9999_of_django"]},
        "audit_seq": 1,
        "audit_hash": "0" * 64,
        "keys_elsewhere": [],
    }
    return Manifest(**fields | more)


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., Path]:
    def make(**more: Any) -> Path:
        folder = tmp_path / "packed"
        (folder / "secrets").mkdir(parents=True)
        (folder / "secrets" / "audit").write_text("a key")
        (folder / "default.sqlite3").write_bytes(os.urandom(3_000_000))
        target = tmp_path / "backup.tar.gz"
        pack(folder, manifest(**more), target)
        return target

    return make


def rewritten(path: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> Path:
    """The same archive with members changed (or, for ``None``, left out)."""
    with tarfile.open(path) as old:
        members = [(each.name, old.extractfile(each).read()) for each in old]  # type: ignore[union-attr]
    with tarfile.open(path, "w:gz") as new:
        for name, content in members:
            if (made := change(name, content)) is not None:
                info = tarfile.TarInfo(made[0])
                info.size = len(made[1])
                new.addfile(info, io.BytesIO(made[1]))
    return path


def test_what_was_packed_comes_back_closed_to_others(archive: Callable[..., Path], tmp_path: Path) -> None:
    path = archive()
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "out").mkdir()
    found = unpack(path, tmp_path / "out")
    assert set(found.files) == {"default.sqlite3", "secrets/audit"}
    for name in found.files:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "packed" / name).read_bytes()
        assert (tmp_path / "out" / name).stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.tar.gz", "out", "packed"], "no draft is left"


def test_no_backup_is_written_over(archive: Callable[..., Path], tmp_path: Path) -> None:
    path = archive()
    before = path.read_bytes()
    with pytest.raises(BadInput, match="is there already"):
        refuse_existing(path)
    with pytest.raises(BadInput, match="is there already"):
        pack(tmp_path / "packed", manifest(), path)
    assert path.read_bytes() == before
    with pytest.raises(BadInput, match="There is no folder"):
        refuse_existing(tmp_path / "nowhere" / "backup.tar.gz")


def another_byte(name: str, content: bytes) -> tuple[str, bytes]:
    return name, content[:-1] + bytes([content[-1] ^ 1]) if name == "default.sqlite3" else content


def newer_format(name: str, content: bytes) -> tuple[str, bytes]:
    return name, json.dumps(json.loads(content) | {"format": FORMAT + 1}).encode() if name == MANIFEST else content


FAULTS: dict[str, tuple[Callable[[str, bytes], tuple[str, bytes] | None], str]] = {
    "another byte": (another_byte, "default.sqlite3 is not what was packed"),
    "a file less": (lambda name, it: None if name == "secrets/audit" else (name, it), "secrets/audit is missing"),
    "another name": (lambda name, it: (name.replace("audit", "other"), it), "'secrets/other' does not belong into it"),
    "a way out": (lambda name, it: (name.replace("secrets", "../secrets"), it), "does not belong into it"),
    "no manifest": (lambda name, it: None if name == MANIFEST else (name, it), "it has no manifest"),
    "no JSON": (lambda name, it: (name, b"{" if name == MANIFEST else it), "no whole archive"),
    "a newer format": (newer_format, "made by a newer release of hbus"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_as_it_was_made_is_refused_and_leaves_nothing(
    archive: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    change, words = FAULTS[fault]
    path = rewritten(archive(), change)
    monkeypatch.setenv("STATE", str(tmp_path / "state"))
    with pytest.raises(BadInput, match=words.replace("(", r"\(")):
        restore.run(path, print)
    assert not (tmp_path / "state").exists()


def test_a_torn_archive_is_refused(archive: Callable[..., Path], tmp_path: Path) -> None:
    path = archive()
    path.write_bytes(path.read_bytes()[:-1_000_000])
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInput, match="is no whole archive of hbus"):
        unpack(path, tmp_path / "out")
    with pytest.raises(BadInput, match="There is no file"):
        unpack(tmp_path / "nothing.tar.gz", tmp_path / "out")


@pytest.mark.parametrize(
    "more",
    [
        *(b"more", gzip.compress(b"more"), gzip.compress(b"\0" * 2_000_000 + b"more")),
        # Found by a stranger: gzip itself passes over these.
        *(b"\0" * 512, b"\0", gzip.compress(b"\0" * 512), gzip.compress(b"")),
    ],
    ids=["plain", "packed", "packed after zeros", "zeros", "one zero", "packed zeros", "packed nothing"],
)
def test_an_archive_to_which_something_was_appended_is_refused(
    archive: Callable[..., Path], tmp_path: Path, more: bytes
) -> None:
    path = archive()
    with path.open("ab") as file:
        file.write(more)
    (tmp_path / "new").mkdir()
    with pytest.raises(BadInput, match="no whole archive"):
        unpack(path, tmp_path / "new")


def test_an_archive_of_a_release_with_more_migrations_is_refused(
    archive: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(migrations={"audit": ["0001_initial", "0999_later"], "of_a_guest": ["0001_initial"]})
    monkeypatch.setenv("STATE", str(tmp_path / "state"))
    with pytest.raises(BadInput, match=r"does not know audit\.0999_later"):
        restore.run(path, print)
    assert not (tmp_path / "state").exists()


def test_a_folder_with_something_in_it_is_left_alone(
    archive: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    (state / "secrets").mkdir(parents=True)
    monkeypatch.setenv("STATE", str(state))
    with pytest.raises(ConfigurationError, match="is not empty, and nothing is written over"):
        restore.run(archive(), print)
    assert [path.name for path in state.iterdir()] == ["secrets"]


def test_databases_of_another_kind_than_the_environment_names_are_refused(
    archive: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://hbus@127.0.0.1:1/hbus")
    with pytest.raises(ConfigurationError, match="Take DATABASE_URL away"):
        restore.run(archive(), print)
    assert not (tmp_path / "state").exists()


def test_without_postgresqls_programs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"there is no pg_dump on this machine.*postgresql-client"):
        pg_tools.dump("postgresql://hbus:word@127.0.0.1:1/hbus", tmp_path / "dump")


@pytest.mark.parametrize("words", [("backup", "--to", "x.tar.gz"), ("audit", "verify")])
def test_a_command_on_an_installation_that_is_not_there_says_so_and_makes_nothing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *words],
        cwd=tmp_path,
        env=environment | {"STATE": str(tmp_path / "nowhere"), "DJANGO_SETTINGS_MODULE": "hbus_console.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"hbus: There is no installation in {tmp_path / 'nowhere'}. Name its folder")
    assert list(tmp_path.iterdir()) == []
