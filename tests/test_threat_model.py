"""The threat model says what holds: every claim names a test, and every test it names is there."""

from __future__ import annotations

import re

import pytest

from hbus_console.state import ROOT

TEXT = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
TESTS = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
FUNCTIONS = {name for text in TESTS.values() for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", text, re.M)}
#: The tables whose lines are claims.
CLAIMS = ("Who is trusted with what", "Boundaries, and what stands at each")


def _named(text: str) -> list[str]:
    """The tests in backticks: a function, or a file by its name or path."""
    return re.findall(r"`((?:[\w/]+/)?test_\w+(?:\.py)?)`", text)


def _is_there(name: str) -> bool:
    if name.endswith(".py"):
        return any(f"/{path.relative_to(ROOT)}".endswith(f"/{name}") for path in TESTS)
    return name in FUNCTIONS


def _rows(section: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    under = TEXT.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in under.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_test_that_it_names_is_there() -> None:
    assert len(_named(TEXT)) > 80
    assert [name for name in _named(TEXT) if not _is_there(name)] == []


@pytest.mark.parametrize("section", CLAIMS)
def test_every_claim_names_a_test(section: str) -> None:
    rows = _rows(section)
    assert len(rows) >= 10
    assert [row for row in rows if len(row) != 4 or not any(map(_is_there, _named(row[3])))] == []


def test_what_is_not_there_is_found() -> None:
    assert not _is_there("test_nothing_of_this_name")
    assert not _is_there("elsewhere/test_threat_model.py")
    assert _is_there("tests/test_threat_model.py")


def test_no_threat_stands_twice() -> None:
    """A merge that keeps both sides of a changed line makes two of it, in different words."""
    boundary, seen = "", []
    for row in _rows(CLAIMS[1]):
        boundary = row[0] or boundary
        seen.append((boundary, row[1]))
    assert [threat for threat in seen if seen.count(threat) > 1] == []
