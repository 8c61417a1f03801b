"""The documents keep up with the code."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hbus_console.state import ROOT

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_every_setting_stands_in_operations() -> None:
    settings = (ROOT / "hbus_console" / "settings.py").read_text(encoding="utf-8")
    names = set(re.findall(r'env\.(?:text|flag|integer|words)\(\s*"([A-Z_]+)"', settings))
    assert len(names) > 15
    assert {name for name in names if f"`{name}`" not in OPERATIONS} == set()


def test_the_readme_gives_a_reason_for_every_dependency_and_stays_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    pins = "".join((ROOT / f"requirements{part}.txt").read_text(encoding="utf-8") for part in ("", "-spark"))
    wanted = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[\w+\])?==", pins, re.M)
    assert len(wanted) > 10
    assert [name for name in wanted if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{document} links to {target}"


def test_the_backup_that_operations_names_has_what_was_committed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (statement,) = set(re.findall(r"VACUUM INTO '[\w.]+'", OPERATIONS))
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("hbus.sqlite3")) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE letter (id INTEGER)")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with writer:
            writer.execute("INSERT INTO letter VALUES (1)")
        shutil.copy("hbus.sqlite3", "copied.sqlite3")
        with closing(sqlite3.connect("hbus.sqlite3")) as other:
            other.execute(statement)
    count = "SELECT count(*) FROM letter"
    with (
        closing(sqlite3.connect(statement.split("'")[1])) as backup,
        closing(sqlite3.connect("copied.sqlite3")) as file,
    ):
        assert backup.execute(count).fetchone() == (1,)
        assert file.execute(count).fetchone() == (0,), "a plain copy would do, and operations.md says that it does not"
