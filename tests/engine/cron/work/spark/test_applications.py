"""What lies in the folder of applications may be run, and nothing is reached from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import BadInput, ConfigurationError
from engine.cron.work.spark.applications import APPLICATIONS, MODULES, ApplicationFolder


@pytest.fixture
def folder(tmp_path: Path) -> ApplicationFolder:
    """With an application, one below, and links: within, out, to a folder outside, to nothing, in a ring, to none."""
    apps = tmp_path / "apps"
    (apps / "nightly").mkdir(parents=True)
    for file in (apps / "stays.py", apps / "nightly" / "a-1.py", tmp_path / "outside.py", apps / ".hidden.py"):
        file.touch()
    (apps / "words.txt").touch()
    (apps / "folder.py").mkdir()
    (apps / "link.py").symlink_to("stays.py")
    (apps / "out.py").symlink_to(tmp_path / "outside.py")
    (apps / "away").symlink_to(tmp_path)
    (apps / "nowhere.py").symlink_to(tmp_path / "no-such.py")
    (apps / "ring.py").symlink_to("ring.py")
    (apps / "other.py").symlink_to("words.txt")
    return ApplicationFolder(apps, "HBUS_SPARK_APPS")


@pytest.mark.parametrize(
    ("name", "leads_to"), [("stays.py", "stays.py"), ("nightly/a-1.py", "nightly/a-1.py"), ("link.py", "stays.py")]
)
def test_what_lies_there_is_found(folder: ApplicationFolder, name: str, leads_to: str) -> None:
    assert folder.file(name, APPLICATIONS, "target") == folder.named.resolve() / leads_to


@pytest.mark.parametrize(
    "name",
    [
        "../outside.py", "nightly/../../outside.py", "nightly/../stays.py", "/etc/hosts.py", "//stays.py", "./stays.py",
        "out.py", "away/outside.py", "nowhere.py", "ring.py", "other.py", "no-such.py", "folder.py", "words.txt",
        ".hidden.py", "", "stays.py\n", "a b.py", "a,b.py", "*.py", "st?ys.py", "file:stays.py", "nightly//a-1.py",
        "-x.py", "stäys.py", "a" * 300 + ".py",
    ],
)  # fmt: skip
def test_what_does_not_lie_there_is_refused(folder: ApplicationFolder, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        folder.file(name, APPLICATIONS, "target")
    assert (refused.value.field, bool(refused.value.remedy)) == ("target", True)
    assert str(folder.named.parent) not in str(refused.value)


def test_what_is_brought_along_may_be_packed(folder: ApplicationFolder) -> None:
    (folder.named / "rates.zip").touch()
    assert folder.file("rates.zip", MODULES, "options").name == "rates.zip"
    with pytest.raises(BadInput):
        folder.file("rates.zip", APPLICATIONS, "target")


def test_the_folder_itself_may_be_a_link(folder: ApplicationFolder) -> None:
    current = folder.named.parent / "current"
    current.symlink_to(folder.named)
    assert ApplicationFolder(current, "X").file("stays.py", APPLICATIONS, "target").name == "stays.py"


@pytest.mark.parametrize("name", ["no-such", "file", "a,b", "a#b"])
def test_a_folder_that_is_of_no_use_is_told_by_its_setting(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    for odd in ("a,b", "a#b"):
        (tmp_path / odd).mkdir()
    with pytest.raises(ConfigurationError) as refused:
        ApplicationFolder(tmp_path / name, "HBUS_SPARK_APPS").file("stays.py", APPLICATIONS, "target")
    assert (refused.value.field, bool(refused.value.remedy)) == ("HBUS_SPARK_APPS", True)
