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
    "import sys\nsys.exit(3)": "SystemExit: 3 ({file}, line 2)",
    "FEATURE = 5": "FEATURE is no Feature but of type int ({file}",
    "": "AttributeError: module 'booking_fraud.feature' has no attribute 'FEATURE' ({file}",
}


def refusal(folder: Path, apps: str, *command: str) -> str:
    """What a command that cannot start says."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HBUS_APPS": apps, "STATE": str(folder / "state")}
    (folder / "state").mkdir(exist_ok=True)
    # Of a role where there is no installation, that would be said instead.
    (folder / "state" / "hbus.sqlite3").touch()
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


@pytest.mark.parametrize("command", ["check", "up", "role keeper"])
@pytest.mark.parametrize("text", ["\nraise RuntimeError('no licence')", "\nraise SystemExit('no licence')"])
def test_an_app_whose_package_cannot_be_loaded(feature: Path, command: str, text: str) -> None:
    package = feature.with_name("__init__.py")
    package.write_text(text, encoding="utf-8")

    said = refusal(feature.parent.parent, "booking_fraud", *command.split())

    assert said.startswith("hbus: The app 'booking_fraud' cannot be loaded: ")
    assert f"no licence ({package}, line 2). Correct that file, or take booking_fraud out of HBUS_APPS." in said


def test_an_app_in_a_package_that_cannot_be_loaded(feature: Path) -> None:
    feature.with_name("__init__.py").write_text("raise RuntimeError('no licence')", encoding="utf-8")
    (feature.parent / "cards").mkdir()
    (feature.parent / "cards" / "__init__.py").touch()

    said = refusal(feature.parent.parent, "booking_fraud.cards", "check")

    assert said.startswith("hbus: The app 'booking_fraud.cards' cannot be loaded: RuntimeError: no licence (")


DECLARED = {
    "duties=('booking_fraud.nowhere:Nope',)": (
        "duties, 'booking_fraud.nowhere:Nope', cannot be loaded: ModuleNotFoundError: "
        "No module named 'booking_fraud.nowhere' ({folder}/feature.py)"
    ),
    "concerns=('booking_fraud.parts:Nope',)": "concerns, 'booking_fraud.parts:Nope', cannot be loaded: AttributeError",
    "projection='booking_fraud.raises:make'": "projection, 'booking_fraud.raises:make', cannot be loaded: "
    "ValueError: no licence ({folder}/raises.py, line 2)",
    "pages=(Mount('fraud/', 'booking_fraud.no_urls'),)": "pages.urls, 'booking_fraud.no_urls', cannot be loaded: ",
    "api=('booking_fraud.no_api',)": "api, 'booking_fraud.no_api', cannot be loaded: ",
    "needs_role={'keeper': 'booking_fraud.parts:nope'}": "needs_role, 'booking_fraud.parts:nope', cannot be loaded: ",
    "subjects=(SubjectKind('card', 'card', address='booking_fraud.exits:x'),)": (
        "subjects.address, 'booking_fraud.exits:x', cannot be loaded: SystemExit: 3 ({folder}/exits.py, line 1)"
    ),
}


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("command", ["check", "prepare"])
def test_a_declared_path_that_leads_nowhere(feature: Path, declared: str, command: str) -> None:
    folder = feature.parent
    feature.write_text(
        "from hbus_console.registry.declaration import Feature, Mount, SubjectKind\n"
        f"FEATURE = Feature(name='fraud', {declared})\n",
        encoding="utf-8",
    )
    (folder / "parts.py").touch()
    (folder / "raises.py").write_text("\nraise ValueError('no licence')", encoding="utf-8")
    (folder / "exits.py").write_text("raise SystemExit(3)", encoding="utf-8")

    said = refusal(folder.parent, "booking_fraud", command)

    assert f"What the feature of the app 'booking_fraud' declares in {DECLARED[declared].format(folder=folder)}" in said
    assert said.endswith("Correct that file, or take booking_fraud out of HBUS_APPS.\n")
