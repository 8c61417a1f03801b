"""An app of HBUS_APPS that cannot be loaded is named at the start, with its file and what to do about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT

BROKEN = {
    "import nothing_of_the_kind": "ModuleNotFoundError: No module named 'nothing_of_the_kind' ({file}, line 1)",
    "x = 1\nraise ValueError('no licence')": "ValueError: no licence ({file}, line 2)",
    "x = 1\n\nFEATURE = (": "SyntaxError",
    "from pathlib import Path\nPath(1)": "({file}, line 2)",
    "FEATURE = 5": "FEATURE is no Feature but of type int ({file}",
    "": "AttributeError: module 'booking_fraud.feature' has no attribute 'FEATURE' ({file}",
}


def refusal(folder: Path, apps: str, *command: str) -> str:
    """What a command that cannot start says."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HBUS_APPS": apps, "STATE": str(folder / "state")}
    ended = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stdout + ended.stderr
    assert ended.stderr.count("\n") == 1
    return ended.stderr


@pytest.fixture
def feature(tmp_path: Path) -> Path:
    """The file to write a feature into."""
    app = tmp_path / "booking_fraud"
    app.mkdir()
    (app / "__init__.py").touch()
    return app / "feature.py"


@pytest.mark.parametrize("text", BROKEN)
def test_a_feature_that_cannot_be_loaded(feature: Path, text: str) -> None:
    feature.write_text(text, encoding="utf-8")

    said = refusal(feature.parent.parent, "examples.hotel,booking_fraud", "check")

    assert said.startswith("hbus: The feature of the app 'booking_fraud' cannot be loaded: ")
    assert BROKEN[text].format(file=feature) in said
    assert str(feature) in said
    assert said.endswith("Correct that file, or take booking_fraud out of HBUS_APPS.\n")


@pytest.mark.parametrize("command", ["up", "role keeper", "role web"])
def test_every_start_says_so(feature: Path, command: str) -> None:
    feature.write_text("raise ValueError('no licence')", encoding="utf-8")
    assert "'booking_fraud' cannot be loaded: ValueError: no licence" in refusal(
        feature.parent.parent, "booking_fraud", *command.split()
    )


@pytest.mark.parametrize("name", ["booking_frau", "nothing.booking_fraud", "no/name", "."])
def test_an_app_that_is_not_there(feature: Path, name: str) -> None:
    feature.touch()
    assert refusal(feature.parent.parent, name, "check").startswith(f"hbus: HBUS_APPS names {name!r}, and there is no")
